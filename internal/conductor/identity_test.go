package conductor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// standFor has a node stand for a machine, as far as no other node does.
func (w *world) standFor(n *node.Node, machine node.MachineIdentity) {
	w.t.Helper()
	w.write(func(tx *store.Tx) error {
		before, err := tx.NodeByID(n.ID)
		if err != nil {
			return err
		}
		after := *before
		if err := setIdentity(tx, &after, machine); err != nil {
			return err
		}
		return tx.UpdateNode(before, &after)
	})
}

// TestMachinesThatShareAUUIDAreToldApartByTheirSerialNumbers has a vendor that gave two machines the same UUID.
func TestMachinesThatShareAUUIDAreToldApartByTheirSerialNumbers(t *testing.T) {
	const uuid = "4c4c4544-0034-5010-8052-b4c04f4a4d32"
	w := newWorld(t)
	w.standFor(w.register(), node.NewMachineIdentity(uuid, "4PRJM2"))
	n := w.register()
	for serial, refused := range map[string]bool{"4PRJM3": false, "4prjm2": true, "": true} {
		if err := w.refuseMachineOfAnother(t.Context(), n, node.NewMachineIdentity(uuid, serial)); (err != nil) != refused {
			t.Errorf("serial number %q: %v, want it refused: %v", serial, err, refused)
		}
	}

	w.standFor(n, node.NewMachineIdentity(uuid, "4PRJM3"))
	for serial, refused := range map[string]bool{"4PRJM3": false, "4PRJM2": true, "BOARD7": false, "": false} {
		if err := w.refuseMachineOfAnother(t.Context(), w.stored(n.UUID), node.NewMachineIdentity(uuid, serial)); (err != nil) != refused {
			t.Errorf("node that stands for a machine, serial number %q: %v, want it refused: %v", serial, err, refused)
		}
	}
}

// TestOneMachineIsNotedInOneOfTwoNodes has two nodes managed at the same moment, so that each was checked before the
// other had noted the machine.
func TestOneMachineIsNotedInOneOfTwoNodes(t *testing.T) {
	machine := node.MachineIdentity{UUID: "00112233-4455-6677-8899-aabbccddeeff"}
	reversed := node.MachineIdentity{UUID: "ffeeddcc-bbaa-9988-7766-554433221100"}
	w := newWorld(t)
	first, second := w.register(), w.register()
	w.standFor(first, machine)
	w.standFor(second, reversed)
	if got := identityOf(w.stored(first.UUID)); got != machine {
		t.Errorf("the first node stands for %+v, want %+v", got, machine)
	}
	if got := identityOf(w.stored(second.UUID)); got.Known() {
		t.Errorf("the second node stands for %+v, too", got)
	}
	if err := w.refuseMachineOfAnother(t.Context(), second, reversed); err == nil {
		t.Error("the second node may change the machine")
	}

	other := node.MachineIdentity{SerialNumber: "S2"} // the board of the first machine was replaced
	w.standFor(first, other)
	if err := w.refuseMachineOfAnother(t.Context(), second, reversed); err != nil {
		t.Errorf("the first node keeps the machine that it does not stand for any more: %v", err)
	}
}

// TestMachinesThatEarlierReleasesNotedAreClaimedAtTheStart has an engine of a release that notes in a node which machine
// it stands for, and claims nothing, run beside this one until it starts again.
func TestMachinesThatEarlierReleasesNotedAreClaimedAtTheStart(t *testing.T) {
	const uuid = "00112233-4455-6677-8899-aabbccddeeff"
	w := newWorld(t)
	note := func(machine node.MachineIdentity, more string) *node.Node {
		t.Helper()
		n := w.register()
		w.write(func(tx *store.Tx) error {
			before, err := tx.NodeByID(n.ID)
			if err != nil {
				return err
			}
			after := *before
			after.DriverInternalInfo = after.DriverInternalInfo.With(map[string]any{node.MachineIdentityKey: machine, "answer": more})
			return tx.UpdateNode(before, &after)
		})
		return n
	}
	serialIsUUID, nothing, withNUL := node.MachineIdentity{UUID: uuid, SerialNumber: strings.ToUpper(uuid)}, node.MachineIdentity{}, node.MachineIdentity{SerialNumber: "S2"}
	last := node.MachineIdentity{SerialNumber: "S3"} // in another commit than the first ones
	owners := map[node.MachineIdentity]*node.Node{serialIsUUID: note(serialIsUUID, ""), withNUL: note(withNUL, "\x00")}
	for range claimBatch {
		note(nothing, "")
	}
	owners[last] = note(last, "")

	w.restart(func(*Config) {})
	another := w.register()
	for machine, owner := range owners {
		if err := w.refuseMachineOfAnother(t.Context(), another, machine); err == nil || !strings.Contains(err.Error(), owner.UUID) {
			t.Errorf("machine %+v: %v, want it refused as that of node %s", machine, err, owner.UUID)
		}
	}
}

// labelledMachine is the management interface of a machine that tells which one it is.
type labelledMachine struct {
	driver.Management
	secureBoots
	bootModes
	node.MachineIdentity
}

// secureBoots and bootModes embed abilities, whose names are used otherwise.
type (
	secureBoots interface{ driver.SecureBoot }
	bootModes   interface{ driver.BootModes }
)

func (m labelledMachine) Identity(context.Context, *node.Node) (node.MachineIdentity, error) {
	return m.MachineIdentity, nil
}

// atAnotherMachine returns a node whose BMC is that of the machine of another node, and that machine.
// The conductor was not started.
func atAnotherMachine(t *testing.T, changes ...func(driver.Implementations)) (*world, *standIn, *node.Node) {
	t.Helper()
	another := node.MachineIdentity{SerialNumber: "S2"}
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1")
	m := w.standIn(func(built driver.Implementations) {
		fake := built[node.ManagementInterface]["fake"]
		built[node.ManagementInterface]["fake"] = labelledMachine{fake.(driver.Management), fake.(driver.SecureBoot), fake.(driver.BootModes), another}
		built[node.InspectInterface]["agent"] = inBand{built[node.InspectInterface]["fake"].(driver.Inspector)}
		for _, change := range changes {
			change(built)
		}
	})
	n := w.register(startedBy, func(n *node.Node) {
		n.PowerState, n.InstanceInfo = node.PowerOn, node.ObjectOf(map[string]any{"capabilities": "secure_boot:true"})
		n.Interfaces[node.BootInterface], n.Interfaces[node.ManagementInterface] = "fake", "fake"
		n.Interfaces[node.DeployInterface], n.Interfaces[node.RescueInterface], n.Interfaces[node.InspectInterface] = "direct", "agent", "agent"
	})
	w.standFor(n, node.MachineIdentity{SerialNumber: "S1"})
	w.standFor(w.register(), another)
	return w, m, w.stored(n.UUID)
}

// TestNoWorkCutsThePowerOfAnotherMachine has the address of the BMC given to that of another machine
// after the work has checked it.
func TestNoWorkCutsThePowerOfAnotherMachine(t *testing.T) {
	for name, list := range map[string]func(*Conductor, runner.Task) ([]runner.Operation, error){
		"a cleaning": (*Conductor).cleanOperations, "a servicing": (*Conductor).serviceOperations,
		"a rescue": (*Conductor).rescueOperations, "the end of a rescue": (*Conductor).unrescueOperations,
		"an inspection": (*Conductor).inspectionOperations,
	} {
		for _, keepsOn := range []bool{false, true} {
			w, m, n := atAnotherMachine(t)
			n.DisablePowerOff = keepsOn
			operations, err := list(w.Conductor, runner.Task{Work: &store.Work{ID: 7}, Node: n})
			if err != nil {
				t.Fatal(err)
			}
			var tried []string
			for _, o := range operations {
				cuts := strings.HasPrefix(o.Name, powerOffName) || keepsOn && o.Name == powerOnName
				if o.Skip || !cuts {
					continue
				}
				tried = append(tried, o.Name)
				for _, turn := range []driver.Turn{{}, {Attempt: driver.Continued}, {Attempt: driver.Continued, Phase: driver.WaitPhase("off")}} {
					_, err := o.Change(t.Context(), n, turn)
					wantAs[*otherMachineError](t, err)
				}
			}
			if len(tried) == 0 || len(m.kinds()) > 0 {
				t.Errorf("%s, disable_power_off %v: tried %q; %v was done to another machine", name, keepsOn, tried, m.kinds())
			}
		}
	}
}

// imageBoots is a boot interface that boots images, but must not be asked for that.
type imageBoots struct {
	driver.RamdiskBoot
	driver.InstanceBoot
	driver.ImageBoot
}

// TestNoImageThatWasFetchedIsPutIntoAnotherMachine has the address of the BMC given to that of
// another machine during the fetch.
func TestNoImageThatWasFetchedIsPutIntoAnotherMachine(t *testing.T) {
	w, m, n := atAnotherMachine(t, func(built driver.Implementations) {
		built[node.BootInterface]["fake"] = imageBoots{RamdiskBoot: built[node.BootInterface]["fake"].(driver.RamdiskBoot)}
	})
	instance := *n
	instance.Interfaces[node.DeployInterface] = "ramdisk"
	for _, o := range []runner.Operation{w.bootRamdiskOperation(n), w.bootInstance(&instance, "")} {
		_, err := o.Change(t.Context(), n, driver.Turn{Attempt: driver.Continued})
		wantAs[*otherMachineError](t, err)
	}
	if got := m.kinds(); len(got) > 0 {
		t.Errorf("%v was done to another machine", got)
	}
}

// mediaInDrives is a boot interface that attaches media.
type mediaInDrives struct{ driver.RamdiskBoot }

func (mediaInDrives) DetachesMedia() bool { return true }

func TestMediaOfAnotherMachineAreNotDetached(t *testing.T) {
	for _, attaches := range []bool{false, true} {
		w, _, n := atAnotherMachine(t, func(built driver.Implementations) {
			if attaches {
				built[node.BootInterface]["fake"] = mediaInDrives{built[node.BootInterface]["fake"].(driver.RamdiskBoot)}
			}
		})
		node.RamdiskBoot{Secret: node.NewBootSecret()}.StoreIn(n)
		for _, o := range []runner.Operation{w.leaveRamdisk(n), w.leaveRamdiskIfItCan(n), w.withdrawBoot(n)} {
			if o.Skip {
				t.Fatalf("%s is left out", o.Name)
			}
			_, err := o.Change(t.Context(), n, driver.Turn{})
			if _, refused := errors.AsType[*otherMachineError](err); refused != attaches {
				t.Errorf("attaches media: %v; %s: %v", attaches, o.Name, err)
			}
		}
	}
}

// TestNoStepThroughTheBMCRunsOnAnotherMachine has the address of the BMC given to that of another
// machine while the node was on hold.
func TestNoStepThroughTheBMCRunsOnAnotherMachine(t *testing.T) {
	w, m, n := atAnotherMachine(t)
	for _, name := range []string{"raid.delete_configuration", "firmware.update", "bios.factory_reset", "power.reboot", "power.power_off"} {
		change := w.ownStepChange(cleanFlow, step(name))
		for _, turn := range []driver.Turn{{}, {Attempt: driver.Continued}, {Attempt: driver.Continued, Phase: driver.WaitPhase("serve")}, {Attempt: driver.Unknown, Phase: "follow"}} {
			_, err := change(t.Context(), n, turn)
			wantAs[*otherMachineError](t, err)
		}
	}
	if got := m.kinds(); len(got) > 0 {
		t.Errorf("%v was done to another machine", got)
	}
	wait := step("power.wait")
	wait.Args = map[string]any{"seconds": 0}
	if _, err := w.ownStepChange(cleanFlow, wait)(t.Context(), n, driver.Turn{}); err != nil {
		t.Errorf("a step that calls no BMC: %v", err)
	}
}

// TestNoStepOfAParentRunsOnAnotherMachineThanThatOfItsChild has the address of the child's BMC given
// to that of another machine.
func TestNoStepOfAParentRunsOnAnotherMachineThanThatOfItsChild(t *testing.T) {
	w, m, child := atAnotherMachine(t)
	child.Interfaces[node.BIOSInterface] = "fake"
	for _, name := range []string{"bios.factory_reset", "power.reboot", "power.power_off"} {
		operation := w.stepOperation(runner.Task{Node: &node.Node{}}, cleanFlow, 0, onChildren(name, child.UUID))[0]
		for _, turn := range []driver.Turn{{}, {Attempt: driver.Continued}, {Attempt: driver.Continued, Phase: driver.WaitPhase("serve")}, {Attempt: driver.Unknown, Phase: "follow"}} {
			_, err := operation.Change(t.Context(), child, turn)
			wantAs[*otherMachineError](t, err)
		}
	}
	if got := m.kinds(); len(got) > 0 {
		t.Errorf("%v was done to another machine", got)
	}
}

// TestNoChangeOfBootSettingsRestartsAnotherMachine has the address of the BMC given to that of
// another machine while the change waited for the end of a firmware update.
func TestNoChangeOfBootSettingsRestartsAnotherMachine(t *testing.T) {
	w, m, n := atAnotherMachine(t)
	n.Properties = node.ObjectOf(map[string]any{"capabilities": "boot_mode:bios"})
	operations := append(w.matchBootMode(n), w.changeSecureBoot(n, true), w.changeSecureBoot(n, false))
	for kind, value := range map[store.WorkKind]any{workBootMode: "bios", workSecureBoot: true} {
		script, _ := w.Script(kind)
		asked, err := script.Operations(runner.Task{Work: &store.Work{ID: 7, Kind: kind, Intent: node.ObjectOf(map[string]any{valueIntent: value})}, Node: n})
		if err != nil {
			t.Fatal(err)
		}
		operations = append(operations, asked...)
	}
	tried := 0
	for _, o := range operations {
		if o.Skip {
			continue
		}
		tried++
		for _, turn := range []driver.Turn{{}, {Attempt: driver.Continued}, {Attempt: driver.Continued, Phase: driver.WaitPhase("off")}} {
			_, err := o.Change(t.Context(), n, turn)
			wantAs[*otherMachineError](t, err)
		}
	}
	if got := m.kinds(); tried != 5 || len(got) > 0 {
		t.Errorf("tried %d changes, want 5; %v was done to another machine", tried, got)
	}
}

// TestNoChangeInDoubtGoesOnAtAnotherMachine has a database that went back to an older address of the
// BMC in the middle of a change.
func TestNoChangeInDoubtGoesOnAtAnotherMachine(t *testing.T) {
	w, m, n := atAnotherMachine(t)
	for _, kind := range []store.WorkKind{workClean, workDeploy, workService, workUndeploy, workRescue, workUnrescue, workSecureBoot} {
		script, _ := w.Script(kind)
		operations, err := script.Operations(runner.Task{Work: &store.Work{ID: 7, Kind: kind}, Node: n})
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		for _, o := range operations {
			if o.Change == nil || o.ReadsOnly {
				continue
			}
			tried++
			_, err := o.Change(t.Context(), n, driver.Turn{Attempt: driver.Unknown, Phase: "off sent"})
			wantAs[*otherMachineError](t, err)
		}
		if tried == 0 || len(m.kinds()) > 0 {
			t.Errorf("%s: tried %d changes; %v was done to another machine", kind, tried, m.kinds())
		}
	}
	silent := func(context.Context, *node.Node) error { return &node.DriverError{Retryable: true} }
	list := checkedInDoubt(silent, func(runner.Task) ([]runner.Operation, error) {
		return []runner.Operation{w.switchTo(n, node.PowerOn)}, nil
	})
	operations, _ := list(runner.Task{})
	if _, err := operations[0].Change(t.Context(), n, driver.Turn{Attempt: driver.Unknown}); err != nil {
		t.Errorf("a change whose BMC is away: %v", err)
	}
}

// TestNoAttemptToLeaveAMachineInOrderChangesAnotherOne has another machine's BMC answer where none did when the
// machine of failed work was checked.
func TestNoAttemptToLeaveAMachineInOrderChangesAnotherOne(t *testing.T) {
	work := func(kind store.WorkKind, intent map[string]any) runner.Task {
		return runner.Task{Work: &store.Work{ID: 7, Kind: kind, Intent: node.ObjectOf(intent)}}
	}
	aborted := func(c *Conductor, t runner.Task) []runner.Operation {
		operations, _ := c.cleanUpOperations(t)
		return operations
	}
	for name, tc := range map[string]struct {
		task   runner.Task
		leave  func(*Conductor, runner.Task) []runner.Operation
		change func(*node.Node)
		want   []string // what is tried
	}{
		"a reboot": {
			work(workPower, map[string]any{powerTargetIntent: node.Rebooting}), (*Conductor).cleanUpPower,
			func(n *node.Node) { n.PowerState = node.PowerError },
			[]string{powerOnName},
		},
		"a cleaning":   {work(workClean, nil), (*Conductor).cleanUpCleaning, nil, []string{powerOffName}},
		"a deployment": {work(workDeploy, nil), (*Conductor).cleanUpDeployment, nil, []string{powerOffName}},
		"a rescue":     {work(workRescue, nil), (*Conductor).cleanUpRescue, nil, []string{powerOffName}},
		"an inspection": {
			work(workInspect, nil), (*Conductor).cleanUpInspection,
			func(n *node.Node) { n.ProvisionState = node.Inspecting },
			[]string{powerOffName},
		},
		"the inspection of a machine that is never off": {
			work(workInspect, nil), (*Conductor).cleanUpInspection,
			func(n *node.Node) { n.ProvisionState, n.DisablePowerOff = node.Inspecting, true },
			[]string{rebootName},
		},
		"a servicing": {
			work(workService, nil), (*Conductor).cleanUpServicing, nil,
			[]string{powerOffName, "enable secure boot", bootInstanceName, powerOnName},
		},
		"a servicing that may write firmware": {
			work(workService, nil), (*Conductor).cleanUpServicing,
			func(n *node.Node) { n.ServiceStep = step("firmware.update").Object() },
			[]string{"enable secure boot", powerOnName},
		},
		"an aborted cleaning": {work(workCleanUp, map[string]any{abortedIntent: workClean}), aborted, nil, []string{powerOffName}},
		"an aborted servicing": {
			work(workCleanUp, map[string]any{abortedIntent: workService, abortedMarkIntent: "7"}), aborted, nil,
			[]string{powerOffName, "enable secure boot", bootInstanceName, powerOnName},
		},
		"an aborted inspection": {
			work(workCleanUp, map[string]any{abortedIntent: workInspect}), aborted,
			func(n *node.Node) { n.DisablePowerOff = true },
			[]string{rebootName},
		},
	} {
		w, m, n := atAnotherMachine(t)
		if tc.change != nil {
			tc.change(n)
		}
		tc.task.Node = n
		var tried []string
		for _, o := range tc.leave(w.Conductor, tc.task) {
			if o.Skip || o.Change == nil {
				continue
			}
			tried = append(tried, o.Name)
			for _, turn := range []driver.Turn{{Attempt: driver.Unknown, Phase: "sent"}, {Attempt: driver.Continued}, {Attempt: driver.Continued, Phase: driver.WaitPhase("restart")}} {
				_, err := o.Change(t.Context(), n, turn)
				wantAs[*otherMachineError](t, err)
			}
		}
		if !slices.Equal(tried, tc.want) || len(m.kinds()) > 0 {
			t.Errorf("%s: tried %q, want %q; %v was done to another machine", name, tried, tc.want, m.kinds())
		}
	}
}

// TestChangeUnderWayGoesOnWhenItsCheckGetsNoAnswer has a BMC that is away for a while, which the
// change itself tolerates.
func TestChangeUnderWayGoesOnWhenItsCheckGetsNoAnswer(t *testing.T) {
	silent := &node.DriverError{Op: checkMachine, Retryable: true, Reason: "the BMC did not answer in time"}
	other := &otherMachineError{&node.DriverError{Op: checkMachine, Reason: "it is another machine"}}
	waits := driver.WaitPhase("off")
	for _, test := range []struct {
		turn  driver.Turn
		found error
		next  string // phase after the change; empty when it is done
		want  error
	}{
		{turn: driver.Turn{Attempt: driver.Unknown, Phase: "off sent"}, found: silent, next: "off sent"},
		{turn: driver.Turn{Attempt: driver.Refused, Phase: "off sent"}, found: silent, next: "off sent"},
		{turn: driver.Turn{Attempt: driver.Continued, Phase: waits}, found: silent, next: waits},
		{turn: driver.Turn{Attempt: driver.Continued, Phase: waits}, found: silent, next: "off", want: silent},
		{turn: driver.Turn{Attempt: driver.Unknown, Phase: waits}, found: silent, want: silent},
		{turn: driver.Turn{Attempt: driver.Continued}, found: silent, want: silent},
		{turn: driver.Turn{Attempt: driver.Unknown}, found: silent, want: silent},
		{turn: driver.Turn{Attempt: driver.Unknown, Phase: "off sent"}, found: other, want: other},
		{turn: driver.Turn{Attempt: driver.Continued, Phase: waits}, found: other, next: waits, want: other},
		{turn: driver.Turn{Attempt: driver.Unknown, Phase: "off sent"}, found: node.ErrUnavailable, want: node.ErrUnavailable},
	} {
		check := func(context.Context, *node.Node) error { return test.found }
		change := afterCheck(check, func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
			if test.next == "" {
				return driver.Outcome{}, nil
			}
			return driver.Outcome{Park: time.Second, Phase: test.next}, nil
		})
		if out, err := change(t.Context(), nil, test.turn); !errors.Is(err, test.want) || err == nil && out.Phase != test.next {
			t.Errorf("turn %+v, check %v: outcome %+v, %v; want %v", test.turn, test.found, out, err, test.want)
		}
	}
}

// TestMachineIsCheckedOnceInAnAttempt has a BMC that is away for as long as a check may take.
func TestMachineIsCheckedOnceInAnAttempt(t *testing.T) {
	const limit = 8 * time.Second
	silent := &node.DriverError{Op: checkMachine, Retryable: true, Reason: "the BMC did not answer in time"}
	waits := driver.WaitPhase("off")
	for name, tc := range map[string]struct {
		phase string
		found error
		left  time.Duration // time for the change; zero if it is not begun
		want  error
	}{
		"a change under way":             {phase: "off sent", found: silent, left: limit / 2},
		"a change that waits":            {phase: waits, found: silent, left: limit / 2, want: silent},
		"a change that has not begun":    {found: silent, want: silent},
		"a BMC that answers at the last": {left: limit / 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			checks, left := 0, time.Duration(0)
			check := func(ctx context.Context, _ *node.Node) error {
				checks++
				<-ctx.Done()
				return tc.found
			}
			inner := func(ctx context.Context, _ *node.Node, _ driver.Turn) (driver.Outcome, error) {
				end, _ := ctx.Deadline()
				left = time.Until(end)
				return driver.Outcome{}, nil
			}
			operations, _ := checkedInDoubt(check, func(runner.Task) ([]runner.Operation, error) {
				return []runner.Operation{{Change: afterCheck(check, afterCheck(check, inner))}}, nil
			})(runner.Task{})
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := operations[0].Change(ctx, nil, driver.Turn{Attempt: driver.Unknown, Phase: tc.phase})
			if checks != 1 || left != tc.left || !errors.Is(err, tc.want) {
				t.Errorf("%s: %d checks, %s left, %v; want 1, %s, %v", name, checks, left, err, tc.left, tc.want)
			}
		})
	}
}

// inBand is an inspection by the ramdisk.
type inBand struct{ driver.Inspector }

func (inBand) InBand() {}
