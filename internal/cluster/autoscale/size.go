package autoscale

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// shrinkDelay is how long there have to be fewer hosts than replicas before a set becomes smaller.
const shrinkDelay = 60 * time.Second

// facts are what the size of a set is decided from.
type facts struct {
	// replicas is the size that the set has now.
	replicas int32
	// inUse are the Machines of the set that hold a host and are not deleted.
	inUse int32
	// returning are the hosts that come back to the set: deleted Machines of the set hold them, or
	// they are reserved for it.
	returning int32
	// free are the hosts that nobody consumes and that are counted for the set.
	free int32
	// rolling says that Machines of the set are being replaced.
	rolling bool
	bounds  bounds
	falling *falling
	now     time.Time
}

// bounds are the smallest and the largest size. If most is negative, there is no largest size.
type bounds struct{ least, most int32 }

// falling is the record of a period with fewer hosts than replicas.
type falling struct {
	// Since is when the period began.
	Since time.Time `json:"since"`
	// Replicas is the largest size that was decided on in the period.
	Replicas int32 `json:"replicas"`
	// Marked is when a Machine was last marked for deletion in the period; zero if none was.
	Marked time.Time `json:"marked,omitzero"`
}

// due returns when the set may become smaller: after shrinkDelay, and not before Cluster API has
// seen the marks.
func (r *falling) due() time.Time {
	due, seen := r.Since.Add(shrinkDelay), r.Marked.Add(markLead)
	if seen.After(due) {
		return seen
	}
	return due
}

// decision is what a set should be like now.
type decision struct {
	replicas int32
	// falling is the record to keep; nil when replicas is the wanted size.
	falling *falling
	// again is when the decision can change without a change of the facts; 0 means never.
	again time.Duration
	// reason and message are those of the condition.
	reason, message string
}

// planned returns the size that the set will have soon if the number of hosts stays the same.
func (d decision) planned() int32 {
	if d.falling != nil {
		return d.falling.Replicas
	}
	return d.replicas
}

// size decides on the size of a set. A set grows at once. It becomes smaller after shrinkDelay, to
// the largest size that was wanted in the meantime. It never has fewer replicas than Machines that
// hold a host, and does not become smaller during a rollout.
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
		if d.replicas > wanted { // some of the hosts went later than others
			d.wait(f, falling{Since: f.now, Replicas: wanted})
		}
	}
	d.message = f.message(d)
	return d
}

// wanted returns the size that fits the hosts that there are, and the reason of the condition for
// it.
func (f facts) wanted() (int32, string) {
	hosts := f.inUse + f.returning + f.free
	kept := min(f.inUse, f.replicas) // a rollout can have more in use than replicas
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

// holds reports whether a record is about the present size. A record that begins in the future is
// not.
func (r *falling) holds(f facts) bool {
	return r != nil && r.Replicas < f.replicas && !r.Since.After(f.now)
}

// wait keeps a record and sets when to check again.
func (d *decision) wait(f facts, record falling) {
	d.falling = &record
	d.again = record.due().Sub(f.now)
	d.reason = v1beta2.AutoscaleFallingReason
}

// remarks are the ends of the condition's message, by its reason. They follow the number of hosts.
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

// parseFalling returns the record in an annotation. It returns nil if text is empty or cannot be
// read, so that the period begins anew.
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
