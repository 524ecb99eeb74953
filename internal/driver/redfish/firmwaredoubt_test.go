package redfish_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// wentBack returns a step of two updates whose row is that of an earlier time: it follows the first
// update while the BMC writes the second.
func wentBack(t *testing.T, first, second string) *flashing {
	t.Helper()
	m, _ := newMachine(t, "dell", redfishtest.Options{Times: bmc.Times{Flash: flashTime}})
	d := redfish.New(redfish.Options{Clock: m.Now})
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	flashedBefore(m)
	f := &flashing{m: m, d: d, step: firmwareStep(
		first, redfishtest.Serve(t, "ingot-firmware component="+first+" version=9.9.1"),
		second, redfishtest.Serve(t, "ingot-firmware component="+second+" version=9.9.2"),
	)}
	f.turn.Origin.Request = "update"
	var stored driver.Turn
	var internal node.Object
	for !slices.Equal(m.Writing(), []string{second}) {
		out, err := f.next()
		if err != nil {
			t.Fatal(err)
		}
		apply(m, out)
		if out.Phase == "follow" && stored.Phase == "" {
			stored, internal = f.turn, m.node.DriverInternalInfo
		}
	}
	m.node.DriverInternalInfo, m.before = internal, len(m.Server.Effects())
	f.turn = stored
	f.turn.Attempt, f.turn.Elapsed = driver.Unknown, 0
	return f
}

func TestUpdateThatAnOlderDatabaseKnowsNothingOfKeepsThePowerOfTheMachine(t *testing.T) {
	for name, silent := range map[string]bool{"": false, "after a turn without an answer": true} {
		f := wentBack(t, "bios", "bmc")
		m := f.m
		m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
			if silent {
				panic(http.ErrAbortHandler)
			}
			bmc.ServeHTTP(w, r)
		})
		var notes string
		for done := false; !done; silent = false {
			out, err := f.next()
			if err != nil {
				t.Fatal(err)
			}
			apply(m, out)
			notes, done = notes+out.Note, out.Done()
		}
		if interrupted(m) || !strings.Contains(notes, "of which the engine has stored nothing") || versions(m)["bios"] != "9.9.1" || versions(m)["bmc"] != "9.9.2" {
			t.Errorf("%s: effects %q, versions %v, notes %q; want that the write is awaited", name, m.Effects(), versions(m), notes)
		}
		if left := node.FirmwareUpdatesOf(m.node); len(left) != 0 {
			t.Errorf("%s: after the step the node has %+v", name, left)
		}
	}
}

// TestUpdateOfOthersLeavesNoRecordAfterADoubt has a node with the record of an earlier update, which
// has ended, and a BMC with a later one of somebody else, which waits for a boot.
func TestUpdateOfOthersLeavesNoRecordAfterADoubt(t *testing.T) {
	m, d := newMachine(t, "dell")
	flashedBefore(m)
	f := followBIOS(m, d, "9.9.1")
	stored := node.FirmwareUpdatesOf(m.node)
	const tasks = "/redfish/v1/TaskService/Tasks"
	node.StoreFirmwareUpdates(m.node, append(stored, node.FirmwareUpdate{Request: "earlier", Component: "bmc", Task: tasks + "/forgotten"}))
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		m.shows(map[string]string{
			tasks:             `{"Members": [{"@odata.id": "` + tasks + `/others"}]}`,
			tasks + "/others": `{"TaskState": "Pending"}`,
		}, w, r, bmc)
	})
	f.turn.Attempt = driver.Unknown
	f.finish(t)
	if left := node.FirmwareUpdatesOf(m.node); len(left) != 0 {
		t.Errorf("after the step the node has %+v", left)
	}
}

// TestUpdateOfOthersThatNeverEndsIsAwaitedOnceBeforeARestart has a machine that must not be switched
// off, and a step whose stored state may be lost.
func TestUpdateOfOthersThatNeverEndsIsAwaitedOnceBeforeARestart(t *testing.T) {
	m, _ := newMachine(t, "dell")
	d := redfish.New(redfish.Options{Clock: m.Now})
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	flashedBefore(m)
	m.node.DisablePowerOff = true
	f := followBIOS(m, d, "9.9.1")
	const tasks = "/redfish/v1/TaskService/Tasks"
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		m.shows(map[string]string{
			tasks:             `{"Members": [{"@odata.id": "` + tasks + `/others"}]}`,
			tasks + "/others": `{"TaskState": "Running"}`,
		}, w, r, bmc)
	})
	f.turn.Attempt = driver.Unknown
	var waited time.Duration
	for done := false; !done; {
		out, err := f.next()
		if err != nil {
			t.Fatal(err)
		}
		apply(m, out)
		if out.Waits {
			waited += out.Park
		}
		if done = out.Done(); waited > 3*time.Hour {
			t.Fatalf("waits for %s and more", waited)
		}
	}
	if left := node.FirmwareUpdatesOf(m.node); waited < 2*time.Hour || len(left) != 0 {
		t.Errorf("waited for %s, and the node has %+v", waited, left)
	}
}

func TestNextUpdateThatAnOlderDatabaseKnowsNothingOfIsAwaited(t *testing.T) {
	f := wentBack(t, "bmc", "bios")
	m := f.m
	waited := false
	for done := false; !done; {
		writes := len(m.Writing()) > 0 && len(m.Effects()) == 0
		out, err := f.next()
		if err != nil {
			t.Fatal(err)
		}
		apply(m, out)
		if writes && (len(m.Effects()) > 0 || out.Park > 0 && len(node.FirmwareUpdatesOf(m.node)) == 0) {
			t.Fatalf("while the BMC writes: effects %q, noted is %+v; want no request, and a note", m.Effects(), node.FirmwareUpdatesOf(m.node))
		}
		waited, done = waited || writes && out.Phase != "verify" && out.Park > 0, out.Done()
	}
	if left := node.FirmwareUpdatesOf(m.node); !waited || interrupted(m) || versions(m)["bios"] != "9.9.2" || len(left) != 0 {
		t.Errorf("waited %v, effects %q, versions %v, and the node has %+v", waited, m.Effects(), versions(m), left)
	}
}

func TestUpdateThatEndedWhileItWasAwaitedIsNotRequestedAgain(t *testing.T) {
	f := wentBack(t, "bmc", "bios")
	m := f.m
	f.finish(t)
	if left := node.FirmwareUpdatesOf(m.node); len(m.Effects()) > 0 || len(m.Writing()) > 0 || versions(m)["bios"] != "9.9.2" || len(left) != 0 {
		t.Errorf("effects %q, versions %v, and the node has %+v; want no request beside the one of before", m.Effects(), versions(m), left)
	}
}

// TestAbortWaitsForAnUpdateThatAnOlderDatabaseKnowsNothingOf has a client abort while the component
// is followed that the row has.
func TestAbortWaitsForAnUpdateThatAnOlderDatabaseKnowsNothingOf(t *testing.T) {
	f := wentBack(t, "bmc", "bios")
	m := f.m
	f.step.AbortAfter = true
	f.finish(t)
	if left := node.FirmwareUpdatesOf(m.node); len(m.Writing()) > 0 || len(m.Effects()) > 0 || versions(m)["bios"] != "9.9.2" || len(left) != 0 {
		t.Errorf("the BMC writes %q after the step, effects %q, versions %v, and the node has %+v", m.Writing(), m.Effects(), versions(m), left)
	}
}

// TestUpdateThatMayWaitForABootStaysNotedWhenTheStepFails has a BMC with an update that waits for a
// boot, and a step whose row says that it may have begun.
func TestUpdateThatMayWaitForABootStaysNotedWhenTheStepFails(t *testing.T) {
	m, d := newMachine(t, "dell")
	flashedBefore(m)
	m.before = len(m.Server.Effects())
	const tasks = "/redfish/v1/TaskService/Tasks"
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		m.shows(map[string]string{
			tasks:            `{"Members": [{"@odata.id": "` + tasks + `/waits"}]}`,
			tasks + "/waits": `{"TaskState": "Pending"}`,
		}, w, r, bmc)
	})
	file := redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9.1")
	f := &flashing{m: m, d: d, step: firmwareStep("bmc", file), turn: driver.Turn{Attempt: driver.Unknown}}
	var err error
	for range 3 {
		var out driver.Outcome
		if out, err = f.next(); err != nil {
			break
		}
		apply(m, out)
	}
	if err == nil || !strings.Contains(err.Error(), "outcome unknown") || len(m.Effects()) != 0 {
		t.Errorf("error = %v, effects %q; want that nobody can know, and no request", err, m.Effects())
	}
	if noted := node.FirmwareUpdatesOf(m.node); len(noted) != 1 || noted[0].Component != "bmc" {
		t.Errorf("noted is %+v, want the update of the BMC", noted)
	}
}
