package operator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// plainHost is a host without a BMC.
func (b *bench) plainHost(name string, change func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	b.Helper()
	h := &v1alpha1.BareMetalHost{ObjectMeta: b.meta(name), Spec: v1alpha1.BareMetalHostSpec{Online: true}}
	if change != nil {
		change(h)
	}
	b.create(h)
	return h
}

func (b *bench) remove(obj client.Object) {
	b.Helper()
	if err := b.client.Delete(context.Background(), obj); err != nil {
		b.Fatal(err)
	}
}

func TestHostFollowsItsNodeToAvailable(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.plainHost("demo-web", nil)
	h := b.inState("demo-web", v1alpha1.StateAvailable)

	if h.Status.Provisioning.ID == "" || h.Status.OperationalStatus != v1alpha1.OperationalStatusOK || !h.Status.PoweredOn {
		t.Errorf("status = %+v, want a node, OK and powered on", h.Status)
	}
	if h.Spec.Architecture != "x86_64" {
		t.Errorf("architecture = %q, want it from the inventory", h.Spec.Architecture)
	}
	if h.Labels[v1alpha1.PowerManagementLabel] != v1alpha1.PowerManagementNone {
		t.Errorf("labels = %v, want power management none", h.Labels)
	}
	if !slices.Contains(h.Finalizers, v1alpha1.HostFinalizer) {
		t.Errorf("finalizers = %v, want the host's", h.Finalizers)
	}
	b.hasCondition("demo-web", v1alpha1.AvailableForProvisioningCondition, metav1.ConditionTrue, v1alpha1.AvailableReason)
	b.hasCondition("demo-web", v1alpha1.PowerManagementSupportedCondition, metav1.ConditionFalse, v1alpha1.NoBMCReason)
	for _, reason := range []string{"ImportStarted", "ImportComplete"} {
		b.hasEvent("demo-web", reason)
	}
	var data v1alpha1.HardwareData
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(h), &data); err != nil {
		t.Fatal(err)
	}
	if owner := metav1.GetControllerOf(&data); owner == nil || owner.UID != h.UID {
		t.Errorf("owners of the hardware data = %v, want the host as controller", data.OwnerReferences)
	}
	if data.Spec.HardwareDetails == nil || data.Spec.HardwareDetails.RAMMebibytes != 65536 {
		t.Errorf("hardware data = %+v, want the inventory", data.Spec.HardwareDetails)
	}
}

func TestHostsStayWhereTheirNodesStay(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, tt := range []struct {
		name            string
		state           v1alpha1.ProvisioningState
		condition       string
		status          metav1.ConditionStatus
		reason          string
		operational     v1alpha1.OperationalStatus
		wantErrorOfKind v1alpha1.ErrorType
	}{
		{
			"demo-unmanaged", v1alpha1.StateUnmanaged, v1alpha1.ManageableCondition, metav1.ConditionFalse,
			v1alpha1.NotManagedReason, v1alpha1.OperationalStatusDiscovered, "",
		},
		{
			"demo-importing", v1alpha1.StateImporting, v1alpha1.ProgressingCondition, metav1.ConditionTrue,
			v1alpha1.ImportingReason, v1alpha1.OperationalStatusDiscovered, "",
		},
		{
			"demo-preparing", v1alpha1.StatePreparing, v1alpha1.ProgressingCondition, metav1.ConditionTrue,
			v1alpha1.PreparingReason, v1alpha1.OperationalStatusOK, "",
		},
		{
			"demo-preparation-error", v1alpha1.StatePreparing, v1alpha1.ReadyCondition, metav1.ConditionFalse,
			v1alpha1.ErrorReason, v1alpha1.OperationalStatusError, v1alpha1.ErrorPreparation,
		},
		{
			"demo-disconnected", v1alpha1.StateAvailable, v1alpha1.AvailableForProvisioningCondition, metav1.ConditionFalse,
			v1alpha1.AgentNotConnectedReason, v1alpha1.OperationalStatusOK, "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &bench{TB: t, client: b.client, engine: b.engine, namespace: b.namespace}
			b.plainHost(tt.name, nil)
			b.hasCondition(tt.name, tt.condition, tt.status, tt.reason)
			h := b.inState(tt.name, tt.state)
			if h.Status.OperationalStatus != tt.operational || h.Status.ErrorType != tt.wantErrorOfKind {
				t.Errorf("operational status %q, error %q; want %q, %q", h.Status.OperationalStatus, h.Status.ErrorType, tt.operational, tt.wantErrorOfKind)
			}
		})
	}
}

func TestHostGoesBackWhenItsNodeLeavesAvailable(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.plainHost("demo-left", nil)
	id := b.inState("demo-left", v1alpha1.StateAvailable).Status.Provisioning.ID
	b.engine.Change(id, func(n *provisioner.Node) { n.State = node.Deploying })
	h := b.inState("demo-left", v1alpha1.StatePreparing)
	b.hasEvent("demo-left", "NodeLeftAvailable")
	c := b.hasCondition("demo-left", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.NotProgressingReason)
	if want := `The node is in state "deploying": another client uses it`; !strings.HasPrefix(c.Message, want) {
		t.Errorf("message = %q, want it to begin with %q", c.Message, want)
	}
	b.engine.Change(h.Status.Provisioning.ID, func(n *provisioner.Node) { n.State = node.Manageable })
	b.inState("demo-left", v1alpha1.StateAvailable)
}

func TestHostWhoseNodeIsLostIsUnmanagedAndComesBackByMAC(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	first := b.boot("lost")
	machine, err := b.engine.MACs(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	b.plainHost("lost", func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = machine[1] })
	b.inState("lost", v1alpha1.StateAvailable)

	b.engine.Forget(first)
	h := b.inState("lost", v1alpha1.StateUnmanaged)
	b.hasEvent("lost", "ImportLost")
	if h.Status.Provisioning.ID != "" {
		t.Errorf("node = %q, want none", h.Status.Provisioning.ID)
	}
	second := b.boot("lost")
	if h := b.inState("lost", v1alpha1.StateAvailable); h.Status.Provisioning.ID != second {
		t.Errorf("node = %q, want the new one %q", h.Status.Provisioning.ID, second)
	}
}

func TestHostDoesNotTakeANodeInUse(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.boot("taken")
	b.engine.Change(id, func(n *provisioner.Node) { n.InstanceID = "3d5c0c2e" })
	macs, err := b.engine.MACs(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	b.plainHost("taken", func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = macs[0] })
	b.inState("taken", v1alpha1.StateUnmanaged)
	b.hasEvent("taken", "ImportConflict")
}

func TestUnreachableEngineIsShownUntilItAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.engine.SetDown("connection refused")
	b.plainHost("demo-down", nil)
	c := b.hasCondition("demo-down", v1alpha1.ManageableCondition, metav1.ConditionUnknown, v1alpha1.EngineUnreachableReason)
	if want := "engine is unreachable: connection refused"; c.Message != want {
		t.Errorf("message = %q, want %q", c.Message, want)
	}
	b.engine.SetDown("")
	h := b.inState("demo-down", v1alpha1.StateAvailable)
	if h.Status.ErrorCount != 0 {
		t.Errorf("error count = %d, want 0: nobody failed", h.Status.ErrorCount)
	}
}

func TestDeniedAccessIsShownUntilItIsGranted(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.engine.SetFailing(fmt.Errorf("%w: wrong password", provisioner.ErrDenied))
	b.plainHost("demo-denied", nil)
	c := b.hasCondition("demo-denied", v1alpha1.ManageableCondition, metav1.ConditionUnknown, v1alpha1.EngineDeniedReason)
	if want := "engine denies access: wrong password"; c.Message != want {
		t.Errorf("message = %q, want %q", c.Message, want)
	}
	b.engine.SetFailing(nil)
	b.inState("demo-denied", v1alpha1.StateAvailable)
}

func TestErrorsCountUpAndAreClearedBySuccess(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) { o.MaxBackoff = 10 * time.Millisecond })
	b.plainHost("demo-preparation-error", nil)
	var id string
	b.eventually("third error", func() string {
		h := b.host("demo-preparation-error")
		if id = h.Status.Provisioning.ID; h.Status.ErrorCount < 3 || h.Status.ErrorType != v1alpha1.ErrorPreparation {
			return fmt.Sprintf("%d errors of type %q", h.Status.ErrorCount, h.Status.ErrorType)
		}
		return ""
	})
	b.hasEvent("demo-preparation-error", "PreparationError")
	var h *v1alpha1.BareMetalHost
	b.eventually("host without a failure", func() string {
		// An attempt that has begun may still fail.
		b.engine.Change(id, func(n *provisioner.Node) {
			if n.State == node.CleanFailed {
				n.State, n.LastError = node.Available, ""
			}
		})
		if h = b.host("demo-preparation-error"); h.Status.Provisioning.State != v1alpha1.StateAvailable {
			return fmt.Sprintf("state %q, error %q", h.Status.Provisioning.State, h.Status.ErrorMessage)
		}
		return ""
	})
	if h.Status.ErrorCount != 0 || h.Status.ErrorType != "" || h.Status.ErrorMessage != "" {
		t.Errorf("status = %d, %q, %q; want no error", h.Status.ErrorCount, h.Status.ErrorType, h.Status.ErrorMessage)
	}
}

func TestExternallyProvisionedHostIsNotChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.plainHost("demo-external", func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true })
	h := b.inState("demo-external", v1alpha1.StateExternallyProvisioned)
	n, err := b.engine.Node(t.Context(), h.Status.Provisioning.ID)
	if err != nil || n.State != node.Enroll {
		t.Errorf("node is in %q (%v), want it untouched", n.State, err)
	}
	if h.Status.HardwareDetails == nil {
		t.Error("host has no hardware details")
	}
}

func TestSecondReplicaTakesOverWhenTheFirstStops(t *testing.T) {
	t.Parallel()
	leases := func(o *operator.Options) {
		o.LeaderElection, o.LeaderElectionNamespace = true, o.Namespaces[0]
	}
	b := newBench(t, leases)
	b.plainHost("demo-one", nil)
	b.inState("demo-one", v1alpha1.StateAvailable)
	stopFirst := b.stop
	b.start(operator.Options{
		Config: plane.Config(t), Engine: b.engine, Namespaces: []string{b.namespace},
		LeaderElection: true, LeaderElectionNamespace: b.namespace, Logger: slog.New(slog.DiscardHandler),
	})
	stopFirst() // gives its leases up, so that nobody waits for them to expire
	b.plainHost("demo-two", nil)
	b.inState("demo-two", v1alpha1.StateAvailable)
}

// garbled is an engine whose inventories cannot be read.
type garbled struct{ *demo.Engine }

func (garbled) Inventory(context.Context, string) (*provisioner.Inventory, error) {
	return nil, errors.New("decode inventory: interfaces is a text, want a list")
}

func TestUnreadableInventoryIsShown(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) {
		engine, _ := o.Engine.(*demo.Engine)
		o.Engine = garbled{engine}
	})
	b.plainHost("demo-garbled", nil)
	c := b.hasCondition("demo-garbled", v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ErrorReason)
	if want := "decode inventory: interfaces is a text, want a list"; !strings.HasSuffix(c.Message, want) {
		t.Errorf("message = %q, want it to end in %q", c.Message, want)
	}
	if h := b.host("demo-garbled"); h.Status.ErrorType != v1alpha1.ErrorInspection || h.Status.Provisioning.State != v1alpha1.StateImporting {
		t.Errorf("error %q in state %q, want an inspection error in importing", h.Status.ErrorType, h.Status.Provisioning.State)
	}
	b.hasEvent("demo-garbled", "InspectionError")
}

func TestIdleHostIsNotWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.plainHost("demo-idle", nil)
	b.inState("demo-idle", v1alpha1.StateAvailable)
	b.hasCondition("demo-idle", v1alpha1.AvailableForProvisioningCondition, metav1.ConditionTrue, v1alpha1.AvailableReason)
	version := b.host("demo-idle").ResourceVersion
	b.forAWhile("idle host", func() string {
		if got := b.host("demo-idle").ResourceVersion; got != version {
			return "it was written: version " + version + " became " + got
		}
		return ""
	})
}

func TestHostInANamespaceThatIsNotWatchedIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	elsewhere := newIdleBenchOn(t, plane.Config(t))
	other := elsewhere.bmcHost("web", nil)
	b.bmcHost("web", nil)
	b.inState("web", v1alpha1.StateAvailable) // so the operator has seen what it watches
	h := elsewhere.host("web")
	if h.ResourceVersion != other.ResourceVersion || len(h.Finalizers) > 0 {
		t.Errorf("version %s with finalizers %q, want %s without", h.ResourceVersion, h.Finalizers, other.ResourceVersion)
	}
	if effects := b.engine.Effects(provisioner.NodeName(elsewhere.namespace, "web")); len(effects) > 0 {
		t.Errorf("asked of its machine: %v", effects)
	}
}
