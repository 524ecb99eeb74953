package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func action(name string) Action {
	return nodeActions[slices.IndexFunc(nodeActions, func(a Action) bool { return a.Command == name })]
}

// reading is the view of a node with that name.
func reading(name string, output Output) *Read {
	at := slices.IndexFunc(nodeViews, func(v View) bool { return v.Command == name })
	return &Read{View: nodeViews[at], Of: Nodes, Output: output}
}

func TestActionsAskForWhatTheirNameSays(t *testing.T) {
	f, engine := newFakeEngine(t, map[string][]answer{
		"PUT /v1/nodes/n1/states/power": {{202, ""}}, "PUT /v1/nodes/n1/traits/CUSTOM_A": {{204, ""}},
		"PUT /v1/nodes/n1/traits/CUSTOM_B": {{204, ""}}, "DELETE /v1/nodes/n1/traits": {{204, ""}},
		"DELETE /v1/nodes/n1/vmedia": {{204, ""}},
	})
	var r run
	for _, test := range []struct {
		act  ActOnNodes
		args []string
	}{
		{ActOnNodes{Action: action("power off"), Values: given("target", "soft power off")}, []string{"n1"}},
		{ActOnNodes{Action: action("trait add")}, []string{"n1", "CUSTOM_A", "CUSTOM_B"}},
		{ActOnNodes{Action: action("trait remove"), Everything: true}, []string{"n1"}},
		{ActOnNodes{Action: action("vmedia detach"), Values: given("device_types", []string{"cdrom", "disk"})}, []string{"n1"}},
	} {
		if err := test.act.Run(t.Context(), engine, test.args, r.streams()); err != nil {
			t.Errorf("%s: %v", test.act.Action.Command, err)
		}
	}
	want := []string{
		"PUT /v1/nodes/n1/states/power", "PUT /v1/nodes/n1/traits/CUSTOM_A", "PUT /v1/nodes/n1/traits/CUSTOM_B",
		"DELETE /v1/nodes/n1/traits", "DELETE /v1/nodes/n1/vmedia?device_types=cdrom%2Cdisk",
	}
	if diff := cmp.Diff(want, f.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	wrong := ActOnNodes{Action: action("vmedia attach")}
	if err := wrong.Run(t.Context(), engine, []string{"n1", "cdrom"}, r.streams()); ExitCode(err) != ExitUsage {
		t.Errorf("too few arguments: %v", err)
	}
}

func TestConfigurationIsTheBodyItself(t *testing.T) {
	f, engine := newFakeEngine(t, map[string][]answer{"PUT /v1/nodes/n1/states/raid": {{204, ""}}})
	act := ActOnNodes{Action: action("raid set"), Values: given(wholeBody, map[string]any{"logical_disks": []any{}})}
	var r run
	if err := act.Run(t.Context(), engine, []string{"n1"}, r.streams()); err != nil {
		t.Fatal(err)
	}
	if want := `{"logical_disks":[]}`; f.bodies[0] != want {
		t.Errorf("sent %s, want %s", f.bodies[0], want)
	}
	if err := (&ActOnNodes{Action: action("raid set")}).Run(t.Context(), engine, []string{"n1"}, r.streams()); ExitCode(err) != ExitUsage {
		t.Errorf("without a configuration: %v", err)
	}
}

func TestPassthruCallsTheMethodAsItIsToldTo(t *testing.T) {
	for method, want := range map[string]struct{ asked, body, out string }{
		"":       {"POST /v1/drivers/d/vendor_passthru?method=m", `{}`, "true\n"},
		"delete": {"DELETE /v1/drivers/d/vendor_passthru?method=m", ``, "Driver d: m accepted\n"},
	} {
		f, engine := newFakeEngine(t, map[string][]answer{
			"POST /v1/drivers/d/vendor_passthru":   {{200, "true"}},
			"DELETE /v1/drivers/d/vendor_passthru": {{202, ""}},
		})
		var r run
		err := (&Passthru{Of: Drivers, HTTPMethod: method}).Run(t.Context(), engine, "d", "m", r.streams())
		if err != nil || f.asked[0] != want.asked || f.bodies[0] != want.body || r.out.String() != want.out {
			t.Errorf("%q: %v, asked %v with %q, printed %q", method, err, f.asked, f.bodies, r.out.String())
		}
	}
	if err := (&Passthru{Of: Drivers, HTTPMethod: "HEAD"}).Run(t.Context(), nil, "d", "m", Streams{}); ExitCode(err) != ExitUsage {
		t.Errorf("a method that the API does not take: %v", err)
	}
}

func TestHistoryIsReadToItsEnd(t *testing.T) {
	f, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n1/history": {
		{200, `{"history": [{"uuid": "e1", "event": "a"}], "next": "http://h/v1/nodes/n1/history?marker=e1"}`},
		{200, `{"history": [{"uuid": "e2", "event": "b"}]}`},
	}})
	var r run
	if err := reading("history list", OutputName).Run(t.Context(), engine, []string{"n1"}, &r.out); err != nil || r.out.String() != "e1\ne2\n" {
		t.Errorf("printed %q, %v", r.out.String(), err)
	}
	if want := "GET /v1/nodes/n1/history?marker=e1"; f.asked[1] != want {
		t.Errorf("asked %v, want %s", f.asked, want)
	}
	_, engine = newFakeEngine(t, nil)
	err := reading("history list", OutputName).Run(t.Context(), engine, []string{"n1"}, &r.out)
	if want := "Cannot show history of node n1: no such thing."; ExitCode(err) != ExitNotFound || !strings.HasPrefix(Sentence(err), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestPowerIsWaitedForUntilNoChangeIsUnderWay(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{
		"PUT /v1/nodes/n1/states/power": {{202, ""}},
		"GET /v1/nodes/n1": {
			{200, `{"power_state": "power on", "target_power_state": "power on"}`},
			{200, `{"power_state": "power off", "target_power_state": "power on"}`},
			{200, `{"power_state": "power on", "target_power_state": null}`},
		},
	})
	var r run
	act := ActOnNodes{Action: action("power reboot"), Wait: Wait{Asked: true}, Interval: time.Millisecond}
	if err := act.Run(t.Context(), engine, []string{"n1"}, r.streams()); err != nil {
		t.Fatal(err)
	}
	if got := r.err.String(); got != "n1: power on\nn1: power off\nn1: power on\n" {
		t.Errorf("reported %q", got)
	}
}

func TestWaitForAStateEndsWhenItCannotCome(t *testing.T) {
	for state, code := range map[string]int{"active": ExitOK, "deploy failed": ExitError, "deploy hold": ExitError} {
		_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n1": {inState("available", "", ""), inState(state, "", "")}})
		var r run
		err := NodeWait{State: "active", Interval: time.Millisecond}.Run(t.Context(), engine, []string{"n1"}, r.streams())
		if ExitCode(err) != code {
			t.Errorf("%s: %v, want exit code %d", state, err, code)
		}
	}
}

func TestViewsPrintRowsOfEveryShape(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{
		"GET /v1/nodes/n1/traits":    {{200, `{"traits": ["CUSTOM_A"]}`}},
		"GET /v1/nodes/n1/validate":  {{200, `{"power": {"result": true}, "boot": {"result": false, "reason": "no kernel"}}`}},
		"GET /v1/nodes/n1/bios/Mode": {{200, `{"Mode": {"name": "Mode", "value": "Uefi"}}`}},
		"GET /v1/nodes/n1/firmware":  {{200, `{"firmware": [{"component": "bmc", "current_version": "1"}]}`}},
		"GET /v1/nodes/n1/vifs":      {{200, `{}`}},
	})
	for name, want := range map[string]string{
		"trait list":        "CUSTOM_A\n",
		"validate":          "boot False no kernel\npower True None\n",
		"bios setting show": "Mode\nUefi\n",
		"firmware list":     "bmc None 1 None\n",
	} {
		var r run
		err := reading(name, OutputValue).Run(t.Context(), engine, []string{"n1", "Mode"}, &r.out)
		if err != nil || r.out.String() != want {
			t.Errorf("%s: %q, %v; want %q", name, r.out.String(), err, want)
		}
	}
	if err := reading("vif list", OutputTable).Run(t.Context(), engine, []string{"n1"}, nil); ExitCode(err) != ExitError {
		t.Errorf("an answer without its rows: %v", err)
	}
}
