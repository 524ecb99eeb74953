package host

import (
	"context"
	"errors"
	"slices"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

const (
	messagePreparing = "The engine makes the node available"
	messageFailed    = "Preparation failed and is tried again after a wait; change spec to try at once"
)

// preparing configures the hardware as the host asks, and makes its node available.
type preparing struct {
	work
	updater updater
}

// configuration is what has to be configured before the node becomes available.
type configuration struct {
	// raidSteps are those for the volumes in raid.
	raidSteps []node.Step
	raid      *v1alpha1.RAIDConfig
	changes   changes
	// plan is the fingerprint of what is asked for, "" for nothing. It does not depend on
	// what the machine has.
	plan string
}

// configurationOf returns the difference between what a host asks for and what its machine has been
// given.
func configurationOf(h *v1alpha1.BareMetalHost, updates changes) configuration {
	c := configuration{changes: updates}
	if raid := missingRAID(h); raid != nil {
		c.raidSteps, c.raid = provisioner.RAIDSteps(raid), raid
	}
	switch {
	case updates.wanted():
		c.plan = fingerprint(c.raidSteps, c.raid, updates.settings.uid, updates.settings.version(), updates.components.uid, updates.components.version())
	case len(c.raidSteps) > 0:
		c.plan = fingerprint(c.raidSteps, c.raid)
	}
	return c
}

// wanted reports whether there is something to configure.
func (c configuration) wanted() bool { return c.plan != "" }

// configureStep is what has to be done about a configuration next.
type configureStep int

const (
	configureWork    configureStep = iota // the engine is at work, or has to be asked
	configureCompare                      // somebody has to compare the objects with the machine first
	configureIntend                       // the request is recorded before it is sent
	configureAbort                        // the steps that run are not wanted any more
	configureDone                         // the steps of the last request have run, whether they are still asked for or not
	configureNothing                      // nothing is asked for
)

// decideConfiguration returns the next step of a configuration. waiting is true during the pause
// after a failure.
func decideConfiguration(c configuration, n provisioner.Node, record v1alpha1.OperationStatus, waiting bool) configureStep {
	asked := record.Request == askClean
	switch {
	case asked && record.Plan != c.plan && n.State == node.CleanWait:
		return configureAbort
	case asked && n.State == node.Manageable && arrived(record, n) && n.LastError == "":
		return configureDone
	case !c.wanted() && (waiting || !compareStates[n.State] || !c.changes.unseen()):
		return configureNothing
	case c.wanted() && (waiting || n.State != node.Manageable):
		return configureWork
	case c.changes.unseen():
		return configureCompare
	case !asked || record.Plan != c.plan:
		return configureIntend
	default:
		return configureWork
	}
}

// compareStates are the states of a node in which a host waits until its machine has been compared
// with the objects: the next step would lead to its use.
var compareStates = map[node.State]bool{node.Manageable: true, node.Available: true}

func (p preparing) reconcile(ctx context.Context, s *scope) (result, error) {
	keepArchitecture(s.host)
	if s.state() == v1alpha1.StateMatchProfile {
		return s.moveTo(v1alpha1.StatePreparing), nil
	}
	if !s.host.HasBMC() && hasVolumes(s.host.Spec.RAID) {
		s.waiting(messageFailed)
		if pause := s.wait(v1alpha1.OperationPrepare, p.maxBackoff); pause > 0 {
			return stoppedFor(pause), nil
		}
		return stopped(), &failure{v1alpha1.OperationPrepare, errors.New("RAID cannot be configured on a host without a BMC in this version; remove spec.raid")}
	}
	var err error
	if s.changes, err = p.updater.read(ctx, s.host); err != nil {
		return stopped(), err
	}
	if !s.changes.unseen() {
		compared(s)
	}
	if s.host.HasBMC() {
		doubtVolumes(s)
		configured, res, err := p.configure(ctx, s, configurationOf(s.host, s.changes))
		if !configured {
			return res, err
		}
	}
	if err := p.matchWaiting(ctx, s, v1alpha1.OperationPrepare); err != nil {
		return stopped(), err
	}
	t := task{
		operation: v1alpha1.OperationPrepare, workflow: prepareWorkflow, reason: v1alpha1.PreparingReason,
		message: messagePreparing, failed: messageFailed,
	}
	if waitsForBoot(s) {
		t.workflow, t.reason, t.message = manualBootWorkflow(prepareWorkflow), v1alpha1.WaitingForManualBootReason, silence(s.node.Agent.LastHeartbeat)
	}
	complete, res, err := p.advance(ctx, s, t)
	if !complete {
		return res, err
	}
	if err := p.updater.withdrawn(ctx, s); err != nil {
		return stopped(), err
	}
	effective := &s.host.Status.Provisioning
	effective.RootDeviceHints = s.host.Spec.RootDeviceHints.DeepCopy()
	effective.BootMode = s.host.Spec.BootMode
	showRAID(effective, raidOf(s.host.Spec.RAID))
	return s.moveTo(v1alpha1.StateAvailable), nil
}

// configure runs the steps of a configuration.
func (p preparing) configure(ctx context.Context, s *scope, c configuration) (configured bool, res result, err error) {
	record := s.operation(v1alpha1.OperationPrepare)
	next := decideConfiguration(c, *s.node, *record, s.wait(v1alpha1.OperationPrepare, p.maxBackoff) > 0)
	cleaning := s.node.State == node.Cleaning || s.node.State == node.CleanWait
	if problem := s.changes.problem(); problem != "" && !cleaning {
		s.updatePending = failedUpdate(problem)
		s.waiting("The host is not prepared: %s", problem)
		return false, stoppedFor(idlePoll), nil
	}
	if record.Request == askClean && cleaning {
		if err := p.updater.begun(ctx, s); err != nil {
			return false, stopped(), err
		}
	}
	s.updatePending = preparingUpdate(s.host, s.changes)
	switch next {
	case configureNothing:
		return true, result{}, nil
	case configureDone:
		res, err := p.configured(ctx, s, record.RAID)
		return false, res, err
	case configureCompare:
		return false, awaitComparison(s), nil
	case configureIntend:
		steps, err := p.updater.steps(ctx, s, c.changes)
		if err != nil {
			return false, stopped(), refused(v1alpha1.OperationPrepare, askClean, s.node.ID, err)
		}
		if free, res, err := p.slots.keep(ctx, s, v1alpha1.OperationPrepare); !free {
			return false, res, err
		}
		p.updater.request(s, c.changes)
		if len(c.raidSteps)+len(steps) == 0 {
			res, err := p.configured(ctx, s, c.raid)
			return false, res, err
		}
		s.intends(v1alpha1.OperationPrepare, askClean, c.plan, *s.node)
		record.RAID = c.raid.DeepCopy()
		if hasSoftwareVolumes(c.raid) {
			s.host.Status.Provisioning.SoftwareRAID = true
		}
		s.working(v1alpha1.PreparingReason, "The engine configures the hardware")
		return false, stoppedFor(soon), nil
	case configureAbort:
		if err := p.engine.Abort(ctx, s.node.ID); err != nil {
			return false, stopped(), refused(v1alpha1.OperationPrepare, askAbort, s.node.ID, err)
		}
		s.asked(v1alpha1.OperationPrepare, askAbort, *s.node)
		return false, stoppedFor(workPoll), nil
	}
	nothingLeft := false
	configured, res, err = p.advance(ctx, s, task{
		operation: v1alpha1.OperationPrepare, workflow: configureWorkflow, reason: v1alpha1.PreparingReason,
		message: "The engine configures the hardware", failed: messageFailed,
		send: map[string]func(context.Context) error{askClean: func(ctx context.Context) (err error) {
			nothingLeft, err = p.clean(ctx, s, c)
			return err
		}},
	})
	if nothingLeft {
		res, err = p.configured(ctx, s, record.RAID)
	}
	return configured, res, err
}

// configured records, before the node becomes available, that what was requested is in effect:
// firmware and BIOS settings, and the volumes in raid unless that is nil. If the node were
// available without this record, it would be configured once more. What was asked for since the
// request is planned afterwards.
func (p preparing) configured(ctx context.Context, s *scope, raid *v1alpha1.RAIDConfig) (result, error) {
	if updates := s.host.Status.Updates; isOpen(updates.Settings) || isOpen(updates.Components) || len(updates.Firmware) > 0 {
		if err := p.updater.applied(ctx, s); err != nil {
			return stopped(), err
		}
		s.changes = changesOf(s.changes.objects, s.host)
		s.updatePending = preparingUpdate(s.host, s.changes)
	}
	if raid != nil {
		effective := &s.host.Status.Provisioning
		showRAID(effective, raid)
		if raid.SoftwareRAIDVolumes != nil {
			effective.SoftwareRAID = hasSoftwareVolumes(raid)
		}
	}
	s.host.Status.Operation = v1alpha1.OperationStatus{Generation: s.host.Generation} // see doubtVolumes
	s.clearError()
	return stoppedFor(soon), nil
}

// clean sends the steps of a configuration: volumes, then BIOS settings, then firmware. If the
// machine has got all of it since the request was recorded, clean sends nothing and returns true.
func (p preparing) clean(ctx context.Context, s *scope, c configuration) (nothingLeft bool, err error) {
	steps, err := p.updater.steps(ctx, s, c.changes)
	if err != nil {
		return false, err
	}
	if len(c.raidSteps) > 0 {
		if err := p.engine.SetTargetRAID(ctx, s.node.ID, c.raid, s.host.Spec.RootDeviceHints); err != nil {
			return false, err
		}
	}
	if steps = slices.Concat(c.raidSteps, steps); len(steps) == 0 {
		return true, nil
	}
	return false, p.engine.Clean(ctx, s.node.ID, steps)
}
