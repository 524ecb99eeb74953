// Package invariant checks three rules while a simulation runs, whatever fails in it. Nobody
// deletes a Node whose machine still runs the operating system that registered it. No two machines
// of Cluster API are on one host. No machine is given a host that is not free for it.
//
// The first rule needs the runs of the simulator, the Nodes that its instances have registered, and
// the audit log of the workload API server. The other rules need the history of hosts and of their
// consumers in the management API server. The third rule also needs the runs.
package invariant

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/instance"
)

// Deletion is a Node that somebody has deleted.
type Deletion struct {
	Node string
	UID  types.UID // empty if the API server did not say it
	// User and Agent tell who asked for the deletion: the user and the header User-Agent.
	User, Agent string
	// At is when the API server got the request. The decision to delete was made before.
	At time.Time
}

// Early is a Node that was deleted while its machine still ran the operating system that had registered it.
type Early struct {
	Deletion
	Machine int
	// Run is the operating system that still ran.
	Run sim.Run
	// ProviderID is that of the Node. It names the host.
	ProviderID string
}

// String says what was broken.
func (e Early) String() string {
	until := "still runs"
	if !e.Run.Until.IsZero() {
		until = "ran until " + e.Run.Until.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("the Node %s (%s, UID %s) was deleted at %s by %s with %s, and machine %d, which booted its instance %q at %s, %s",
		e.Node, e.ProviderID, e.UID, e.At.UTC().Format(time.RFC3339Nano), e.User, e.Agent, e.Machine, e.Run.Name,
		e.Run.Since.UTC().Format(time.RFC3339Nano), until)
}

// EarlyDeletions returns the deletions of Nodes whose machines ran their operating system at that
// time: in the boot that registered the Node, or in another boot of the same instance. It ignores
// Nodes that no instance has registered.
func EarlyDeletions(runs []sim.Run, nodes []instance.Node, deletions []Deletion) (early []Early) {
	byNumber := make(map[int64]sim.Run, len(runs))
	for _, run := range runs {
		byNumber[run.Number] = run
	}
	for _, deletion := range deletions {
		for _, node := range nodes {
			if !isOf(deletion, node) {
				continue
			}
			if run, ok := running(runs, byNumber[node.Run], deletion.At); ok {
				early = append(early, Early{Deletion: deletion, Machine: node.Machine, Run: run, ProviderID: node.ProviderID})
				break
			}
		}
	}
	return early
}

// isOf reports whether a deletion is that of a Node. If the deletion has no UID, the names are
// compared.
func isOf(d Deletion, n instance.Node) bool {
	if d.UID == "" {
		return d.Node == n.Name
	}
	return d.UID == n.UID
}

// running returns the run of an instance at a time. known is any run of this instance.
func running(runs []sim.Run, known sim.Run, at time.Time) (sim.Run, bool) {
	for _, run := range runs {
		same := run.Number == known.Number || run.Machine == known.Machine && run.UUID != "" && run.UUID == known.UUID
		if same && isOn(run, at) {
			return run, true
		}
	}
	return sim.Run{}, false
}

// isOn reports whether an operating system ran at a time.
func isOn(run sim.Run, at time.Time) bool {
	return !at.Before(run.Since) && (run.Until.IsZero() || at.Before(run.Until))
}
