package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// hostClauses say where a host in each state stands.
var hostClauses = map[v1alpha1.ProvisioningState]string{
	v1alpha1.StateNone:                    "was not seen by an operator yet",
	v1alpha1.StateUnmanaged:               "is unmanaged: nothing is known about its machine",
	v1alpha1.StateImporting:               "takes over what the engine found out about its machine",
	v1alpha1.StateRegistering:             "is being registered with the engine",
	v1alpha1.StateMatchProfile:            "is being prepared",
	v1alpha1.StateInspecting:              "is being inspected",
	v1alpha1.StatePreparing:               "is being prepared for use",
	v1alpha1.StateReady:                   "is available",
	v1alpha1.StateAvailable:               "is available",
	v1alpha1.StateProvisioning:            "is being provisioned",
	v1alpha1.StateProvisioned:             "is provisioned",
	v1alpha1.StateExternallyProvisioned:   "runs what somebody else installed",
	v1alpha1.StateDeprovisioning:          "is being deprovisioned",
	v1alpha1.StatePoweringOffBeforeDelete: "is being powered off before it is deleted",
	v1alpha1.StateDeleting:                "is being deleted",
}

func (h *Host) state() v1alpha1.ProvisioningState { return v1alpha1.ProvisioningState(h.State) }

func (h *Host) available() bool {
	return h.state() == v1alpha1.StateAvailable || h.state() == v1alpha1.StateReady
}

// disconnected tells whether the operator misses the host's ramdisk.
func (h *Host) disconnected() bool {
	return h.condition(v1alpha1.AvailableForProvisioningCondition).Reason == v1alpha1.AgentNotConnectedReason
}

// seen tells whether an operator ever looked at the host.
func (h *Host) seen() bool { return len(h.Conditions) > 0 }

// sinceWhen is the best that is known about when the host came where it is:
// the condition that stands for its state, or its creation.
func (h *Host) sinceWhen() time.Time {
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
		clause = "did not begin its way yet"
	case !ok:
		clause = fmt.Sprintf("is in state %q", h.State)
	}
	text := []string{statement(fmt.Sprintf("Host %s/%s %s", h.Namespace, h.Name, clause), since(f.Now, h.sinceWhen()))}
	if h.Consumer != "" {
		text = append(text, statement("It is claimed by "+h.Consumer, ""))
	}
	return text
}

// hostObstacles are what keeps the operator from doing anything for the host.
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
		text = append(text, statement("It is paused, so the operator leaves it alone and does not even delete it", who))
	}
	if h.ErrorMessage != "" {
		clause := "Something failed: " + h.ErrorMessage
		if h.ErrorType != "" {
			clause = strings.ToUpper(h.ErrorType[:1]) + h.ErrorType[1:] + ": " + h.ErrorMessage
		}
		text = append(text, statement(clause, times(h.ErrorCount)))
	}
	if h.Warning != nil && h.Warning.Message != h.operatorWord() && !strings.Contains(h.ErrorMessage, h.Warning.Message) {
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

// speakers are the conditions whose message may say what the host waits for,
// and the status in which they do, the most telling first.
var speakers = []struct {
	kind   string
	status bool
}{
	{v1alpha1.ManageableCondition, false},
	{v1alpha1.ProgressingCondition, true},
	{v1alpha1.AvailableForProvisioningCondition, false},
	{v1alpha1.ProgressingCondition, false},
}

// operatorWord is what the operator says about a host that is not simply
// available; "" when it says nothing.
func (h *Host) operatorWord() string {
	if h.condition(v1alpha1.AvailableForProvisioningCondition).True {
		return ""
	}
	for _, s := range speakers {
		if c, ok := h.Conditions[s.kind]; ok && c.Message != "" && c.True == s.status {
			return c.Message
		}
	}
	return ""
}

// hostWaiting says what the host waits for: in the operator's words when its
// conditions hold some, else in ours.
func hostWaiting(f Facts) []string {
	h := f.Host
	if h == nil || h.Paused {
		return nil
	}
	if !h.Deleted.IsZero() {
		return []string{deletionWaits(f)}
	}
	if message := h.operatorWord(); message != "" {
		return []string{statement("The operator says: "+message, "")}
	}
	switch h.state() {
	case v1alpha1.StateUnmanaged:
		return []string{statement("It waits for its machine to boot the ramdisk, which posts an inventory to the engine", h.MAC)}
	case v1alpha1.StateImporting:
		return []string{"It waits for the engine to have the machine's inventory."}
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
		return "It waits for the engine to remove its node."
	case f.NodeProblem != "":
		return "It waits for the engine, which has to forget its node."
	default:
		return "The engine has forgotten its node; it waits for the operator to let it go."
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
