package machine

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/infrastructure"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
)

// everything makes passes of all controllers that have to do with the hosts of a Cluster.
func (b *bench) everything() {
	b.Helper()
	clusters := infrastructure.New(infrastructure.Config{Client: b.api, Live: b.api, Recorder: b.events, Now: b.r.Now})
	reserved := reuse.New(reuse.Config{Client: b.api, Live: b.api, Recorder: b.events, Now: b.r.Now})
	b.r.Reuse = reuse.Reuse{Client: b.api, Live: b.api, Now: b.r.Now}
	for range 3 {
		_, _ = clusters.Reconcile(b.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "edge"}})
		for _, h := range b.hosts() {
			_, _ = reserved.Reconcile(b.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&h)})
		}
		b.passes()
	}
}

// move takes all objects to another cluster as clusterctl does, which creates them there, owners
// first, with other UIDs and without status.
func (b *bench) move() *bench {
	b.Helper()
	to, uids := newBench(b.TB), map[types.UID]types.UID{}
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &v1beta2.Metal3ClusterList{}, &v1beta2.Metal3MachineTemplateList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{},
		&clusterv1.MachineList{}, &v1beta2.Metal3MachineList{}, &v1alpha1.BareMetalHostList{}, &corev1.SecretList{},
	} {
		if err := b.api.List(b.Context(), list); err != nil {
			b.Fatal(err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(client.Object)
			uids[obj.GetUID()] = obj.GetUID() + "+"
			obj.SetUID(uids[obj.GetUID()])
			obj.SetResourceVersion("")
			owners := obj.GetOwnerReferences()
			for i := range owners {
				owners[i].UID = uids[owners[i].UID]
			}
			obj.SetOwnerReferences(owners)
			switch o := obj.(type) {
			case *clusterv1.Cluster: // its controller has seen it before anybody resumes it
				o.Status = clusterv1.ClusterStatus{Initialization: o.Status.Initialization}
			case *v1beta2.Metal3Cluster:
				o.Status = v1beta2.Metal3ClusterStatus{}
			case *v1beta2.Metal3Machine:
				o.Status = v1beta2.Metal3MachineStatus{}
			case *v1alpha1.BareMetalHost:
				o.Status = v1alpha1.BareMetalHostStatus{}
			}
			return to.api.Create(b.Context(), obj)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return to
}

// restore restores the status of hosts, as their operator does when the hosts are not paused any
// more.
func (b *bench) restore() {
	b.Helper()
	for _, h := range b.hosts() {
		text, there := h.Annotations[v1alpha1.StatusAnnotation]
		if !there || isAnnotated(&h, v1alpha1.PausedAnnotation) {
			continue
		}
		edit(b, &h, func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.StatusAnnotation) })
		report(b, &h, func(h *v1alpha1.BareMetalHost) {
			if err := json.Unmarshal([]byte(text), &h.Status); err != nil {
				b.Error(err)
			}
			h.Status.LastUpdated = &metav1.Time{Time: began}
		})
	}
}

func TestMachinesAndReservedHostsMoveThereAndBack(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.madeOf("workers", "")
	deployment := b.ownedByDeployment("workers")
	edit(b, deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(2)) })
	edit(b, &v1beta2.Metal3Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "edge"}}, func(c *v1beta2.Metal3Cluster) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "edge", UID: "uid-of-cluster"}}
	})
	b.run()
	for _, h := range []*v1alpha1.BareMetalHost{newHost("kept", reservedFor(owner, began), labelled(clusterv1.ClusterNameLabel, "edge")), newHost("free")} {
		if err := b.api.Create(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	for _, where := range []string{"there", "back"} {
		b.everything()
		b.pause(true)
		b.everything()
		var infra v1beta2.Metal3Cluster
		if err := b.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "edge"}, &infra); err != nil {
			t.Fatal(err)
		}
		for _, obj := range []client.Object{&infra, b.machine()} {
			if _, blocked := obj.GetAnnotations()[related.BlockMoveAnnotation]; blocked {
				t.Errorf("%s: %T cannot be moved", where, obj)
			}
		}
		b = b.move()
		b.everything()
		for name, want := range map[string]bool{"a": true, "kept": true, "free": false} {
			if got := related.IsPausedByUs(b.host(name)); got != want {
				t.Errorf("%s: host %s is paused before the Cluster is resumed: %v", where, name, got)
			}
		}
		b.pause(false)
		b.everything()
		b.restore()
		b.everything()

		b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
		m, h := b.machine(), b.host("a")
		if h.Spec.ConsumerRef.UID != m.UID || h.Annotations[v1beta2.ConsumerHostUIDAnnotation] != string(h.UID) || !isSpecified(h) || h.Status.Provisioning.State != v1alpha1.StateProvisioned {
			t.Errorf("%s: host a has the consumer %+v and is in state %q; the machine is of UID %s", where, h.Spec.ConsumerRef, h.Status.Provisioning.State, m.UID)
		}
		now := owner
		now.UID = b.deployment().UID
		kept := b.host("kept")
		if !reuse.ReservedFor(&now, kept) || kept.Spec.ConsumerRef.UID != now.UID || !reuse.ReservedAt(kept).Equal(began) || related.IsPausedByUs(kept) {
			t.Errorf("%s: host kept has the consumer %+v, reserved at %s, paused %v; want it kept for UID %s since %s", where,
				kept.Spec.ConsumerRef, reuse.ReservedAt(kept), related.IsPausedByUs(kept), now.UID, began)
		}
	}
	b.removeMachine()
	b.everything()
	if h := b.host("a"); isSpecified(h) || !reuse.IsReserved(h) || b.machine() == nil {
		t.Errorf("host a is %+v, the machine is there: %v; want the host reserved, and the machine waiting for it", h.Spec, b.machine() != nil)
	}
	b.run()
	if h := b.host("a"); b.machine() != nil || !reuse.IsReserved(h) || h.Status.Provisioning.State != v1alpha1.StateAvailable {
		t.Errorf("host a is %+v in state %q, the machine is there: %v", h.Spec, h.Status.Provisioning.State, b.machine() != nil)
	}
}

func (b *bench) deployment() *clusterv1.MachineDeployment {
	b.Helper()
	d := &clusterv1.MachineDeployment{}
	if err := b.api.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: owner.Name}, d); err != nil {
		b.Fatal(err)
	}
	return d
}
