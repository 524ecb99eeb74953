package operator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// objectsOf returns the host web, its Secret, and the other objects of the host.
func (b *bench) objectsOf() map[string]client.Object {
	return map[string]client.Object{
		"BareMetalHost":          &v1alpha1.BareMetalHost{ObjectMeta: b.meta("web")},
		"Secret":                 &corev1.Secret{ObjectMeta: b.meta("web-bmc")},
		"HardwareData":           &v1alpha1.HardwareData{ObjectMeta: b.meta("web")},
		"HostFirmwareSettings":   &v1alpha1.HostFirmwareSettings{ObjectMeta: b.meta("web")},
		"HostFirmwareComponents": &v1alpha1.HostFirmwareComponents{ObjectMeta: b.meta("web")},
		"DataImage":              &v1alpha1.DataImage{ObjectMeta: b.meta("web")},
		"PreprovisioningImage":   &v1alpha1.PreprovisioningImage{ObjectMeta: b.meta("web")},
	}
}

// hasAll waits until all these objects are there.
func (b *bench) hasAll() {
	b.Helper()
	b.eventually("all objects", func() string {
		for kind, obj := range b.objectsOf() {
			if err := b.client.Get(context.Background(), client.ObjectKeyFromObject(obj), obj); err != nil {
				return kind + ": " + err.Error()
			}
		}
		return ""
	})
}

// endNamespace deletes the namespace.
func (b *bench) endNamespace() {
	b.Helper()
	space := &corev1.Namespace{}
	space.Name = b.namespace
	if err := b.client.Delete(context.Background(), space); err != nil {
		b.Fatal(err)
	}
}

// ended waits until the namespace is gone, and the nodes of its hosts with it.
func (b *bench) ended() {
	b.Helper()
	began := time.Now()
	b.eventually("the end of the namespace", func() string {
		space := &corev1.Namespace{}
		err := b.client.Get(context.Background(), client.ObjectKey{Name: b.namespace}, space)
		if apierrors.IsNotFound(err) {
			return ""
		}
		if err != nil {
			return err.Error()
		}
		var left []string
		for _, c := range space.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				left = append(left, c.Message)
			}
		}
		if h := b.host("web"); h != nil {
			left = append(left, fmt.Sprintf("host in %q, error %q, %s", h.Status.Provisioning.State, h.Status.ErrorMessage, conditionText(h.Status.Conditions)))
		}
		return strings.Join(left, "; ")
	})
	b.Logf("the namespace ended after %s", time.Since(began).Round(time.Millisecond))
	nodes, err := b.engine.Nodes(context.Background(), provisioner.ListOptions{})
	if err != nil || len(nodes) != 0 {
		b.Errorf("nodes %+v, %v; want none", nodes, err)
	}
}

// withEverything returns a bench with a host that has objects of all kinds that the operator knows.
func withEverything(t *testing.T, config *rest.Config) *bench {
	t.Helper()
	b := newBenchOn(t, config, withServedImages)
	b.create(&v1alpha1.DataImage{ObjectMeta: b.meta("web"), Spec: v1alpha1.DataImageSpec{URL: dataURL}})
	b.bmcHost("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/os.qcow2") })
	b.inState("web", v1alpha1.StateProvisioned)
	b.poweredOn("web")
	b.hasAll()
	return b
}

func withServedImages(o *operator.Options) {
	withImages(true)(o)
	o.MaxBackoff = 200 * time.Millisecond
}

func TestNamespaceEndsInWhateverOrderItsObjectsAreDeleted(t *testing.T) {
	t.Parallel()
	config := controlplanetest.Start(t, controlplanetest.Options{ControllerManager: true}).Config()
	undeployed := func(b *bench) {
		b.Helper()
		if got := b.asked("web"); !slices.Contains(got, "undeploy") || got[len(got)-1] != "delete" {
			b.Errorf("asked of the machine: %q, want the removal of its deployment and at the end that of its node", got)
		}
	}
	for kind := range (&bench{}).objectsOf() {
		t.Run(kind+" first", func(t *testing.T) {
			t.Parallel()
			b := withEverything(t, config)
			b.remove(b.objectsOf()[kind])
			b.endNamespace()
			b.ended()
			undeployed(b)
		})
	}
	t.Run("while no operator runs", func(t *testing.T) {
		t.Parallel()
		b := withEverything(t, config)
		b.stop()
		b.endNamespace()
		b.eventually("the deletion of all that is kept by finalizers", func() string {
			for _, kind := range []string{"BareMetalHost", "Secret", "HardwareData", "DataImage", "PreprovisioningImage"} {
				obj := b.objectsOf()[kind]
				if err := b.client.Get(context.Background(), client.ObjectKeyFromObject(obj), obj); err != nil || obj.GetDeletionTimestamp() == nil {
					return fmt.Sprintf("%s: %v, deleted at %v", kind, err, obj.GetDeletionTimestamp())
				}
			}
			return ""
		})
		b.startWith(config, withServedImages)
		b.ended()
		undeployed(b)
	})
	// A host that is attached again needs a node to remove its deployment, while the namespace
	// takes no new objects.
	t.Run("while the host is detached and the engine is away", func(t *testing.T) {
		t.Parallel()
		b := withEverything(t, config)
		h := b.host("web")
		b.annotate(h, v1alpha1.DetachedAnnotation, `{"deleteAction":"delay"}`)
		b.eventually("detached", func() string {
			if h := b.host("web"); h.Status.OperationalStatus != v1alpha1.OperationalStatusDetached {
				return string(h.Status.OperationalStatus)
			}
			return ""
		})
		b.endNamespace()
		b.eventually("the deletion of the host and its image", func() string {
			image := b.objectsOf()["PreprovisioningImage"]
			err := b.client.Get(context.Background(), client.ObjectKeyFromObject(image), image)
			if err != nil || image.GetDeletionTimestamp() == nil || b.host("web").DeletionTimestamp == nil {
				return fmt.Sprintf("image %v, %v", image.GetDeletionTimestamp(), err)
			}
			return ""
		})
		b.engine.SetDown("it is upgraded")
		b.update(h, func() { delete(h.Annotations, v1alpha1.DetachedAnnotation) })
		b.eventually("the end of the image", func() string {
			image := b.objectsOf()["PreprovisioningImage"]
			if err := b.client.Get(context.Background(), client.ObjectKeyFromObject(image), image); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%v, finalizers %v", err, image.GetFinalizers())
			}
			return ""
		})
		b.engine.SetDown("")
		b.annotate(b.host("web"), "example.com/engine-is-back", "") // the host may have begun a wait of minutes
		b.ended()
	})
}
