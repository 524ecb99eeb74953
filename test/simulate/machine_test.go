package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/agentpower"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
)

// effect is one line of a machine's log.
type effect struct {
	at     time.Time
	kind   fake.Kind
	detail string
	origin driver.Origin
}

func (e effect) String() string {
	text := fmt.Sprintf("%s by %s epoch %d for %s", e.kind, e.origin.Conductor, e.origin.Epoch, e.origin.Request)
	if e.detail != "" {
		text += " (" + e.detail + ")"
	}
	return text
}

// task is something that the machine was asked to do.
type task struct {
	ends  time.Time
	fails bool
}

// machine is a machine outside the engine's memory.
type machine struct {
	w    *world
	uuid string
	name string

	mu              sync.Mutex
	power           []powerPeriod // its power states, in order
	pressed         []time.Time   // when a person pressed its power button, in order
	tasks           map[string]task
	tasksIncomplete bool // whether its list of tasks may lack some
	log             []effect
	powerIdle       []time.Time // when no power change was wanted any more
	unknownAt       []time.Time // when something left the outcome of a call unknown
	lieRequests     []string    // requests about which its BMC has lied, see driver.Origin
	lieTimes        []time.Time // when it has lied
	// interrupts counts the interrupts for each task of a client.
	interrupts map[string]int
	// unknownTasks are requests that were not repeated since the machine has reported their outcome
	// as unknown.
	unknownTasks map[string]unknownTask
	calls        map[*call]bool // calls that may still be on their way
	// checks has the ends of the checks that the machine has made of itself, by handle.
	checks map[string]time.Time
	// verifyProgress has, by request, how far verifications are that have gone on after their first
	// turn.
	verifyProgress map[string]verifyProgress
	// lease is the lease under which work was last claimed or stored; zero when that gave the lease
	// back.
	lease node.Lease
}

func (w *world) newMachine(n *node.Node) *machine {
	return &machine{
		w: w, uuid: n.UUID, name: n.Name, power: []powerPeriod{{state: n.PowerState}}, tasks: map[string]task{}, unknownTasks: map[string]unknownTask{},
		calls: map[*call]bool{}, interrupts: map[string]int{}, checks: map[string]time.Time{}, verifyProgress: map[string]verifyProgress{},
	}
}

// noteUnknown notes that the outcome of a call is unknown.
func (m *machine) noteUnknown() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unknownAt = append(m.unknownAt, time.Now())
}

// unknownWithin reports whether noteUnknown was called in a period.
func (m *machine) unknownWithin(from, to time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return anyWithin(m.unknownAt, from, to)
}

// pressPowerButton has a person press the power button.
func (m *machine) pressPowerButton() {
	m.notePressed()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.powerNow() == node.PowerOn {
		m.notePowerLocked(node.PowerOff)
	} else {
		m.notePowerLocked(node.PowerOn)
	}
}

// machineOf returns the machine that a point is about.
func (w *world) machineOf(p *point) *machine {
	for _, m := range w.machines {
		if strings.HasPrefix(p.name, m.name+" ") {
			return m
		}
	}
	panic("no machine for " + p.name)
}

// call is a request to the machine that may be on its way.
type call struct {
	replica  *replica
	deadline time.Time
}

// undoneBy has, for kinds of effects, the later effects after which the machine has lost their
// result.
var undoneBy = map[fake.Kind][]fake.Kind{
	fake.PowerOn: {fake.PowerOff, fake.SoftPowerOff}, fake.PowerOff: {fake.PowerOn}, fake.SoftPowerOff: {fake.PowerOn},
	fake.BootDevice: {fake.PowerOn}, // an override may be for one boot
}

// lastUndone returns when effects of a kind were last undone, by other effects in the log or by a
// person at the machine. The caller holds the lock.
func (m *machine) lastUndone(kind fake.Kind) (last time.Time) {
	if len(undoneBy[kind]) > 0 {
		last = m.lastPressed()
	}
	for _, e := range m.log {
		if slices.Contains(undoneBy[kind], e.kind) && e.at.After(last) {
			last = e.at
		}
	}
	return last
}

// atMostOnce are effects that must not happen twice for one request.
var atMostOnce = []fake.Kind{fake.Wipe, fake.Write, fake.Flash}

// beginEffect checks what must hold when an effect begins, and writes it into the log.
func (m *machine) beginEffect(e effect, by *replica) {
	problem := cmp.Or(m.w.leaseProblem(m.uuid, e.origin), m.w.suspensionProblem(m.uuid, e.origin.Request))
	m.mu.Lock()
	defer m.mu.Unlock()
	e.at = time.Now()
	if problem != "" {
		m.w.violated("%s: %s begins %s", m.name, e, problem)
	}
	for c := range m.calls {
		if c.replica != by && e.at.Before(c.deadline) {
			m.w.violated("%s: %s begins while a call of %s may be on its way until %s", m.name, e, c.replica.name, c.deadline.Sub(m.w.sched.began))
		}
	}
	if slices.Contains(atMostOnce, e.kind) && e.origin.Request != "" &&
		slices.ContainsFunc(m.log, func(o effect) bool {
			return o.kind == e.kind && o.origin.Request == e.origin.Request && !m.w.lostByRestore(m, o.at)
		}) {
		m.w.violated("%s: %s happens a second time", m.name, e)
	}
	if m.changesVolumesAgain(e) {
		m.w.violated("%s: %s happens a second time", m.name, e)
	}
	if m.repeatsKnownEffect(e) {
		m.w.violated("%s: %s begins a second time, and what became of the first can be known", m.name, e)
	}
	for _, r := range m.w.allReplicas() {
		if e.origin.Request != "" && e.kind != reboot && r.mustHaveStored(e, m.lastUndone(e.kind)) {
			m.w.violated("%s: %s begins again, although %s has heard that it was done and could store that", m.name, e, r.name)
		}
	}
	m.log = append(m.log, e)
	m.w.sched.note("%s: %s", m.name, e)
	switch {
	case m.w.computerOf(m.uuid) != nil: // the BMC of a computer shows its power
	case e.kind == fake.PowerOn:
		m.notePowerLocked(node.PowerOn)
	case e.kind == fake.PowerOff, e.kind == fake.SoftPowerOff:
		m.notePowerLocked(node.PowerOff)
	}
}

// beginCall and endCall record the calls that may be on their way. The call of a process that died
// may be on its way until its deadline.
func (m *machine) beginCall(ctx context.Context, by *replica) *call {
	deadline, ok := ctx.Deadline()
	if !ok {
		m.w.violated("%s: a call without a deadline", m.name)
	}
	c := &call{replica: by, deadline: deadline}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[c] = true
	return c
}

func (m *machine) endCall(c *call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !c.replica.isDead() {
		delete(m.calls, c)
	}
}

// connection is how one replica reaches a machine.
type connection struct {
	m *machine
	r *replica
}

var _ fake.Machine = connection{}

func (c connection) PowerState(ctx context.Context) (node.PowerState, error) {
	if err := c.read(ctx, "power state"); err != nil {
		return "", err
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return c.m.powerNow(), nil
}

func (c connection) Outcome(ctx context.Context, request string) (fake.Task, error) {
	if err := c.read(ctx, "task"); err != nil {
		return fake.Task{}, err
	}
	epoch := c.r.w.epoch(c.m.uuid)
	if c.r.knowsCompleted(request, epoch) {
		c.r.w.violated("%s: %s asks again for the outcome of %s, which it has heard under the same lease", c.m.name, c.r.name, request)
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	t := c.m.taskOf(request)
	switch t.State {
	case fake.Done:
		c.r.noteCompleted(request, epoch)
	case fake.Unknown:
		info := runner.InfoOf(ctx)
		c.m.unknownTasks[request] = unknownTask{at: time.Now(), node: info.Node, operation: info.Operation.Name + " " + info.Operation.Item}
	}
	return t, nil
}

// Settings returns nothing. Only that reading the settings may fail is of interest.
func (c connection) Settings(ctx context.Context) (fake.Settings, error) {
	return fake.Settings{}, c.read(ctx, readingSettings)
}

// readingSettings is the call that only reads information. Its failure must not end any work.
const readingSettings = "read settings"

// taskOf returns what became of a request. The caller holds the lock.
func (m *machine) taskOf(request string) fake.Task {
	t, ok := m.tasks[request]
	switch {
	case !ok && m.tasksIncomplete:
		return fake.Task{State: fake.Unknown}
	case !ok:
		return fake.Task{State: fake.None}
	case time.Now().Before(t.ends):
		return fake.Task{ID: request, State: fake.Running}
	case t.fails:
		return fake.Task{ID: request, State: fake.Failed, Error: "broken"}
	}
	return fake.Task{ID: request, State: fake.Done}
}

// read asks the scheduler about a call that changes nothing.
func (c connection) read(ctx context.Context, name string) error {
	v := c.r.w.sched.wait(ctx, &point{replica: c.r, kind: atRead, name: c.m.name + " " + name + " for " + taskName(ctx), call: name})
	switch {
	case c.r.isDead() || v == crashBefore:
		c.r.die()
		return errDead
	case ctx.Err() != nil:
		return ctx.Err()
	}
	c.r.checkWork(ctx, c.m)
	switch v {
	case refused:
		return unreachable(name, false)
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (c connection) Do(ctx context.Context, e fake.Effect) (fake.Task, error) {
	c.m.checkRetry(e)
	v := c.r.w.sched.wait(ctx, &point{replica: c.r, kind: atEffect, name: c.m.name + " " + string(e.Kind) + " for " + taskName(ctx), call: string(e.Kind)})
	if v == lies && e.Kind != fake.PowerOn && e.Kind != fake.PowerOff {
		v = proceed // a lie must be noticed, so only what can be read back is lied about
	}
	switch {
	case c.r.isDead() || v == crashBefore:
		c.r.die()
		return fake.Task{}, errDead
	case ctx.Err() != nil: // the process was paused beyond its deadline, before or after the call
		c.m.noteUnknown()
		return fake.Task{}, ctx.Err()
	case v == refused:
		return fake.Task{}, unreachable(string(e.Kind), true)
	}
	sent := c.m.beginCall(ctx, c.r)
	defer c.m.endCall(sent)
	if v == requestLost {
		return fake.Task{}, unreachable(string(e.Kind), false)
	}
	if v == hangs {
		<-ctx.Done()
		return fake.Task{}, ctx.Err()
	}
	if v == lies {
		return fake.Task{State: fake.Done}, nil
	}
	c.r.checkWork(ctx, c.m)
	begun := effect{kind: e.Kind, detail: e.Detail, origin: e.Origin}
	c.m.beginEffect(begun, c.r)
	c.m.noteInterrupts(ctx, begun)
	done := c.m.addTask(e)
	switch v {
	case crashAfter:
		c.r.die()
		return fake.Task{}, errDead
	case answerLost:
		<-ctx.Done()
		return fake.Task{}, ctx.Err()
	}
	c.r.noteAcknowledged(effect{kind: e.Kind, detail: e.Detail, origin: e.Origin})
	if done.State == fake.Done {
		c.r.noteCompleted(e.Origin.Request, e.Origin.Epoch)
	}
	return done, nil
}

// addTask makes the task of an effect. Only some effects take time.
func (m *machine) addTask(e fake.Effect) fake.Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Origin.Request == "" {
		return fake.Task{State: fake.Done}
	}
	t := task{ends: time.Now()}
	if slices.Contains(atMostOnce, e.Kind) || e.Kind == fake.Configure {
		t.ends = t.ends.Add(m.w.taskDuration(e.Origin.Request))
		t.fails = m.w.taskFails(e.Origin.Request)
	}
	m.tasks[e.Origin.Request] = t
	return m.taskOf(e.Origin.Request)
}

// reboot is how a ramdisk is asked to restart a machine without a BMC.
func (w *world) reboot(r *replica) agentpower.Reboot {
	return func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		if turn.Attempt == driver.Unknown { // it may have been sent
			return driver.Outcome{}, nil
		}
		m := w.machines[n.UUID]
		origin := driver.Origin{Conductor: n.Lease.Holder, Epoch: n.Lease.Epoch, Request: runner.InfoOf(ctx).Request}
		_, err := connection{m, r}.Do(ctx, fake.Effect{Origin: origin, Kind: reboot})
		return driver.Outcome{}, err
	}
}

// reboot is the effect of asking a ramdisk to restart its machine.
const reboot fake.Kind = "reboot"

func unreachable(operation string, refused bool) error {
	return &node.DriverError{Op: operation, Reason: "the machine does not want to", Retryable: true, Refused: refused}
}

// taskName is what a call is made for.
func taskName(ctx context.Context) string {
	info := runner.InfoOf(ctx)
	if info.Work != "" {
		return string(info.Work) + "/" + info.Operation.Name + " " + info.Operation.Item
	}
	return info.Task
}
