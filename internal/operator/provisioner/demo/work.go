package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// work is what a machine is busy with.
type work struct {
	due   time.Time   // zero for work that never ends
	until func() bool // what the work waits for, instead of a time; nil for nothing
	end   func()
}

// isOver reports whether the work has ended.
func (w *work) isOver(now time.Time) bool {
	if w.until != nil {
		return w.until()
	}
	return !w.due.IsZero() && !now.Before(w.due)
}

// endDueWork ends the work of a machine that is due, unless it is suspended. The caller holds mu.
func (e *Engine) endDueWork(m *machine) {
	if m.node.Suspended {
		return
	}
	now := e.opts.Now()
	for _, slot := range []**work{&m.work, &m.power} {
		if w := *slot; w != nil && w.isOver(now) {
			*slot = nil
			w.end()
			m.node.UpdatedAt = now
			if slot == &m.work {
				m.node.StateChangedAt = now
			}
		}
	}
}

// begin starts work that ends by calling end: at once, after the verb's duration, or never.
func (e *Engine) begin(m *machine, slot **work, verb Verb, end func()) {
	duration := e.opts.Durations[verb]
	switch {
	case m.behaviour.endless[verb]:
		*slot = &work{end: end}
	case duration > 0:
		*slot = &work{due: e.opts.Now().Add(duration), end: end}
	default:
		end()
	}
}

// request is a verb that a client sends.
type request struct {
	verb    Verb
	trigger node.Trigger
	details any
	// unmaintained means that the verb is refused in maintenance.
	unmaintained bool
	// repeated reports whether the node shows that this very request was accepted before. nil means
	// that its state is enough.
	repeated func(*machine) bool
	// until is what the work first waits for; nil for nothing.
	until func(*machine) bool
	// begin and done change the machine when the verb is accepted, and when its work succeeds; nil
	// for nothing.
	begin, done func(*machine)
}

// ask moves a node according to the state machine of provision states.
func (e *Engine) ask(id string, r request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return err
	}
	n := &m.node
	step, ok := node.Next(n.State, r.trigger)
	switch {
	case n.Suspended:
		return suspended(id)
	case !ok && n.Accepted(r.trigger) && (r.repeated == nil || r.repeated(m)):
		return nil
	case !ok:
		return fmt.Errorf("%w: demo node %s can not %s in state %q", provisioner.ErrConflict, id, r.verb, n.State)
	case r.unmaintained && n.Maintenance:
		return fmt.Errorf("%w: demo node %s is in maintenance", provisioner.ErrConflict, id)
	case m.behaviour.refuses[r.verb] != "":
		return fmt.Errorf("%w: %s", provisioner.ErrInvalid, m.behaviour.refuses[r.verb])
	}
	if r.trigger != node.OnAbort { // an abort keeps the failure that it is about, as in engines
		n.LastError = ""
	}
	if r.begin != nil {
		r.begin(m)
	}
	e.recordRequest(m, r.verb, r.details)
	n.StateChangedAt = e.opts.Now()
	if step.Target == "" { // no work follows
		m.work = nil
		n.State, n.TargetState = step.To, ""
		return nil
	}
	n.State, n.TargetState = step.To, step.Target
	if m.bootsMedium(r.verb) {
		m.image = false
	}
	if waiting, ok := node.Next(step.To, node.OnWait); ok {
		n.State = waiting.To
	}
	if r.until != nil && !r.until(m) {
		n.State, n.TargetState = node.CleanWait, node.Available
		m.work = &work{until: func() bool { return r.until(m) }, end: func() { m.end(step, r) }}
		return nil
	}
	e.begin(m, &m.work, r.verb, func() { m.end(step, r) })
	return nil
}

// suspended returns the answer to requests for a node whose work is suspended.
func suspended(id string) error {
	return fmt.Errorf("%w: the work on demo node %s is suspended", provisioner.ErrBusy, id)
}

// boots reports whether the machine is in its ramdisk, or the engine can boot it.
func (m *machine) boots() bool {
	return m.registration.Access != nil || !m.node.Agent.LastHeartbeat.IsZero()
}

// bootsMedium reports whether the work of a verb boots the ramdisk from a virtual drive, where it
// replaces any other image.
func (m *machine) bootsMedium(verb Verb) bool {
	switch verb {
	case VerbInspect, VerbClean, VerbDeploy, VerbService:
	case VerbProvide, VerbUndeploy:
		if m.node.SkipsCleaning {
			return false
		}
	default:
		return false
	}
	return m.abilities().VirtualMedia
}

// end ends the work that a transition began.
func (m *machine) end(step node.Transition, r request) {
	n := &m.node
	reason, fails := m.behaviour.fails[r.verb]
	if r.verb == VerbManage {
		reason, fails = m.refusesAccess()
	}
	n.Step = ""
	if fails {
		failed, _ := node.Next(step.To, node.OnFail)
		n.State, n.LastError = failed.To, reason
		if n.State.Class() == node.Stable {
			n.TargetState = ""
		}
		switch {
		case n.State == node.ServiceFailed:
			n.Maintenance, n.Fault = true, node.FaultServiceFailure
		case n.State == node.CleanFailed && m.behaviour.entersMaintenance:
			n.Maintenance, n.Fault = true, node.FaultCleanFailure
		}
		return
	}
	n.State, n.TargetState = step.Target, ""
	if r.done != nil {
		r.done(m)
	}
}

// powered sets the power of a machine that has a BMC.
func (m *machine) powered(state node.PowerState) {
	if m.registration.Access != nil {
		m.node.Power = state
	}
}

// Manage brings a node to manageable; see [provisioner.Lifecycle].
func (e *Engine) Manage(_ context.Context, id string) error {
	return e.ask(id, request{verb: VerbManage, trigger: node.OnManage, done: func(m *machine) {
		if m.node.Power == "" {
			m.powered(node.PowerOff)
		}
	}})
}

// Provide brings a manageable node to available; see [provisioner.Lifecycle].
func (e *Engine) Provide(_ context.Context, id string, opts provisioner.ProvideOptions) error {
	return e.ask(id, request{
		verb: VerbProvide, trigger: node.OnProvide, details: opts,
		until: func(m *machine) bool { return opts.SkipCleaning || m.boots() },
		begin: func(m *machine) {
			if opts.SkipCleaning {
				m.node.Cleans, m.node.SkipsCleaning = false, true
			}
		},
		done: func(m *machine) { m.powered(node.PowerOff) },
	})
}

// Inspect inspects a manageable node; see [provisioner.Worker].
func (e *Engine) Inspect(_ context.Context, id string) error {
	return e.ask(id, request{verb: VerbInspect, trigger: node.OnInspect, done: func(m *machine) {
		m.inspected(e.opts.Now())
		m.powered(node.PowerOff)
	}})
}

// Steps are the steps of a request.
type Steps []node.Step

// Clean runs steps on a manageable node; see [provisioner.Worker].
func (e *Engine) Clean(_ context.Context, id string, steps []node.Step) error {
	if len(steps) == 0 {
		return fmt.Errorf("%w: clean demo node %s: there are no steps", provisioner.ErrInvalid, id)
	}
	return e.ask(id, request{
		verb: VerbClean, trigger: node.OnClean, details: Steps(steps), unmaintained: true,
		begin: func(m *machine) { m.node.Step = steps[0].Step },
		done: func(m *machine) {
			m.apply(steps, e.opts.Now())
			m.powered(node.PowerOff)
		},
	})
}

// SetTargetRAID records the volumes; see [provisioner.Worker].
func (e *Engine) SetTargetRAID(_ context.Context, id string, raid *v1alpha1.RAIDConfig, _ *v1alpha1.RootDeviceHints) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return err
	}
	if m.node.State != node.Manageable {
		return fmt.Errorf("%w: volumes of demo node %s cannot be changed in state %q", provisioner.ErrConflict, id, m.node.State)
	}
	if raid != nil && len(raid.HardwareRAIDVolumes) > 0 && !m.abilities().HardwareRAID {
		return fmt.Errorf("%w: demo node %s has no RAID controller", provisioner.ErrUnsupported, id)
	}
	e.recordRequest(m, VerbSetRAID, raid.DeepCopy())
	return nil
}

// Deploy deploys to an available node; see [provisioner.Worker].
func (e *Engine) Deploy(_ context.Context, id string, d provisioner.Deployment) error {
	return e.ask(id, request{
		verb: VerbDeploy, trigger: node.OnDeploy, details: d, unmaintained: true,
		repeated: func(m *machine) bool { return m.node.InstanceID == d.InstanceID },
		begin:    func(m *machine) { m.node.InstanceID = d.InstanceID },
		done:     func(m *machine) { m.powered(node.PowerOn) },
	})
}

// Undeploy removes the deployment; see [provisioner.Worker]. A machine without a BMC has to run its
// ramdisk.
func (e *Engine) Undeploy(_ context.Context, id string) error {
	return e.ask(id, request{
		verb: VerbUndeploy, trigger: node.OnDelete,
		until: (*machine).boots,
		done: func(m *machine) {
			m.node.InstanceID = ""
			m.powered(node.PowerOff)
		},
	})
}

// Adopt takes over a node with a deployment; see [provisioner.Worker].
func (e *Engine) Adopt(_ context.Context, id string) error {
	return e.ask(id, request{verb: VerbAdopt, trigger: node.OnAdopt, done: func(m *machine) {
		if d := m.registration.Deployed; d != nil {
			m.node.InstanceID = d.InstanceID
		}
		m.powered(node.PowerOn)
	}})
}

// Abort stops the work in which the node waits; see [provisioner.Worker].
func (e *Engine) Abort(_ context.Context, id string) error {
	return e.ask(id, request{verb: VerbAbort, trigger: node.OnAbort, begin: func(m *machine) {
		if m.node.State != node.ServiceFailed {
			m.node.LastError = "demo: the work was aborted by a request"
		}
	}})
}

// CanService returns false with [Options.NoService]; see [provisioner.Worker].
func (e *Engine) CanService(context.Context) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.opts.NoService, e.failing
}

// Service runs steps on a deployed node; see [provisioner.Worker].
func (e *Engine) Service(_ context.Context, id string, steps []node.Step) error {
	if e.opts.NoService {
		return fmt.Errorf("%w: this demo engine services no nodes", provisioner.ErrUnsupported)
	}
	if len(steps) == 0 {
		return fmt.Errorf("%w: service demo node %s: there are no steps", provisioner.ErrInvalid, id)
	}
	return e.ask(id, request{
		verb: VerbService, trigger: node.OnService, details: Steps(steps), unmaintained: true,
		begin: func(m *machine) { m.node.Step = steps[0].Step },
		done: func(m *machine) {
			m.apply(steps, e.opts.Now())
			m.powered(node.PowerOn)
		},
	})
}

// SetAutomatedCleaning turns automated cleaning on or off; see [provisioner.Worker].
func (e *Engine) SetAutomatedCleaning(_ context.Context, id string, on bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return err
	}
	m.node.Cleans, m.node.SkipsCleaning = on, !on
	e.recordRequest(m, VerbSetCleaning, on)
	return nil
}

// SetMaintenance begins or ends maintenance; see [provisioner.Worker].
func (e *Engine) SetMaintenance(_ context.Context, id, reason string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.get(id)
	if err != nil {
		return err
	}
	if m.node.Maintenance == (reason != "") && m.node.MaintenanceReason == reason {
		return nil
	}
	m.node.Maintenance, m.node.MaintenanceReason, m.node.Fault = reason != "", reason, ""
	e.recordRequest(m, VerbMaintenance, reason)
	return nil
}
