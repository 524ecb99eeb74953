package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

func nodeStanding(f Facts) []string {
	n := f.Node
	if n == nil {
		if f.Host != nil && f.NodeProblem == "" && f.Host.NodeID != "" {
			return []string{fmt.Sprintf("The engine no longer has its node %s.", f.Host.NodeID)}
		}
		return nil
	}
	subject := "The engine's node " + n.UUID
	if n.Name != "" {
		subject += " (" + n.Name + ")"
	}
	clause := fmt.Sprintf("%s is in state %q", subject, n.State)
	if n.Target != "" {
		clause += fmt.Sprintf(", target %q", n.Target)
	}
	text := []string{statement(clause, since(f.Now, n.StateSince))}
	switch n.Reservation {
	case "":
	case node.SuspendedHolder:
		text = append(text, "Its work is suspended, because the engine's database was restored from an older state, or because many machines differ from what it has stored.")
	default:
		text = append(text, statement("The engine is working on it", "reserved by "+n.Reservation))
	}
	if n.Step != "" {
		text = append(text, fmt.Sprintf("It runs the step %s.", n.Step))
	}
	if n.AwaitsRamdisk {
		text = append(text, "It waits for the images or the first heartbeat of the ramdisk of this work, which a person has to start if the engine cannot.")
	}
	if inspection := inspectionText(f.Now, n); inspection != "" {
		text = append(text, inspection)
	}
	return text
}

// inspectionText says how far the inspection is, in the states in which that matters.
func inspectionText(now time.Time, n *Node) string {
	switch {
	case n.State != node.Enroll && n.State != node.Inspecting && n.State != node.InspectWait:
		return ""
	case n.InspectionStarted.IsZero() && n.InspectionFinished.IsZero():
		return "It was never inspected."
	case n.State == node.InspectWait:
		return statement("Its inspection waits for the machine's ramdisk, which a person has to start if the engine cannot", since(now, n.InspectionStarted))
	case n.discoveryFailed():
		return "" // last_error says why
	case n.InspectionFinished.Before(n.InspectionStarted):
		return statement("Its inspection is running", since(now, n.InspectionStarted))
	default:
		return statement("Its inspection ended "+ago(now, n.InspectionFinished), "")
	}
}

// discoveryFailed reports whether the inspection with which the engine enrolled the node has
// failed. Nodes that people registered are not inspected in enroll.
func (n *Node) discoveryFailed() bool {
	return n.State == node.Enroll && n.InspectionFinished.Before(n.InspectionStarted) &&
		n.LastError != "" && !node.IsStoreWait(n.LastError) && !node.IsAddressesTaken(n.LastError)
}

func nodeTrouble(f Facts) []string {
	n := f.Node
	if n == nil {
		return nil
	}
	var text []string
	if n.Maintenance {
		clause := "It is in maintenance, so the engine starts no work on it"
		switch {
		case n.MaintenanceReason == "":
			clause += "; no reason is given"
		case f.Host == nil || !strings.Contains(f.Host.operatorMessage(), n.MaintenanceReason):
			clause += ": " + n.MaintenanceReason
		}
		text = append(text, statement(clause, ""))
	}
	switch {
	case node.IsStoreWait(n.LastError), node.IsAddressesTaken(n.LastError):
		text = append(text, statement(n.LastError, ""))
	case n.LastError != "" && (f.Host == nil || !strings.Contains(f.Host.ErrorMessage, n.LastError)):
		text = append(text, statement("The engine's last work on it failed: "+n.LastError, ""))
	}
	if n.AddressesLeftOut > 0 {
		text = append(text, fmt.Sprintf("It has no ports for %d of its machine's MAC addresses, because no person had accepted it when they were posted (auto_discovery.max_ports); its inventory has all of them. "+
			"A change of the node, such as a name, accepts it; the next inspection then makes the ports.", n.AddressesLeftOut))
	}
	return text
}

// ramdisk returns sentences about when the machine's agent last sent a heartbeat, and which
// heartbeats the engine has refused since. Without a BMC and a deployed system, the agent is the
// only way to reach the machine.
func ramdisk(f Facts) []string {
	n := f.Node
	if n == nil || n.State == node.Active {
		return nil
	}
	text := "Its ramdisk has sent no heartbeat yet."
	switch {
	case !n.Heartbeat.IsZero():
		text = statement("Its ramdisk sent the last heartbeat "+ago(f.Now, n.Heartbeat), "")
	case len(n.Refusals) > 0:
		text = "The engine has accepted no heartbeat of its ramdisk yet."
	}
	if f.Host != nil && f.Host.available() && !f.Host.HasBMC && n.silent(f.Now) {
		text += " Without a running ramdisk nothing can be deployed, because the host has no BMC."
	}
	sentences := []string{text}
	for _, refusal := range n.Refusals {
		clause := fmt.Sprintf("The engine refused a heartbeat with the callback URL %q: %s", refusal.URL, refusal.Reason.Cause())
		sentences = append(sentences, statement(clause, fmt.Sprintf("%s, %s", refusal.Reason, ago(f.Now, refusal.At))))
	}
	return sentences
}

// withoutHost says why a node has no host.
func withoutHost(f Facts) []string {
	if f.Node == nil || f.Host != nil || f.HostProblem != "" {
		return nil
	}
	text := []string{"It has no BareMetalHost."}
	if f.Node.User != "" {
		return append(text, statement("Discovery creates no host for it because it is in use: "+f.Node.User, ""))
	}
	for _, d := range f.Discoveries {
		subject := fmt.Sprintf("Discovery %s/%s", d.Namespace, d.Name)
		switch {
		case d.Skipped != nil:
			clause := fmt.Sprintf("%s skips it, %s: %s", subject, d.Skipped.Reason, d.Skipped.Message)
			text = append(text, statement(strings.TrimRight(clause, ": "), since(f.Now, d.Skipped.Since)))
		case d.Suspended:
			text = append(text, subject+" is suspended.")
		case d.Ready != nil && !d.Ready.True:
			text = append(text, statement(subject+" is not ready: "+d.Ready.Message, since(f.Now, d.Ready.Since)))
		default:
			text = append(text, fmt.Sprintf("%s checks for new machines every %s.", subject, span(d.Interval)))
		}
	}
	if len(f.Discoveries) == 0 {
		text = append(text, "There is no BareMetalHostDiscovery that would create one.")
	}
	return text
}
