package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/sim/disk"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// Instance is an operating system that a machine has booted from a disk.
type Instance struct {
	Machine *Machine
	// Run is the number of this boot in [Machines.Runs].
	Run int64
	// Device is the disk that it was booted from.
	Device string
	// Hostname is the one that the machine has if there is no config drive.
	Hostname string
	// SystemUUID is the UUID of the machine.
	SystemUUID string
}

// ReadFile returns a file of the instance's disk or of its config drive. It returns false if there
// is none.
func (i Instance) ReadFile(path string) ([]byte, bool) {
	return i.Machine.disks.ReadFile(i.Device, path)
}

// WriteFile stores a file on the instance's disk.
func (i Instance) WriteFile(path string, content []byte) {
	i.Machine.disks.WriteFile(i.Device, path, content)
}

// InstanceNote is a kind of effect: what an instance has done, or why it could not.
const InstanceNote = "instance"

// Note adds what the instance has done to the log of effects.
func (i Instance) Note(detail string) {
	now := i.Machine.all.options.Clock.Now().UTC()
	i.Machine.all.recorder.Add(effect.Effect{
		Machine: i.Machine.name(), Time: now, Ended: now, Kind: InstanceNote, Task: effectDone, Detail: detail,
	})
}

// Run is a period in which a machine ran an operating system from a disk.
type Run struct {
	Number  int64 // counted from 1 over all machines
	Machine int
	// UUID and Name are those of the instance, from its config drive; empty if there is no config
	// drive.
	UUID, Name string
	Since      time.Time
	// Until is when the power was cut; zero while the machine has power. It is set before anybody
	// can read from the BMC that the power is off.
	Until time.Time
}

// Runs returns all runs of operating systems from disks, in the order of the boots.
func (ms *Machines) Runs() []Run {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return slices.Clone(ms.runs)
}

// runInstance notes that the operating system runs, and does what it does.
func (m *Machine) runInstance(ctx context.Context, l *powerCycle, system *System) {
	i := Instance{Machine: m, Device: system.Device}
	broken := m.isBroken() // before Runs lists the run: a repair after that counts from the next boot on
	if i.Run = m.begin(l, system.ConfigDrive); i.Run == 0 {
		return // the power is cut already
	}
	work := m.all.options.Instance
	if work == nil {
		return
	}
	ctx, hang := context.WithCancel(ctx)
	defer m.setHang(nil)
	defer hang()
	m.all.mu.Lock()
	m.hang = hang
	broken = broken || m.broken
	m.hung = broken
	m.all.mu.Unlock()
	if broken {
		return
	}
	machine := m.Hardware()
	i.Hostname, i.SystemUUID = machine.Inspection.Inventory.Hostname, uuid.UUID(machine.UUID()).String()
	work(ctx, i)
}

func (m *Machine) isBroken() bool {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	return m.broken
}

// setHang sets what Hang calls.
func (m *Machine) setHang(hang context.CancelFunc) {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	m.hang = hang
}

// begin notes that an operating system runs. It returns the number of the run, or 0 if the power
// has been cut.
func (m *Machine) begin(l *powerCycle, drive *disk.ConfigDrive) int64 {
	m.power.Lock()
	defer m.power.Unlock()
	if l.over {
		return 0
	}
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	run := Run{Number: int64(len(m.all.runs)) + 1, Machine: m.index, Since: time.Now()}
	if drive != nil {
		run.UUID, run.Name = drive.UUID, drive.Name
	}
	m.all.runs = append(m.all.runs, run)
	l.run = run.Number
	return run.Number
}

// end ends a power cycle, and the run of an operating system in the cycle. The caller holds
// m.power.
func (m *Machine) end(l *powerCycle) {
	if !l.over && l.run > 0 {
		m.all.mu.Lock()
		m.all.runs[l.run-1].Until = time.Now()
		m.all.mu.Unlock()
	}
	l.over = true
}

// Hang stops the operating system that the machine runs from a disk, while the machine keeps its
// power. Until the next boot, the operating system does nothing, and it ignores requests to shut
// down. The error says that the machine runs none.
func (m *Machine) Hang() error {
	status := m.Status()
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	if status.State != OS || m.hang == nil {
		return fmt.Errorf("machine %d runs no operating system that does anything, it is %s", m.index, status.State)
	}
	m.hang()
	m.hung = true
	return nil
}

// Break breaks the machine or repairs it. Operating systems do nothing on a broken machine, as if
// its memory were defective. An operating system that already runs hangs. A repair counts from the
// next boot on.
func (m *Machine) Break(broken bool) {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	m.broken = broken
	if broken && m.hang != nil {
		m.hang()
		m.hung = true
	}
}
