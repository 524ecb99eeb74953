package autoscale

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// patience is how long there have to be fewer hosts than replicas before a set becomes smaller.
const patience = 60 * time.Second

// facts are what the size of a set is decided from.
type facts struct {
	// replicas is the size that the set has now.
	replicas int32
	// inUse are its Machines that hold a host and are not deleted.
	inUse int32
	// returning are the hosts that come back to it: deleted Machines of it hold them, or they
	// are reserved for it.
	returning int32
	// free are the hosts that nobody consumes and that are counted for it.
	free int32
	// rolling says that its Machines are being replaced.
	rolling bool
	bounds  bounds
	falling *falling
	now     time.Time
}

// bounds are the smallest and the largest size; below 0 there is no largest.
type bounds struct{ least, most int32 }

// falling is the record of a time with fewer hosts than replicas.
type falling struct {
	// Since is when it began.
	Since time.Time `json:"since"`
	// Replicas is the largest size that was decided on in it.
	Replicas int32 `json:"replicas"`
	// Marked is when a Machine was last marked for it, zero if none was.
	Marked time.Time `json:"marked,omitzero"`
}

// due is when the set may become smaller: after patience, and not before Cluster API has seen the marks.
func (r *falling) due() time.Time {
	due, seen := r.Since.Add(patience), r.Marked.Add(markLead)
	if seen.After(due) {
		return seen
	}
	return due
}

// decision is what a set should be like now.
type decision struct {
	replicas int32
	// falling is the record to keep, nil when replicas is what is wanted.
	falling *falling
	// again is when the decision changes by itself; 0 means never.
	again time.Duration
	// reason and message are those of the condition.
	reason, message string
}

// planned is the size that a set has soon, if nothing changes.
func (d decision) planned() int32 {
	if d.falling != nil {
		return d.falling.Replicas
	}
	return d.replicas
}

// size decides on the size of a set. It grows at once. It falls after patience, to the largest size
// of that time, never below the Machines that hold a host, and not during a rollout.
func size(f facts) decision {
	wanted, reason := f.wanted()
	d := decision{replicas: f.replicas, reason: reason}
	switch {
	case wanted >= f.replicas:
		d.replicas = wanted
	case f.rolling:
		d.reason = v1beta2.AutoscaleRolloutReason
	case !f.falling.holds(f):
		d.wait(f, falling{Since: f.now, Replicas: wanted})
	case f.now.Before(f.falling.due()):
		d.wait(f, falling{Since: f.falling.Since, Replicas: max(f.falling.Replicas, wanted), Marked: f.falling.Marked})
	default:
		d.replicas = max(f.falling.Replicas, wanted)
		if d.replicas > wanted { // a part of the hosts went later
			d.wait(f, falling{Since: f.now, Replicas: wanted})
		}
	}
	d.message = f.message(d)
	return d
}

// wanted is the size for the hosts that there are, and the reason of the condition for it.
func (f facts) wanted() (int32, string) {
	hosts := f.inUse + f.returning + f.free
	kept := min(f.inUse, f.replicas) // more than replicas are in use where a rollout surges
	switch {
	case hosts < f.bounds.least:
		return f.bounds.least, v1beta2.AutoscaleAtMinimumReason
	case f.bounds.most < 0 || hosts <= f.bounds.most:
		return hosts, v1beta2.AutoscaleFollowsReason
	case kept > f.bounds.most:
		return kept, v1beta2.AutoscaleInUseReason
	default:
		return f.bounds.most, v1beta2.AutoscaleAtMaximumReason
	}
}

// holds reports whether a record was made for the present size.
func (r *falling) holds(f facts) bool {
	return r != nil && r.Replicas < f.replicas && !r.Since.After(f.now)
}

// wait keeps a record and says when to look again.
func (d *decision) wait(f facts, record falling) {
	d.falling = &record
	d.again = record.due().Sub(f.now)
	d.reason = v1beta2.AutoscaleFallingReason
}

// remarks are what the message of the condition says for a reason after the number of hosts.
var remarks = map[string]string{
	v1beta2.AutoscaleAtMinimumReason: "; the size stays at the least that " + v1beta2.AutoscaleMinAnnotation + " allows",
	v1beta2.AutoscaleAtMaximumReason: "; the size stays at the most that " + v1beta2.AutoscaleMaxAnnotation + " allows",
	v1beta2.AutoscaleInUseReason:     "; the size is above " + v1beta2.AutoscaleMaxAnnotation + " because so many Machines hold a host; delete Machines to make it smaller",
	v1beta2.AutoscaleRolloutReason:   "; the size does not fall before the rollout has ended",
}

func (f facts) message(d decision) string {
	text := fmt.Sprintf("%d replicas for %d hosts: %d in use, %d coming back, %d free",
		d.replicas, f.inUse+f.returning+f.free, f.inUse, f.returning, f.free)
	if d.falling != nil {
		return fmt.Sprintf("%s; the size falls to %d at %s unless there are more hosts by then", text,
			d.falling.Replicas, d.falling.due().UTC().Format(time.RFC3339))
	}
	return text + remarks[d.reason]
}

// parseFalling reads a record. One that is not there or cannot be read is none, so that the time begins anew.
func parseFalling(text string) *falling {
	var record falling
	if text == "" || json.Unmarshal([]byte(text), &record) != nil || record.Since.IsZero() {
		return nil
	}
	return &record
}

func (r *falling) String() string {
	record := falling{Since: r.Since.UTC().Truncate(time.Second), Replicas: r.Replicas, Marked: r.Marked.UTC().Truncate(time.Second)}
	text, _ := json.Marshal(record) // cannot fail
	return string(text)
}
