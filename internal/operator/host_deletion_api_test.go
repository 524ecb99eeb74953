package operator_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestPausedHostIsNotTouchedEvenWhenDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.plainHost("demo-paused", nil)
	b.inState("demo-paused", v1alpha1.StateAvailable)
	b.update(h, func() { h.Annotations = map[string]string{v1alpha1.PausedAnnotation: v1alpha1.PausedByClusterAPI} })
	b.engine.Change(b.host("demo-paused").Status.Provisioning.ID, func(n *provisioner.Node) { n.State = node.Manageable })
	b.remove(h)
	b.forAWhile("paused host", func() string {
		if got := b.host("demo-paused"); got == nil || got.Status.Provisioning.State != v1alpha1.StateAvailable {
			return "it was touched"
		}
		return ""
	})
	b.update(h, func() { delete(h.Annotations, v1alpha1.PausedAnnotation) })
	b.gone("demo-paused")
}

func TestDeletionForgetsTheNodeAndTheHardwareData(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.plainHost("demo-gone", nil)
	id := b.inState("demo-gone", v1alpha1.StateAvailable).Status.Provisioning.ID
	b.remove(h)
	b.gone("demo-gone")
	if _, err := b.engine.Node(t.Context(), id); err == nil {
		t.Error("the engine still knows the node")
	}
	err := b.client.Get(t.Context(), client.ObjectKeyFromObject(h), &v1alpha1.HardwareData{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("hardware data: got %v, want not found", err)
	}
}

func TestHostsCanBeDeletedBeforeTheyAreAvailable(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for name, state := range map[string]v1alpha1.ProvisioningState{
		"demo-unmanaged": v1alpha1.StateUnmanaged,
		"demo-importing": v1alpha1.StateImporting,
		"demo-preparing": v1alpha1.StatePreparing,
	} {
		h := b.plainHost(name, nil)
		b.inState(name, state)
		b.remove(h)
		b.gone(name)
	}
}

func TestFailedDeletionIsShownAndCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.plainHost("demo-delete-error", nil)
	b.inState("demo-delete-error", v1alpha1.StateAvailable)
	b.remove(h)
	b.eventually("registration error", func() string {
		h := b.host("demo-delete-error")
		if h == nil {
			return "host is gone"
		}
		if h.Status.ErrorType != v1alpha1.ErrorRegistration || h.Status.ErrorCount != 1 {
			return string(h.Status.ErrorType)
		}
		return ""
	})
	b.hasEvent("demo-delete-error", "RegistrationError")
}

func TestDeletionEndsEvenWhenTheEngineRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) { o.MaxBackoff = 10 * time.Millisecond })
	d := b.discover("everything", nil)
	h := b.plainHost("demo-delete-error", nil)
	b.inState("demo-delete-error", v1alpha1.StateAvailable)
	b.remove(h)
	b.gone("demo-delete-error")
	b.hasEvent("demo-delete-error", "DeleteGaveUp")

	// Discovery must not take the remaining node for a machine that somebody has booted.
	b.boot("new")
	b.inState("new", v1alpha1.StateAvailable)
	b.awaitDiscovery(d, "leaving the node out", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool { return s.Counts.Created == 1 })
	if b.host("demo-delete-error") != nil {
		t.Error("discovery created the host of the node again that the engine refused to delete")
	}
}

func TestDeletionEndsEvenWhenTheEngineIsDown(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) { o.MaxBackoff = 10 * time.Millisecond })
	h := b.plainHost("demo-cut-off", nil)
	b.inState("demo-cut-off", v1alpha1.StateAvailable)
	b.engine.SetDown("no route to host")
	b.remove(h)
	b.gone("demo-cut-off")
	b.hasEvent("demo-cut-off", "DeleteGaveUp")
}
