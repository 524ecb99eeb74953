package firmware

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

const (
	// changingInterval is the shortest time between two readings of a machine that lacks what the
	// spec asks for, if its node has changed in anything but its state.
	changingInterval = time.Minute
	// steadyInterval is the shortest time between two readings of a machine whose spec asks for
	// nothing.
	steadyInterval = 5 * time.Minute
)

// reading identifies what was read from the engine: which node, and when the node had last changed.
type reading struct {
	nodeID                                 string
	stateChangedAt, inspectedAt, updatedAt time.Time
}

// readingOf returns the reading that one would get from the node now.
func readingOf(n provisioner.Node) reading {
	return reading{nodeID: n.ID, stateChangedAt: stored(n.StateChangedAt), inspectedAt: stored(n.InspectedAt), updatedAt: n.UpdatedAt}
}

// stored returns a time with the precision that the status keeps.
func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// sameHardware reports whether the engine has not read the machine again between the two readings.
func (r reading) sameHardware(other reading) bool {
	return r.nodeID == other.nodeID && r.stateChangedAt.Equal(other.stateChangedAt) && r.inspectedAt.Equal(other.inspectedAt)
}

// forStatus returns the reading as the status stores it.
func (r reading) forStatus() *v1alpha1.HardwareReading {
	return &v1alpha1.HardwareReading{
		NodeID: r.nodeID, StateChangedAt: metav1.NewMicroTime(r.stateChangedAt), InspectedAt: metav1.NewMicroTime(r.inspectedAt),
	}
}

// last is the last reading of a host, as far as this process knows.
type last struct {
	// reading is what was read. known is false before the first reading.
	reading reading
	known   bool
	// at is the time of the reading. It is zero if an earlier process read.
	at time.Time
	// none is true if there was nothing to read on the machine.
	none bool
	// worked is true if the engine has worked on the machine's firmware since the reading.
	worked bool
}

// or returns the last reading of this process or, without one, the reading recorded in the status.
func (l last) or(record *v1alpha1.HardwareReading) last {
	if l.known || record == nil {
		return l
	}
	l.known = true
	l.reading = reading{nodeID: record.NodeID, stateChangedAt: stored(record.StateChangedAt.Time), inspectedAt: stored(record.InspectedAt.Time)}
	return l
}

// object is what the object about a reading shows.
type object struct {
	// current is false if the object has to be written whatever the machine has, because the object
	// does not exist, lacks its owner, or shows an older spec.
	current bool
	// wanted is true if the spec asks for something. changing is true if the machine does not have
	// that yet.
	wanted, changing bool
}

// decideReading decides whether to ask the engine now. Otherwise, wait is how long to wait before
// another pass if no change is reported; 0 means without end.
func decideReading(l last, o object, n provisioner.Node, now time.Time) (read bool, wait time.Duration) {
	next := readingOf(n)
	switch {
	case !isIdle(n.State) && (!l.known || o.current):
		return false, 0 // the change of state brings the next pass
	case !l.known, !o.current:
		return true, 0
	case l.reading.sameHardware(next):
		if !o.changing {
			return false, 0
		}
		if l.reading.updatedAt.Equal(next.updatedAt) {
			return false, changingInterval
		}
		return pause(l.at, changingInterval, now)
	case l.worked, o.wanted, l.reading.nodeID != n.ID:
		return true, 0
	default:
		return pause(l.at, steadyInterval, now)
	}
}

// pause says whether the interval since the last reading is over, and otherwise how long it still
// takes.
func pause(at time.Time, interval time.Duration, now time.Time) (bool, time.Duration) {
	wait := at.Add(interval).Sub(now)
	if wait > 0 {
		return false, wait
	}
	return true, 0
}

// isIdle reports whether the engine leaves a machine in this state alone until somebody asks for
// work.
func isIdle(s node.State) bool {
	class := s.Class()
	return s != node.Enroll && (class == node.Stable || class == node.Failed)
}

// firmwareWork are the states in which the engine reads or changes a machine's firmware.
var firmwareWork = map[node.State]bool{
	node.Verifying: true,
	node.Cleaning:  true, node.CleanWait: true, node.CleanHold: true,
	node.Servicing: true, node.ServiceWait: true, node.ServiceHold: true,
}

// recollection is what the process remembers of a host. It only saves readings: without it,
// everything is read once more.
type recollection struct{ settings, components last }

// note remembers if the engine works on the machine's firmware.
func (r *recollection) note(n provisioner.Node) {
	if firmwareWork[n.State] {
		r.settings.worked, r.components.worked = true, true
	}
}

// memory holds the recollections of hosts. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	hosts map[types.NamespacedName]recollection
}

func (m *memory) of(host types.NamespacedName) recollection {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hosts[host]
}

func (m *memory) put(host types.NamespacedName, r recollection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hosts[host] = r
}

func (m *memory) forget(host types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.hosts, host)
}
