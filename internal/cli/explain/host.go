package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// hostClauses describe the states of a host.
var hostClauses = map[v1alpha1.ProvisioningState]string{
	v1alpha1.StateNone:                    "has not been processed by an operator yet",
	v1alpha1.StateUnmanaged:               "is unmanaged: nothing is known about its machine",
	v1alpha1.StateImporting:               "is importing the inventory of its node",
	v1alpha1.StateRegistering:             "is being registered with the engine",
	v1alpha1.StateMatchProfile:            "is being prepared",
	v1alpha1.StateInspecting:              "is being inspected",
	v1alpha1.StatePreparing:               "is being prepared for use",
	v1alpha1.StateReady:                   "is available",
	v1alpha1.StateAvailable:               "is available",
	v1alpha1.StateProvisioning:            "is being provisioned",
	v1alpha1.StateProvisioned:             "is provisioned",
	v1alpha1.StateExternallyProvisioned:   "is externally provisioned",
	v1alpha1.StateDeprovisioning:          "is being deprovisioned",
	v1alpha1.StatePoweringOffBeforeDelete: "is being powered off before it is deleted",
	v1alpha1.StateDeleting:                "is being deleted",
}

func (h *Host) state() v1alpha1.ProvisioningState { return v1alpha1.ProvisioningState(h.State) }

func (h *Host) available() bool {
	return h.state() == v1alpha1.StateAvailable || h.state() == v1alpha1.StateReady
}

// disconnected reports whether the operator says that the host's ramdisk is gone.
func (h *Host) disconnected() bool {
	return h.condition(v1alpha1.AvailableForProvisioningCondition).Reason == v1alpha1.AgentNotConnectedReason
}

// seen reports whether an operator ever reconciled the host.
func (h *Host) seen() bool { return len(h.Conditions) > 0 }

// stateSince returns when the host entered its state, as far as its conditions tell.
func (h *Host) stateSince() time.Time {
	switch {
	case !h.Deleted.IsZero():
		return h.Deleted
	case h.state() == v1alpha1.StateNone:
		return h.Created
	case h.available():
		return h.condition(v1alpha1.ManageableCondition).Since
	case h.state() == v1alpha1.StateUnmanaged:
		return h.condition(v1alpha1.ManageableCondition).Since
	default:
		return h.condition(v1alpha1.ProgressingCondition).Since
	}
}

func hostStanding(f Facts) []string {
	h := f.Host
	if h == nil {
		return nil
	}
	clause, ok := hostClauses[h.state()]
	switch {
	case !h.Deleted.IsZero():
		clause = hostClauses[v1alpha1.StateDeleting]
	case h.state() == v1alpha1.StateNone && h.seen():
		clause = "is waiting to be registered"
	case !ok:
		clause = fmt.Sprintf("is in state %q", h.State)
	}
	text := []string{statement(fmt.Sprintf("Host %s/%s %s", h.Namespace, h.Name, clause), since(f.Now, h.stateSince()))}
	if h.Consumer != "" {
		text = append(text, statement("It is used by "+h.Consumer, ""))
	}
	return text
}

// hostObstacles returns the reasons why the operator does nothing for the host.
func hostObstacles(f Facts) []string {
	h := f.Host
	if h == nil {
		return nil
	}
	var text []string
	if h.Paused {
		who := ""
		if h.PausedBy != "" {
			who = "by " + h.PausedBy
		}
		text = append(text, statement("It is paused, so the operator neither changes nor deletes it", who))
	}
	if h.ErrorMessage != "" {
		clause := "The last operation failed: " + h.ErrorMessage
		if h.ErrorType != "" {
			clause = strings.ToUpper(h.ErrorType[:1]) + h.ErrorType[1:] + ": " + h.ErrorMessage
		}
		text = append(text, statement(clause, times(h.ErrorCount)))
	}
	if h.Warning != nil && h.Warning.Message != h.operatorMessage() && !strings.Contains(h.ErrorMessage, h.Warning.Message) {
		text = append(text, statement(fmt.Sprintf("Its last warning is %s: %s", h.Warning.Reason, h.Warning.Message), ago(f.Now, h.Warning.At)))
	}
	return text
}

func times(count int) string {
	if count < 2 {
		return ""
	}
	return fmt.Sprintf("%d times in a row", count)
}

// messageConditions are the conditions whose message says what the host waits for, if they have the
// given status. The most specific come first.
var messageConditions = []struct {
	kind   string
	status bool
}{
	{v1alpha1.ManageableCondition, false},
	{v1alpha1.ProgressingCondition, true},
	{v1alpha1.AvailableForProvisioningCondition, false},
	{v1alpha1.ProgressingCondition, false},
}

// operatorMessage returns the operator's message about a host that is not available, empty if there
// is none.
func (h *Host) operatorMessage() string {
	if h.condition(v1alpha1.AvailableForProvisioningCondition).True {
		return ""
	}
	for _, s := range messageConditions {
		c, ok := h.Conditions[s.kind]
		if c.Reason == v1alpha1.NotAvailableReason {
			continue // its message only repeats the state
		}
		if ok && c.Message != "" && c.True == s.status {
			return c.Message
		}
	}
	return ""
}

// hostWaiting says what the host waits for: the message of a condition, or else a
// sentence for its state.
func hostWaiting(f Facts) []string {
	h := f.Host
	if h == nil || h.Paused {
		return nil
	}
	if !h.Deleted.IsZero() {
		return []string{deletionWaits(f)}
	}
	if message := h.operatorMessage(); message != "" {
		return []string{statement("The operator says: "+message, "")}
	}
	switch h.state() {
	case v1alpha1.StateUnmanaged:
		return []string{statement("It waits for its machine to boot the ramdisk, which posts an inventory to the engine", h.MAC)}
	case v1alpha1.StateImporting:
		return []string{"It waits for the inventory of its node."}
	case v1alpha1.StatePreparing, v1alpha1.StateMatchProfile:
		return []string{"It waits for the engine to make its node available."}
	}
	return nil
}

func deletionWaits(f Facts) string {
	switch foreign := f.Host.foreignFinalizers(); {
	case len(foreign) > 0 && len(foreign) == len(f.Host.Finalizers):
		return statement("It waits for others to remove their finalizers: "+strings.Join(foreign, ", "), "")
	case f.Node != nil:
		return "It waits until its node is deleted."
	case f.NodeProblem != "":
		return "It waits for the engine to delete its node."
	default:
		return "Its node is deleted; it waits for the operator to remove its finalizer."
	}
}

func (h *Host) foreignFinalizers() []string {
	var foreign []string
	for _, finalizer := range h.Finalizers {
		if finalizer != v1alpha1.HostFinalizer {
			foreign = append(foreign, finalizer)
		}
	}
	return foreign
}
