package simulate

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/store"
)

// request is something that a client has asked for.
type request struct {
	id         int
	node       string // UUID
	name       string // verb, or the name of another request
	steps      []node.Step
	sentAt     time.Time // when it was made
	answeredAt time.Time // when it was answered
	answered   bool
	accepted   bool
	// answerUnknown says that nobody knows whether the request was accepted: its answer was lost,
	// or never came.
	answerUnknown bool
	setting       *setting // nil for what is no setting
	inventory     string   // that a ramdisk has posted; empty for what is no post
	work          requestedWork
	committed     bool // a commit was made for it
	// lost says that the effect of the request is not in the backup that was restored later.
	lost bool
}

// task is the name of what is done for a request.
func (q *request) task() string { return fmt.Sprintf("request %d: %s", q.id, q.name) }

// diskVerbs are verbs whose work takes the most steps. Clients request them more often for machines
// that boot.
var diskVerbs = map[node.State][]string{
	node.Manageable: {"clean", "clean", "provide"}, node.Available: {"active"}, node.Active: {"service", "service", "rebuild", "deleted"},
}

// stepVerbs are verbs whose steps may run on child nodes. Clients request them more often for nodes
// with a child.
var stepVerbs = map[node.State][]string{node.Manageable: {"clean"}, node.Active: {"service"}}

// verbsOf lists the verbs that clients request for nodes in each state.
var verbsOf = map[node.State][]string{
	node.Enroll:         {"manage"},
	node.Manageable:     {"provide", "clean", "clean", "inspect", "adopt"},
	node.Available:      {"active", "active", "manage"},
	node.Active:         {"deleted", "rebuild", "service", "rescue"},
	node.Rescue:         {"unrescue", "deleted"},
	node.CleanFailed:    {"manage"},
	node.InspectFailed:  {"manage", "inspect"},
	node.DeployFailed:   {"active", "deleted"},
	node.AdoptFailed:    {"manage", "adopt"},
	node.ErrorState:     {"deleted"},
	node.RescueFailed:   {"unrescue", "rescue"},
	node.UnrescueFailed: {"unrescue"},
	node.ServiceFailed:  {"abort", "service"},
	node.CleanWait:      {"abort"}, node.DeployWait: {"abort", "deleted"}, node.ServiceWait: {"abort"}, node.InspectWait: {"abort"},
	node.CleanHold: {"unhold", "unhold", "abort"}, node.DeployHold: {"unhold", "abort"}, node.ServiceHold: {"unhold", "abort"},
}

// stepChoices are steps that clients request for cleaning and servicing.
var stepChoices = []node.Step{
	{Interface: "deploy", Step: "erase_devices"},
	{Interface: "deploy", Step: "erase_devices_metadata"},
	{Interface: "bios", Step: "factory_reset"},
	{Interface: "firmware", Step: "update", Args: map[string]any{"settings": []any{}}},
	{Interface: "power", Step: node.StepReboot},
	{Interface: "power", Step: node.StepPowerOff},
	{Interface: "power", Step: node.StepPowerOn},
	{Interface: "deploy", Step: node.StepWait},
	{Interface: "deploy", Step: node.StepWait, Args: map[string]any{"seconds": 20.0}},
	{Interface: "deploy", Step: node.StepHold},
}

// computerSteps are further steps of cleaning and servicing, for machines with a BMC. The BIOS
// settings of such a step are drawn.
var computerSteps = []node.Step{
	{Interface: "deploy", Step: "erase_devices"},
	{Interface: "deploy", Step: "burnin_cpu"},
	{Interface: "bios", Step: "factory_reset"},
	{Interface: "bios", Step: "apply_configuration"},
	{Interface: "power", Step: node.StepReboot},
}

// updateStep is a step that installs firmware of a version that no other has.
func (w *world) updateStep() node.Step {
	component := pick(w.sched, []string{"bios", "bios", "bmc"})
	file := fmt.Sprintf("http://images/%s@9.%d", component, len(w.requests))
	return node.Step{Interface: "firmware", Step: "update", Args: map[string]any{"settings": []any{map[string]any{"component": component, "url": file}}}}
}

// firmwareOf returns what such a step installs; false for other steps.
func firmwareOf(step node.Step) (component, version string, ok bool) {
	settings, _ := step.Args["settings"].([]any)
	if step.Step != "update" || len(settings) == 0 {
		return "", "", false
	}
	setting, _ := settings[0].(map[string]any)
	file, _ := setting["url"].(string)
	return strings.Cut(path.Base(file), "@")
}

// stepFor draws a step for a node.
func (w *world) stepFor(uuid string) node.Step {
	c := w.computerOf(uuid)
	if c == nil || w.sched.chance(25) {
		return pick(w.sched, stepChoices)
	}
	step := pick(w.sched, computerSteps)
	if step.Step == "apply_configuration" && c.bmc != nil {
		choices := slices.DeleteFunc(slices.Clone(c.bmc.Profile().Attributes), func(a bmc.Attribute) bool { return len(a.Values) == 0 })
		attribute := pick(w.sched, choices)
		step.Args = map[string]any{"settings": []any{map[string]any{"name": attribute.Name, "value": pick(w.sched, attribute.Values)}}}
	}
	return step
}

// otherBMC is the name of the request to give a node another BMC.
const otherBMC = "another BMC"

// changeBMC has a client give a node a BMC that no other one has had.
func (w *world) changeBMC(r *replica, uuid string) {
	address := fmt.Sprintf("bmc-of-request-%d", len(w.requests))
	w.send(r, uuid, otherBMC, nil, func(ctx context.Context) error {
		_, err := r.UpdateNode(ctx, uuid, func(n *node.Node) error {
			n.DriverInfo = n.DriverInfo.With(map[string]any{"fake_bmc": address})
			return nil
		})
		return err
	})
}

// checkBMC checks that no work is on the node of a request that gives the node another BMC: such
// work would go on with the machine behind the new BMC. It looks in the transaction of the request,
// because work may begin right after the transaction.
func (w *world) checkBMC(tx *store.Tx, info runner.Info) error {
	w.mu.Lock()
	q := requestOf(info, w.requests)
	w.mu.Unlock()
	if q == nil || q.name != otherBMC {
		return nil
	}
	n, err := tx.Node(q.node)
	if err != nil || n.Driver != "fake-hardware" { // other nodes have no BMC
		return err
	}
	works, err := tx.WorkOf(n.ID)
	for _, work := range works {
		w.violated("%s: request %d gives it another BMC in state %q, in the middle of work (%s)", n.Name, q.id, n.ProvisionState, work.Kind)
	}
	return err
}

// drawRequest has a client make a request.
func (w *world) drawRequest() {
	s := w.sched
	r := w.drawReplica()
	if r == nil {
		return
	}
	uuid := pick(s, w.nodes)
	var n *node.Node
	err := w.db.Read(context.Background(), func(tx *store.Tx) (err error) {
		n, err = tx.Node(uuid)
		return err
	})
	if err != nil {
		return // it was deleted
	}
	if w.computerOf(uuid) != nil && n.ProvisionState.Class() == node.Waiting && s.chance(80) {
		return // otherwise hardly any ramdisk would get to its work
	}
	if n.ProvisionState == node.InspectWait && len(w.computers) == 0 && s.chance(40) { // computers post by themselves
		w.postDocument(r, uuid)
		return
	}
	if w.makesVolumes() && n.ProvisionState == node.Manageable && s.chance(40) {
		w.requestVerb(r, uuid, "clean")
		return
	}
	if w.usesIPMI(uuid) && n.PowerState == node.PowerOn && !n.Lease.InForce(w.db.Now()) && s.chance(40) {
		w.requestNMI(r, uuid)
		return
	}
	switch drawn := s.rng.IntN(100); {
	case drawn < 40 && w.computerOf(uuid) != nil && len(diskVerbs[n.ProvisionState]) > 0:
		w.requestVerb(r, uuid, pick(s, diskVerbs[n.ProvisionState]))
	case drawn < 40 && w.hasChild() && uuid == w.nodes[0] && len(stepVerbs[n.ProvisionState]) > 0:
		w.requestVerb(r, uuid, pick(s, stepVerbs[n.ProvisionState]))
	case drawn < 50 && len(verbsOf[n.ProvisionState]) > 0:
		w.requestVerb(r, uuid, pick(s, verbsOf[n.ProvisionState]))
	case drawn < 55:
		w.requestVerb(r, uuid, pick(s, []string{"manage", "provide", "active", "deleted", "abort", "clean", "service"}))
	case drawn < 68:
		target := pick(s, []node.PowerState{node.PowerOn, node.PowerOff, node.Rebooting})
		if n.Driver == "manual-management" {
			target = node.Rebooting
		}
		w.send(r, uuid, string(target), nil, func(ctx context.Context) error { return r.SetPower(ctx, uuid, target, 0) })
	case drawn < 75:
		w.requestSetting(r, uuid)
	case drawn < 80:
		key := fmt.Sprintf("key-%d", len(w.requests))
		w.send(r, uuid, "patch "+key, nil, func(ctx context.Context) error {
			_, err := r.UpdateNode(ctx, uuid, func(n *node.Node) error {
				n.Extra = n.Extra.With(map[string]any{key: true})
				return nil
			})
			return err
		})
	case drawn < 83 && len(w.computers) == 0:
		w.changeBMC(r, uuid)
	case drawn < 92 && len(w.computers) == 0: // the agents of computers send their own heartbeats
		w.sendHeartbeat(r, uuid)
	case drawn < 88:
		w.requestSetting(r, w.nodes[s.rng.IntN(2)]) // the first two nodes have a BMC
	case drawn < 94:
		w.send(r, uuid, "maintenance off", nil, func(ctx context.Context) error { return r.SetMaintenance(ctx, uuid, false, "") })
	case drawn < 97:
		if w.interrupts() {
			w.requestNMI(r, uuid)
			return
		}
		change := machineRequests[0]
		if w.computerOf(uuid) == nil {
			change = pick(s, machineRequests)
		}
		w.send(r, uuid, change.name, nil, func(ctx context.Context) error { return change.send(ctx, r, uuid) })
	case drawn == 97 && len(w.nodes) > 1:
		w.send(r, uuid, "delete", nil, func(ctx context.Context) error { return r.DeleteNode(ctx, uuid) })
	default:
		w.pressPowerButton(uuid)
	}
}

// machineRequests are requests about machines besides verbs, power and settings. For computers,
// clients make only the first.
var machineRequests = []struct {
	name string
	send func(ctx context.Context, r *replica, uuid string) error
}{
	{"boot device", func(ctx context.Context, r *replica, uuid string) error {
		return r.SetBootDevice(ctx, uuid, node.BootDevice{Device: "pxe"})
	}},
	{"vendor method", func(ctx context.Context, r *replica, uuid string) error {
		_, _, err := r.CallVendor(ctx, uuid, node.VendorCall{HTTPMethod: "POST", Method: "first_method", Body: node.Object(`{"bar":"baz"}`)})
		return err
	}},
}

// pressPowerButton has a person press the power button of a machine.
func (w *world) pressPowerButton(uuid string) {
	w.sched.note("somebody presses the power button of %s", w.machines[uuid].name)
	if c := w.computerOf(uuid); c != nil {
		c.pressPowerButton()
		return
	}
	w.machines[uuid].pressPowerButton()
}

func (w *world) sendHeartbeat(r *replica, uuid string) {
	w.send(r, uuid, "heartbeat", nil, func(ctx context.Context) error {
		return r.Heartbeat(ctx, uuid, node.Heartbeat{CallbackURL: "http://192.0.2.1:9999", AgentToken: agentToken, AgentVersion: "9.11.0"})
	})
}

// requestVerb requests a verb with whatever it needs.
func (w *world) requestVerb(r *replica, uuid, name string) {
	verb, ok := node.VerbNamed(name)
	if !ok {
		panic("no verb " + name)
	}
	verbRequest := node.VerbRequest{Verb: verb, RescuePassword: "hush"}
	var volumes node.Object // that the steps are to make
	if name == "clean" || name == "service" {
		most := 3
		if w.computerOf(uuid) != nil { // the steps of computers take longer
			most = 2
		}
		for range 1 + w.sched.rng.IntN(most) {
			verbRequest.Steps = append(verbRequest.Steps, w.stepFor(uuid))
		}
		if c := w.computerOf(uuid); c != nil && c.redfish != nil && w.sched.chance(35) {
			verbRequest.Steps = []node.Step{w.updateStep()}
		}
		if c := w.computerOf(uuid); c != nil && c.raid.enabled && name == "clean" && w.sched.chance(70) {
			verbRequest.Steps, volumes = w.raidSteps(), w.logicalDisks()
		}
		if w.hasChild() && uuid == w.nodes[0] {
			for i := range verbRequest.Steps {
				verbRequest.Steps[i].ExecuteOnChildNodes = w.sched.chance(70)
			}
		}
		if name == "service" {
			verbRequest.Steps = slices.DeleteFunc(verbRequest.Steps, func(s node.Step) bool { return s.Step == "erase_devices" || s.Step == "erase_devices_metadata" })
		}
	}
	if c := w.computerOf(uuid); c != nil && c.raid.enabled && name == "active" && w.sched.chance(70) {
		verbRequest.Steps = w.raidDeployment()
	}
	w.send(r, uuid, name, verbRequest.Steps, func(ctx context.Context) error {
		if volumes != nil {
			if err := w.setVolumes(ctx, r, uuid, volumes); err != nil {
				return err
			}
		}
		if w.computerOf(uuid) != nil && (name == "active" || name == "rebuild") {
			before := runner.WithInfo(ctx, &runner.Info{Task: "instance_info"})
			if _, err := r.UpdateNode(before, uuid, func(n *node.Node) error {
				n.InstanceInfo = instanceInfo
				return nil
			}); err != nil {
				return err
			}
		}
		return r.Provision(ctx, uuid, verbRequest)
	})
}

// send makes a request in a goroutine of its own.
func (w *world) send(r *replica, uuid, name string, steps []node.Step, do func(context.Context) error) {
	w.sendRequest(r, &request{node: uuid, name: name, steps: steps}, do)
}

// register gives a request its number.
func (w *world) register(q *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q.id, q.sentAt = len(w.requests)+1, time.Now()
	w.requests = append(w.requests, q)
}

// sendRequest is send for a request whose number is still to be set.
func (w *world) sendRequest(r *replica, q *request, do func(context.Context) error) {
	w.register(q)
	name, machineName := q.name, w.machines[q.node].name
	w.sched.note("client asks %s for %q of %s (request %d)", r.name, name, machineName, q.id)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := do(runner.WithInfo(ctx, &runner.Info{Task: q.task()}))
		answer, answeredAt := answerClass(err), time.Now()
		w.sched.waitAt(ctx, r, atYield, q.task()) // others may be answered at the same time
		w.mu.Lock()
		q.answered, q.answeredAt = true, answeredAt
		q.accepted, q.answerUnknown = answer == accepted && !q.lost, answer == noAnswer || answer == unavailable || q.lost
		w.mu.Unlock()
		w.sched.note("request %d (%q of %s): %s", q.id, name, machineName, answer)
	}()
	// Requests that wait for the same time must not end in the same moment, in random order.
	time.Sleep(time.Nanosecond) //nolint:forbidigo // time of a bubble, which passes by itself
}

// Kinds of answers.
const (
	accepted    = "accepted"
	noAnswer    = "no answer"
	unavailable = "unavailable"
	locked      = "locked"
	rejected    = "refused"
)

// answerClass is what kind of answer a client got.
func answerClass(err error) string {
	var unavailableError *node.UnavailableError
	switch {
	case err == nil:
		return accepted
	case errors.Is(err, errDead), errors.Is(err, context.DeadlineExceeded):
		return noAnswer
	case errors.As(err, &unavailableError):
		return unavailable
	case errors.Is(err, node.ErrLocked):
		return locked
	}
	return rejected
}
