package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

const (
	// powerPoll is how often the node is read while its power changes.
	powerPoll = 2 * time.Second
	// softTimeout is how long a system may take to shut down before the machine is powered
	// off hard.
	softTimeout = 3 * time.Minute
)

// powerStep is what has to be done about the power of a machine next.
type powerStep int

const (
	powerStay    powerStep = iota // nothing
	powerWait                     // the power changes, or is not known
	powerForget                   // the records of holds are removed, before the machine is powered on
	powerOn                       // power it on
	powerOff                      // power it off
	powerIntend                   // record that it is restarted, because it must not be off
	powerReboot                   // restart it
	powerServed                   // the request for one cycle is fulfilled
	powerRefused                  // the change was asked for and failed
)

// powerRequests is what the annotations and the spec of a host ask of the power.
type powerRequests struct {
	// online is spec.online.
	online bool
	// neverOff is spec.disablePowerOff.
	neverOff bool
	// holds are the annotations that keep the host off, by key, with their values as
	// records keep them.
	holds map[string]string
	// cycle is true when one power cycle is asked for.
	cycle bool
	// later is true when that request stays while the machine has to be off, because something else
	// begins with it.
	later bool
	// hard is true when one of the annotations asks for a hard power off.
	hard bool
}

// holders lists the annotations that keep the host off, for a sentence.
func (r powerRequests) holders() string { return strings.Join(sortedKeys(r.holds), ", ") }

// wantsOff reports whether the machine has to be off and to stay off.
func (r powerRequests) wantsOff() bool { return !r.neverOff && (!r.online || len(r.holds) > 0) }

// powerRequestsOf returns what a host asks of its power. invalid are the keys of annotations whose
// values are no valid requests; these count as soft.
func powerRequestsOf(h *v1alpha1.BareMetalHost) (r powerRequests, invalid []string) {
	r = powerRequests{online: h.Spec.Online, neverOff: h.Spec.DisablePowerOff, holds: map[string]string{}}
	for _, key := range sortedKeys(h.Annotations) {
		if !isRebootAnnotation(key) {
			continue
		}
		value := h.Annotations[key]
		arguments, err := v1alpha1.ParseRebootArguments(value)
		if err != nil {
			invalid = append(invalid, key)
		}
		r.hard = r.hard || arguments.Mode == v1alpha1.RebootModeHard
		if key == v1alpha1.RebootAnnotation {
			r.cycle = true
		} else {
			r.holds[key] = holdValue(value)
		}
	}
	return r, invalid
}

// unrecorded reports whether a hold has no record: no request to power off has followed it.
func (r powerRequests) unrecorded(records []v1alpha1.PowerOffHold) bool {
	for key, value := range r.holds {
		known := func(hold v1alpha1.PowerOffHold) bool { return hold.Key == key && hold.Value == value }
		if !slices.ContainsFunc(records, known) {
			return true
		}
	}
	return false
}

// decidePower returns the next step about the power of a machine. A machine is powered off for each
// new hold even if it is off already, because only what the engine reads after that request
// confirms the hold. stored says that records of holds are stored: until they are removed, the
// machine is not powered on, because whoever reads them must be able to rely on them.
func decidePower(r powerRequests, records []v1alpha1.PowerOffHold, stored bool, n provisioner.Node, last v1alpha1.OperationStatus) powerStep {
	next := nextPower(r, records, n, last)
	if stored && (next == powerOn || next == powerReboot) {
		return powerForget
	}
	return next
}

// nextPower is decidePower without regard to what is stored.
func nextPower(r powerRequests, records []v1alpha1.PowerOffHold, n provisioner.Node, last v1alpha1.OperationStatus) powerStep {
	asked := last.Request != "" && last.Accepted
	failed := asked && n.LastError != ""
	switch {
	case n.Busy, n.TargetPower != "":
		return powerWait
	case r.neverOff && r.cycle && last.Request != askReboot:
		return powerIntend
	case r.neverOff && r.cycle && !last.Accepted:
		return powerReboot
	case r.neverOff && r.cycle && failed:
		return powerRefused
	case r.neverOff && r.cycle:
		return powerServed
	case r.neverOff && n.Power == node.PowerOn:
		return powerStay
	case !r.neverOff && r.unrecorded(records):
		return powerOff
	case n.Power == "":
		return powerWait
	case n.Power == node.PowerOff && r.cycle && (!r.later || !r.wantsOff()):
		return powerServed
	case n.Power == node.PowerOff && isUnproven(records) && !confirmable(n):
		// A failure that the engine shows stays until it is asked again.
		if asked {
			return powerRefused
		}
		return powerOff
	case n.Power == node.PowerOff && r.wantsOff():
		return powerStay
	case failed:
		return powerRefused
	case n.Power == node.PowerOff:
		return powerOn
	case r.wantsOff() || r.cycle:
		return powerOff
	default:
		return powerStay
	}
}

// confirmable reports whether a reading of a node shows that the machine is off, as the engine read
// it after the last request: nothing is going on, and nothing has failed since. A fault of work
// says nothing about the power.
func confirmable(n provisioner.Node) bool {
	return n.Power == node.PowerOff && n.TargetPower == "" && !n.Busy && n.LastError == "" && (n.Fault == "" || ownFaults[n.Fault])
}

// isUnproven reports whether no reading has confirmed the record of some hold yet.
func isUnproven(records []v1alpha1.PowerOffHold) bool {
	return slices.ContainsFunc(records, func(hold v1alpha1.PowerOffHold) bool { return hold.ConfirmedAt == nil })
}

// unrefuted drops confirmed records if the machine is on, whoever powered it on. A nil node was not
// read.
func unrefuted(records []v1alpha1.PowerOffHold, n *provisioner.Node) []v1alpha1.PowerOffHold {
	if n == nil || n.Power != node.PowerOn {
		return records
	}
	var kept []v1alpha1.PowerOffHold
	for _, hold := range records {
		if hold.ConfirmedAt == nil {
			kept = append(kept, hold)
		}
	}
	return kept
}

// existing returns the records of the holds that exist. The record of a hold whose annotation is
// gone is dropped, so that an equal hold set later is a new one.
func (r powerRequests) existing(records []v1alpha1.PowerOffHold) []v1alpha1.PowerOffHold {
	var kept []v1alpha1.PowerOffHold
	for _, hold := range records {
		if value, exists := r.holds[hold.Key]; exists && value == hold.Value {
			kept = append(kept, hold)
		}
	}
	return kept
}

// confirmed returns the records of the holds that exist, and confirms those that a reading at that
// time confirms. It drops the confirmed records of a machine that somebody else powered on.
func confirmed(r powerRequests, records []v1alpha1.PowerOffHold, n provisioner.Node, now time.Time) []v1alpha1.PowerOffHold {
	var kept []v1alpha1.PowerOffHold
	for _, hold := range r.existing(unrefuted(records, &n)) {
		if hold.ConfirmedAt == nil && confirmable(n) {
			at := metav1.NewTime(now)
			hold.ConfirmedAt = &at
		}
		kept = append(kept, hold)
	}
	return kept
}

// recorded returns the records of all holds after a request to power off. Holds that were confirmed
// stay confirmed.
func recorded(r powerRequests, records []v1alpha1.PowerOffHold, now time.Time) []v1alpha1.PowerOffHold {
	var all []v1alpha1.PowerOffHold
	for _, key := range sortedKeys(r.holds) {
		hold := v1alpha1.PowerOffHold{Key: key, Value: r.holds[key], RequestedAt: metav1.NewTime(now)}
		for _, before := range records {
			if before.Key == hold.Key && before.Value == hold.Value {
				hold = before
			}
		}
		all = append(all, hold)
	}
	return all
}

// power steers the power of a host whose machine is in a steady state.
type power struct {
	engine     provisioner.PowerController
	media      media
	maxBackoff time.Duration
	metrics    *Metrics
}

// Requests to change the power, as they are in the record of an operation.
const (
	askOn     = "on"
	askOff    = "off"
	askReboot = "reboot"
)

// steer takes the next step. done reports that nothing is left to do.
func (p power) steer(ctx context.Context, s *scope) (done bool, res result, err error) {
	return p.steerAs(ctx, s, steering{})
}

// steerAs is steer with what a step of a live update asks for.
func (p power) steerAs(ctx context.Context, s *scope, way steering) (done bool, res result, err error) {
	if !s.host.HasBMC() {
		return true, result{}, nil
	}
	s.steered = true
	requests, _ := powerRequestsOf(s.host)
	requests.cycle, requests.later = requests.cycle || way.cycle, way.later
	status := &s.host.Status
	status.PowerOffHolds = confirmed(requests, status.PowerOffHolds, *s.node, s.now)
	record := status.Operation
	if record.Name != v1alpha1.OperationPower {
		record = v1alpha1.OperationStatus{}
	}
	if pause := s.wait(v1alpha1.OperationPower, p.maxBackoff); pause > 0 && !requests.unrecorded(status.PowerOffHolds) {
		return false, stoppedFor(min(pause, idlePoll)), nil
	}
	switch step := decidePower(requests, status.PowerOffHolds, len(s.before.Status.PowerOffHolds) > 0, *s.node, record); step {
	case powerStay:
		if requests.wantsOff() && len(requests.holds) > 0 {
			s.waiting("The host is kept powered off by %s", requests.holders())
		}
		return true, result{}, nil
	case powerWait:
		return p.await(s, record)
	case powerIntend:
		s.intends(v1alpha1.OperationPower, askReboot, "", *s.node)
		return false, stoppedFor(soon), nil
	case powerForget:
		status.PowerOffHolds = nil
		return false, stoppedFor(soon), nil
	case powerServed:
		delete(s.host.Annotations, v1alpha1.RebootAnnotation)
		return false, stoppedFor(soon), nil
	case powerRefused:
		return false, stopped(), &failure{v1alpha1.OperationPower, fmt.Errorf("%s node %s: %s", record.Request, s.node.ID, node.CutText(s.node.LastError))}
	default:
		if step != powerOff {
			if ready, res, err := p.media.reconcile(ctx, s); err != nil || !ready {
				return false, res, err
			}
		}
		res, err := p.change(ctx, s, requests, step)
		return false, res, err
	}
}

// await waits for a change of power to end, or reports that the power is not known. A recorded
// restart counts as accepted once the power changes, even if the answer of the engine was lost.
func (p power) await(s *scope, record v1alpha1.OperationStatus) (bool, result, error) {
	n := s.node
	if n.Busy || n.TargetPower != "" {
		if record.Request == askReboot && n.TargetPower != "" {
			s.host.Status.Operation.Accepted = true
		}
		return false, stoppedFor(powerPoll), nil
	}
	why := withReason("The engine cannot read the power of node "+n.ID, n.LastError)
	if n.Fault != "" || n.LastError != "" {
		return false, stopped(), &failure{v1alpha1.OperationPower, errors.New(node.CutText(why))}
	}
	s.waiting("%s", why)
	return false, stoppedFor(idlePoll), nil
}

// readsLatest reports whether a pass began with the newest version of its host. The cache of an
// operator that has just become the leader may be older than a hold that the former leader
// recorded. With such a cache the machine must not be powered on.
func readsLatest(ctx context.Context, live client.Reader, read *v1alpha1.BareMetalHost) (bool, error) {
	newest := &metav1.PartialObjectMetadata{}
	newest.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("BareMetalHost"))
	if err := live.Get(ctx, client.ObjectKeyFromObject(read), newest); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return newest.ResourceVersion == read.ResourceVersion, nil
}

// change asks the engine to change the power.
func (p power) change(ctx context.Context, s *scope, requests powerRequests, step powerStep) (result, error) {
	if step != powerOff {
		if read, err := readsLatest(ctx, p.media.live, s.before); err != nil || !read {
			return stoppedFor(soon), err
		}
	}
	change, request := powerChange(step, requests.hard || s.host.Status.Operation.Name == v1alpha1.OperationPower && s.host.Status.Operation.Failures > 0)
	err := p.engine.SetPower(ctx, s.node.ID, change)
	if errors.Is(err, provisioner.ErrUnsupported) && change.Action == provisioner.PowerActionSoftOff {
		change.Action = provisioner.PowerActionOff
		err = p.engine.SetPower(ctx, s.node.ID, change)
	}
	if err != nil {
		return stopped(), refused(v1alpha1.OperationPower, "power "+request, s.node.ID, err)
	}
	s.asked(v1alpha1.OperationPower, request, *s.node)
	switch step {
	case powerOff:
		s.host.Status.PowerOffHolds = recorded(requests, s.host.Status.PowerOffHolds, s.now)
		s.note(eventPowerOff, "Powering the machine off")
	case powerReboot:
		s.note(eventPowerOff, "Restarting the machine")
	default:
		s.note(eventPowerOn, "Powering the machine on")
	}
	count(p.metrics.powerChanges, s.host, request)
	return stoppedFor(powerPoll), nil
}

func powerChange(step powerStep, hard bool) (provisioner.PowerChange, string) {
	switch {
	case step == powerOn:
		return provisioner.PowerChange{Action: provisioner.PowerActionOn}, askOn
	case step == powerReboot && hard:
		return provisioner.PowerChange{Action: provisioner.PowerActionReboot}, askReboot
	case step == powerReboot:
		return provisioner.PowerChange{Action: provisioner.PowerActionSoftReboot, Timeout: softTimeout}, askReboot
	case hard:
		return provisioner.PowerChange{Action: provisioner.PowerActionOff}, askOff
	default:
		return provisioner.PowerChange{Action: provisioner.PowerActionSoftOff, Timeout: softTimeout}, askOff
	}
}
