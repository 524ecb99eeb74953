package machine

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
)

func TestPauseOfOthersStays(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	edit(b, b.host("a"), pausedAs("a person"))
	b.pause(true)
	b.passes()
	if m := b.machine(); m.Annotations[related.BlockMoveAnnotation] != "" || !meta.IsStatusConditionTrue(m.Status.Conditions, v1beta2.PausedCondition) {
		t.Errorf("machine is %+v, want a paused one that can be moved", m)
	}
	b.pause(false)
	b.passes()
	if got := b.host("a").Annotations[v1alpha1.PausedAnnotation]; got != "a person" {
		t.Errorf("the pause of a person became %q", got)
	}
	b.remove()
	b.passes()
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.DeletingReason, "paused: remove its annotation")
}

func TestMachineCanBeMovedOnlyWhenItsHostIsPaused(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.passes()
	b.hostsWork() // provisioning
	b.pause(true)
	b.passes()
	if _, blocked := b.machine().Annotations[related.BlockMoveAnnotation]; !blocked || isAnnotated(b.host("a"), v1alpha1.PausedAnnotation) {
		t.Errorf("a host in state %q was paused", b.host("a").Status.Provisioning.State)
	}
	b.hostsWork() // provisioned
	b.passes()
	if _, blocked := b.machine().Annotations[related.BlockMoveAnnotation]; blocked || !isAnnotated(b.host("a"), v1alpha1.StatusAnnotation) {
		t.Errorf("the machine cannot be moved; its host has annotations %v", b.host("a").Annotations)
	}
}

func TestMachineCanBeMovedOnlyWhenTheNodeOfItsHostIsReleased(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	report(b, b.host("a"), func(h *v1alpha1.BareMetalHost) {
		h.Status.LastUpdated, h.Status.Provisioning.ID = &metav1.Time{Time: began}, "node-1"
		h.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PowerManagementSupportedCondition, Status: metav1.ConditionTrue}}
	})
	b.pause(true)
	b.passes()
	if _, blocked := b.machine().Annotations[related.BlockMoveAnnotation]; !blocked {
		t.Error("clusterctl could move the machine before the node of its host is released")
	}
	b.wantCondition(v1beta2.PausedCondition, metav1.ConditionTrue, v1beta2.PausedReason, v1alpha1.ReleasedAnnotation)
	edit(b, b.host("a"), func(h *v1alpha1.BareMetalHost) {
		h.Annotations[v1alpha1.ReleasedAnnotation] = v1alpha1.ReleaseOf(h.Annotations[v1alpha1.StatusAnnotation])
	})
	b.passes()
	if _, blocked := b.machine().Annotations[related.BlockMoveAnnotation]; blocked {
		t.Errorf("the machine cannot be moved: %+v", b.condition(v1beta2.PausedCondition))
	}
}

func TestMachineThatHasGivenItsHostBackIsNotMoved(t *testing.T) {
	for name, tt := range map[string]struct {
		remove  func(*bench)
		blocked bool
	}{
		"not deleted":                  {func(*bench) {}, false},
		"deleted while it was paused":  {func(b *bench) { b.pause(true); b.remove() }, false},
		"waiting for its host":         {func(b *bench) { b.remove(); b.passes() }, true},
		"after a pause that has ended": {func(b *bench) { b.pause(true); b.passes(); b.pause(false); b.remove(); b.passes() }, true},
		"with its host reserved": {func(b *bench) {
			b.keeping.reservation = reuse.Reservation{Owner: owner, At: began}
			b.remove()
			b.passes()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			b.run()
			tt.remove(b)
			b.pause(true)
			b.passes()
			if _, blocked := b.machine().Annotations[related.BlockMoveAnnotation]; blocked != tt.blocked {
				t.Errorf("clusterctl has to wait: %v, want %v; %+v", blocked, tt.blocked, b.condition(v1beta2.PausedCondition))
			}
			if tt.blocked {
				b.wantCondition(v1beta2.PausedCondition, metav1.ConditionTrue, v1beta2.PausedReason, "end the pause, and move when it is gone")
			}
			b.pause(false)
			b.remove()
			b.run()
			if b.machine() != nil {
				t.Error("the machine is not gone")
			}
		})
	}
}

func TestMovedHostIsNotReleasedBeforeItsStatusIsRestored(t *testing.T) {
	for name, kept := range map[string]bool{"reserved": true, "not reserved": false} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			b.run()
			status := b.host("a").Status
			report(b, b.host("a"), func(h *v1alpha1.BareMetalHost) { h.Status = v1alpha1.BareMetalHostStatus{} })
			if kept {
				b.keeping.reservation = reuse.Reservation{Owner: owner, At: began}
			}
			b.remove()
			b.passes()
			b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.DeletingReason, "no host operator has said yet")
			if h := b.host("a"); isSpecified(h) || !isConsumed(h) {
				t.Errorf("host %+v, want it without image and not free", h.Spec)
			}
			report(b, b.host("a"), func(h *v1alpha1.BareMetalHost) { h.Status = status })
			b.passes()
			if b.machine() == nil {
				t.Fatal("the machine went while its host is provisioned")
			}
			b.run()
			if h := b.host("a"); b.machine() != nil || reuse.IsReserved(h) != kept || isConsumed(h) != kept {
				t.Errorf("machine is there: %v; host %+v", b.machine() != nil, h.Spec)
			}
		})
	}
}

// TestMovedMachineGoesOn creates the objects of a machine as clusterctl does in another cluster: with other
// UIDs and without status.
func TestMovedMachineGoesOn(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	b.pause(true)
	b.passes()
	m, h := b.machine(), b.host("a")
	target := newMachineBench(t)
	target.pause(true)
	if err := target.api.Delete(t.Context(), target.machine()); err != nil {
		t.Fatal(err)
	}
	status := h.Status
	m.UID, m.ResourceVersion, m.Status = "moved", "", v1beta2.Metal3MachineStatus{}
	h.UID, h.ResourceVersion, h.Status = "moved-host", "", v1alpha1.BareMetalHostStatus{}
	for _, obj := range []client.Object{m, h} {
		if err := target.api.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	target.passes()
	target.pause(false)
	target.passes()
	if h := target.held(); h == nil || h.Spec.ConsumerRef.UID != "moved" || h.Annotations[v1beta2.ConsumerHostUIDAnnotation] != "moved-host" || isAnnotated(h, v1alpha1.PausedAnnotation) || !isAnnotated(h, v1alpha1.StatusAnnotation) {
		t.Fatalf("host %+v, want the same one, with the UIDs of here, without its pause and with its status", h)
	}
	target.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.NotReadyReason, "in state")
	report(target, target.host("a"), func(h *v1alpha1.BareMetalHost) { h.Status = status })
	target.passes()
	target.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
	if m := target.machine(); m.Spec.ProviderID != "metal3://metal/a/m-1" || m.Status.UserData == nil {
		t.Errorf("machine is %+v", m)
	}
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.DeletedForMoveAnnotation, "")
	})
	b.remove()
	b.pause(false)
	b.passes()
	if h := b.held(); h == nil || !isSpecified(h) {
		t.Error("the object that was moved released its host")
	}
}
