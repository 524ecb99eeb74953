package autoscale

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestSetsWithoutTheLabelThatTheFilterWantsKeepTheirSizeAndTheirHosts(t *testing.T) {
	t.Parallel()
	labelled := func(value string) func(*clusterv1.MachineDeployment) {
		return func(d *clusterv1.MachineDeployment) { d.Labels[clusterv1.WatchLabel] = value }
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, v1beta2.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	template := template("a")
	h := host("h-1", "a")
	other := deployment("other", labelled("red"))
	none := deployment("none")
	own := deployment("own", labelled("blue"))
	// Both are older, so the host is counted for the first of them.
	for _, d := range []*clusterv1.MachineDeployment{other, none} {
		*d.Spec.Replicas = 0
		d.CreationTimestamp.Time = time.Unix(1, 0)
	}
	own.CreationTimestamp.Time = time.Unix(2, 0)
	*own.Spec.Replicas = 0
	own.Annotations[v1beta2.AutoscaleMinAnnotation] = "2"
	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name = "metal", "edge"
	h.Namespace = "metal"
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(template, &h, other, none, own, cluster).
		WithStatusSubresource(&clusterv1.MachineDeployment{}).Build()
	r := New(Config{Client: api, Live: api, Recorder: events.NewFakeRecorder(100), Now: time.Now, Filter: "blue"})
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "metal"}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int32{"other": 0, "none": 0, "own": 2} {
		var d clusterv1.MachineDeployment
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "metal", Name: name}, &d); err != nil {
			t.Fatal(err)
		}
		if *d.Spec.Replicas != want || (len(d.Status.Conditions) > 0) != (name == "own") {
			t.Errorf("%s has %d replicas and conditions %v, want %d", name, *d.Spec.Replicas, d.Status.Conditions, want)
		}
	}
}
