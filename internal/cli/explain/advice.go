package explain

import (
	"fmt"
	"strings"

	discovery "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

// rule is one piece of advice and the condition under which it is given. Empty advice is not
// printed.
type rule struct {
	when func(Facts) bool
	say  func(Facts) string
}

// rules are searched from the top. Only the first that applies is printed, because it is about the
// first obstacle to remove.
var rules = []rule{
	{
		func(f Facts) bool { return !f.Known() && f.HostProblem == "" && f.NodeProblem == "" },
		say("See the hosts with: kubectl get baremetalhosts -A. See the nodes with: ingot node list."),
	},
	{
		func(f Facts) bool { return f.Host != nil && f.Host.Paused },
		func(f Facts) string {
			return fmt.Sprintf("To end the pause: kubectl annotate -n %s bmh %s %s-", f.Host.Namespace, f.Host.Name, v1alpha1.PausedAnnotation)
		},
	},
	{
		func(f Facts) bool { return f.NodeProblem != "" },
		func(f Facts) string { return f.NodeAdvice },
	},
	{
		func(f Facts) bool { return !f.Known() },
		say("Name the cluster with --kubeconfig or KUBECONFIG to include its hosts."),
	},
	{deleting, deletionAdvice},
	{
		func(f Facts) bool { return f.Node != nil && f.Node.Reservation == node.SuspendedHolder },
		func(f Facts) string {
			return fmt.Sprintf("See the reason with: ingot suspension show. Look at the machine; then let the work go on with: ingot suspension resume %[1]s, or give it up with: ingot suspension drop %[1]s.", f.Node.UUID)
		},
	},
	{
		func(f Facts) bool { return f.Node != nil && f.Node.Maintenance },
		func(f Facts) string {
			return "When the reason for the maintenance is gone, end it with: ingot node maintenance unset " + f.Node.UUID
		},
	},
	{
		func(f Facts) bool { return f.Node != nil && f.Node.State.Class() == node.Held },
		func(f Facts) string { return "Resume it with: ingot node unhold " + f.Node.UUID },
	},
	{
		func(f Facts) bool { return f.Node != nil && node.IsStoreWait(f.Node.LastError) },
		say("Repair the object store; the reason is above. The inspection then continues by itself."),
	},
	{
		func(f Facts) bool { return f.Node != nil && node.IsAddressesTaken(f.Node.LastError) },
		func(f Facts) string {
			return "Compare the machine with the registered node. If they are the same, delete this node with: ingot node delete " + f.Node.UUID
		},
	},
	{
		func(f Facts) bool {
			return f.Node != nil && (f.Node.LastError != "" || f.Node.State.Class() == node.Failed)
		},
		failureAdvice,
	},
	{
		func(f Facts) bool { _, refused := f.Node.refusal(f.Now); return refused },
		func(f Facts) string {
			refusal, _ := f.Node.refusal(f.Now)
			return refusal.Reason.Advice() + "."
		},
	},
	{
		func(f Facts) bool { return f.Host != nil && f.Host.ErrorMessage != "" },
		say("Fix what the message names; the operator retries by itself."),
	},
	{
		func(f Facts) bool { return hostIn(v1alpha1.StateNone)(f) && !f.Host.seen() },
		say("If that lasts, start an operator for this cluster with: ingot operator."),
	},
	{
		func(f Facts) bool { return hostIn(v1alpha1.StateUnmanaged)(f) && !f.Host.HasBMC },
		say("Power the machine on and let it boot the ramdisk from the network, or fill in spec.bmc."),
	},
	{
		func(f Facts) bool { return f.Host != nil && f.Node == nil && f.Host.NodeID != "" },
		say("Power the machine on and let it boot the ramdisk, so that the engine enrols it again."),
	},
	{
		func(f Facts) bool { return f.Node != nil && f.Host == nil && f.HostProblem == "" },
		discoveryAdvice,
	},
	{
		func(f Facts) bool {
			return f.Host != nil && f.Host.available() && !f.Host.HasBMC &&
				(f.Host.disconnected() || f.Node != nil && f.Node.silent(f.Now))
		},
		say("Boot the machine into the ramdisk again."),
	},
	{
		func(f Facts) bool { return f.Host != nil && f.Host.available() && f.Host.Consumer == "" },
		say("It is free to use: set spec.image, or let a machine of Cluster API choose it."),
	},
	{nodeIn(node.Enroll), onNode("Make it manageable with: ingot node manage --wait ")},
	{nodeIn(node.Manageable), onNode("Make it available with: ingot node provide --wait ")},
	{inProgress, progressAdvice},
}

func say(text string) func(Facts) string { return func(Facts) string { return text } }

func hostIn(state v1alpha1.ProvisioningState) func(Facts) bool {
	return func(f Facts) bool { return f.Host != nil && f.Host.state() == state }
}

// nodeIn returns a condition: the node has that state, and its host is unknown.
func nodeIn(state node.State) func(Facts) bool {
	return func(f Facts) bool { return f.Host == nil && f.Node != nil && f.Node.State == state }
}

func onNode(text string) func(Facts) string {
	return func(f Facts) string { return text + f.Node.UUID }
}

func advice(f Facts) []string {
	for _, r := range rules {
		if !r.when(f) {
			continue
		}
		if text := r.say(f); text != "" {
			return []string{text}
		}
		return nil
	}
	return nil
}

func deleting(f Facts) bool { return f.Host != nil && !f.Host.Deleted.IsZero() }

func deletionAdvice(f Facts) string {
	switch foreign := f.Host.foreignFinalizers(); {
	case len(foreign) > 0 && len(foreign) == len(f.Host.Finalizers):
		return "Find out why the owners of these finalizers do not remove them."
	case f.Now.Sub(f.Host.Deleted) < slowAfter:
		return "There is nothing to do; the deletion continues by itself."
	case f.Node != nil && f.Node.LastError == "" && !f.Node.Maintenance:
		return fmt.Sprintf("This takes longer than usual: check that an operator runs, or delete the node with: ingot node delete %s", f.Node.UUID)
	default:
		return "This takes longer than usual: check that an operator runs, and read the events of the host with: kubectl describe bmh."
	}
}

// repairs are the commands that bring a node out of a failed state.
var repairs = map[node.State][]string{
	node.Enroll:        {"manage"},
	node.InspectFailed: {"inspect"},
	node.AdoptFailed:   {"manage"},
	node.CleanFailed:   {"manage", "provide"},
}

func failureAdvice(f Facts) string {
	if f.Host != nil && f.Host.HasBMC {
		return managedFailureAdvice(f)
	}
	if f.Node.discoveryFailed() {
		return "Fix what the error names, delete the node with: ingot node delete " + f.Node.UUID +
			", and boot the machine into the ramdisk, which enrols it again."
	}
	verbs := repairs[f.Node.State]
	if len(verbs) == 0 {
		return "Fix what the error names; then try again."
	}
	commands := make([]string, len(verbs))
	for i, verb := range verbs {
		commands[i] = fmt.Sprintf("ingot node %s --wait %s", verb, f.Node.UUID)
	}
	return "Fix what the error names, and try again with: " + strings.Join(commands, "; then ")
}

// managedFailureAdvice is failureAdvice for the node of a host with a BMC. There the operator sends
// requests to the engine again, and it copies the host's access to the BMC into the node.
func managedFailureAdvice(f Facts) string {
	access := "spec.bmc"
	if f.Host.Secret != "" {
		access += " and the Secret " + f.Host.Secret
	}
	next := "then try again"
	if len(repairs[f.Node.State]) > 0 || f.Host.ErrorMessage != "" {
		next = "the operator retries by itself"
	}
	return fmt.Sprintf("Fix what the error names; %s. Correct the access to the BMC in %s of the host, not in the node, which gets it from there.", next, access)
}

// skipAdvice says what to do about each reason why discovery skipped a node, except for a missing
// inventory.
var skipAdvice = map[discovery.SkipReason]string{
	discovery.SkipMissingDetail:   "Let the name template use another hardware detail, or set its fallback to boot-mac.",
	discovery.SkipMissingMAC:      "See the machine's network interfaces with: ingot node inventory save %s",
	discovery.SkipDuplicateMAC:    "Find the other node with this MAC address, and delete the one that is stale with: ingot node delete.",
	discovery.SkipNameConflict:    "Change the name template, or create a BareMetalHost for the machine yourself.",
	discovery.SkipNameInvalid:     "Change the name template so that it produces valid names.",
	discovery.SkipIgnored:         "To discover the machine, remove its address from spec.ignoredMACAddresses.",
	discovery.SkipTombstone:       "To discover the machine again, remove its entry from status.tombstones.",
	discovery.SkipLimitReached:    "Raise spec.maxHosts, or delete hosts that are not needed.",
	discovery.SkipCreateForbidden: "Check the permissions, quotas and webhooks of that namespace.",
	discovery.SkipNodeBusy:        "There is nothing to do; discovery checks it again after its inspection.",
}

// inventoryAdvice says how a node gets an inventory. The engine accepts the data of a known machine
// only while its node waits for them, and a node in enroll cannot wait.
func inventoryAdvice(n *Node) string {
	switch {
	// Nodes that people registered are not inspected in enroll.
	case n.State == node.Enroll && !n.InspectionStarted.IsZero():
		return "Delete the node with: ingot node delete " + n.UUID + ", and boot the machine into the ramdisk, which enrols it again."
	case n.State == node.Manageable:
		return "Inspect it with: ingot node inspect --wait " + n.UUID
	default:
		return fmt.Sprintf("Inspect it with: ingot node manage --wait %s; then ingot node inspect --wait %[1]s", n.UUID)
	}
}

func discoveryAdvice(f Facts) string {
	switch {
	case f.Node.Marked && f.Node.Used:
		return fmt.Sprintf("If that host is gone for good, delete the node in maintenance, which leaves the machine as it is: "+
			"ingot node maintenance set %[1]s; then ingot node delete %[1]s", f.Node.UUID)
	case f.Node.Marked && f.Node.Name != "":
		return fmt.Sprintf("If that host is gone for good, free the node with: ingot node unset %s --name --extra %s", f.Node.UUID, v1alpha1.NodeMarkKey)
	case f.Node.Marked:
		return fmt.Sprintf("If that host is gone for good, free the node with: ingot node unset %s --extra %s", f.Node.UUID, v1alpha1.NodeMarkKey)
	case f.Node.User != "":
		return "Create a BareMetalHost for it if Kubernetes should manage it."
	}
	for _, d := range f.Discoveries {
		switch {
		case d.Skipped != nil && d.Skipped.Reason == string(discovery.SkipNoInventory):
			return inventoryAdvice(f.Node)
		case d.Skipped != nil:
			if text, ok := skipAdvice[discovery.SkipReason(d.Skipped.Reason)]; ok {
				return strings.ReplaceAll(text, "%s", f.Node.UUID)
			}
			return "Fix what the reason names; discovery retries by itself."
		case d.Suspended:
			return fmt.Sprintf("Resume discovery with: kubectl patch -n %s baremetalhostdiscovery %s --type merge -p '{\"spec\":{\"suspend\":false}}'", d.Namespace, d.Name)
		}
	}
	if len(f.Discoveries) == 0 {
		return "Create a BareMetalHostDiscovery, or a BareMetalHost with one of the machine's MAC addresses."
	}
	return "There is nothing to do yet; discovery polls by itself."
}

func inProgress(f Facts) bool {
	return f.Host != nil && f.Host.condition(v1alpha1.ProgressingCondition).True ||
		hostIn(v1alpha1.StateImporting)(f) || hostIn(v1alpha1.StatePreparing)(f) ||
		f.Node != nil && (f.Node.State.Class() == node.Working || f.Node.State.Class() == node.Waiting)
}

func progressAdvice(f Facts) string {
	began := f.Now
	if f.Host != nil && !f.Host.stateSince().IsZero() {
		began = f.Host.stateSince()
	} else if f.Node != nil && !f.Node.StateSince.IsZero() {
		began = f.Node.StateSince
	}
	if f.Now.Sub(began) < slowAfter {
		return "There is nothing to do; the work continues by itself."
	}
	return "The work continues by itself, but takes longer than usual: check that the engine, the operator and the machine's ramdisk run."
}
