package invariant_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/polltest"
	"github.com/ingot-metal/ingot/internal/sim/invariant"
)

func TestHostThatGetsASecondMachineIsReported(t *testing.T) {
	config := controlplanetest.Start(t, controlplanetest.Options{}).Config()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, v1beta2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := invariant.NewWatch(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- watch.Run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}

	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "h"}}
	if err := api.Create(ctx, host); err != nil {
		t.Fatal(err)
	}
	host.Status.Provisioning.State = v1alpha1.StateAvailable
	if err := api.Status().Update(ctx, host); err != nil {
		t.Fatal(err)
	}
	claim := func(name string) *v1beta2.Metal3Machine {
		t.Helper()
		machine := &v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Annotations: map[string]string{v1beta2.HostAnnotation: "default/h"},
		}}
		if err := api.Create(ctx, machine); err != nil {
			t.Fatal(err)
		}
		host.Spec.ConsumerRef = &corev1.ObjectReference{
			APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3Machine", Namespace: "default", Name: name,
		}
		if err := api.Update(ctx, host); err != nil {
			t.Fatal(err)
		}
		return machine
	}
	shared := func() []invariant.Shared {
		t.Helper()
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		found, err := watch.SharedHosts(bounded)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}

	taken := func() []invariant.Taken {
		t.Helper()
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		found, err := watch.TakenHosts(bounded, invariant.RunningOn(nil))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}

	first := claim("first")
	if err := api.Delete(ctx, first); err != nil {
		t.Fatal(err)
	}
	claim("second")
	if found := shared(); len(found) != 0 {
		t.Errorf("%v, want none: the first machine was deleted before", found)
	}
	if found := taken(); len(found) != 0 {
		t.Errorf("%v, want none: the first machine was gone", found)
	}
	claim("third")
	polltest.Until(t, time.Minute, "the host with its second and third machine", func() error {
		found := shared()
		if len(found) == 1 && found[0].Host == "default/h" && found[0].Machines == [2]string{"default/second", "default/third"} {
			return nil
		}
		return fmt.Errorf("it is %v", found)
	})
	if found := taken(); len(found) != 1 || found[0].Machine != "default/third" || found[0].Before != "default/second" {
		t.Errorf("%v, want the host that was taken from the second machine", found)
	}
}
