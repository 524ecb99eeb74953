package story

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

const (
	verbInspect = ironic.Verb("inspect")
	verbAbort   = ironic.Verb("abort")
)

func TestRegisteredMachineIsInspected(t *testing.T) {
	t.Parallel()
	r := startRack(t, 8)
	for name, tc := range map[string]struct {
		machine int
		node    func(machine int) string
	}{
		"known by its boot interface": {0, func(i int) string { return r.register(t, "agent", r.bootMAC(i), nil) }},
		"known by its BMC alone": {r.machineWith(t, "a BMC", func(i int, found hardware.Inspection) bool {
			return i > 0 && found.Inventory.BMCAddress != "0.0.0.0"
		}), func(i int) string {
			bmc := r.Machine(i).Hardware().Inspection.Inventory.BMCAddress
			return r.register(t, "agent", "", map[string]any{"redfish_address": "https://" + bmc + "/redfish/v1"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			machine := r.Machine(tc.machine)
			uuid := tc.node(tc.machine)
			r.provision(t, uuid, verbInspect, "inspect wait")
			if err := machine.PowerOn(); err != nil {
				t.Fatal(err)
			}
			n := r.awaitState(t, uuid, "manageable")
			machine.PowerOff()

			if n.Finished == nil || n.LastError != "" {
				t.Errorf("inspection finished at %v with error %q", n.Finished, n.LastError)
			}
			if n.AutoDiscovered {
				t.Error("a registered node counts as discovered")
			}
			want := machine.Hardware().Inspection.Inventory
			if n.Properties["cpu_arch"] != want.CPU.Architecture {
				t.Errorf("cpu_arch = %v, want %s", n.Properties["cpu_arch"], want.CPU.Architecture)
			}
			ports := r.ports(t, uuid)
			for _, nic := range want.Interfaces {
				if _, ok := ports[nic.MACAddress]; !ok {
					t.Errorf("interface %s (%s) has no port", nic.Name, nic.MACAddress)
				}
			}
			var stored inspectionData
			r.read(t, "/v1/nodes/"+uuid+"/inventory", &stored)
			var posted inspectionData
			if err := json.Unmarshal(machine.Document(), &posted); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(stored.Inventory, posted.Inventory) {
				t.Errorf("the inventory is not what was posted:\n%s\n%s", stored.Inventory, posted.Inventory)
			}
		})
	}
}

func TestAbortedInspectionLeavesTheMachineOut(t *testing.T) {
	t.Parallel()
	r := startRack(t, 1)
	uuid := r.register(t, "agent", r.bootMAC(0), nil)
	r.provision(t, uuid, verbInspect, "inspect wait")
	r.provision(t, uuid, verbAbort, "inspect failed")
	if err := r.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(context.Context) error {
		if r.Machine(0).Answers(sim.Answer{Call: "inspect", Status: http.StatusNotFound}) == 0 {
			return errors.New("the machine's post was not refused")
		}
		return nil
	})
	if n := r.show(t, uuid); n.State != "inspect failed" || !strings.Contains(n.LastError, "abort") {
		t.Errorf("the node is in %q with %q, want inspect failed and a word of the abort", n.State, n.LastError)
	}

	// It can be inspected again.
	r.Machine(0).PowerOff()
	r.provision(t, uuid, verbInspect, "inspect wait")
	if err := r.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	r.awaitState(t, uuid, "manageable")
}

func TestInspectionWithoutAnAnswerTimesOut(t *testing.T) {
	t.Parallel()
	r := startRack(t, 1, "conductor.callback_timeout=2s")
	uuid := r.register(t, "agent", r.bootMAC(0), nil)
	r.provision(t, uuid, verbInspect, "inspect failed")
	if n := r.show(t, uuid); !strings.Contains(n.LastError, "timed out") {
		t.Errorf("last error %q does not say that it timed out", n.LastError)
	}
}

func TestFakeInspectionNeedsNoMachine(t *testing.T) {
	t.Parallel()
	r := startRack(t, 1)
	uuid := r.register(t, "fake", "", nil)
	r.provision(t, uuid, verbInspect, "manageable")
	if n := r.show(t, uuid); n.Finished == nil {
		t.Error("the fake inspection has no end")
	}
}

func TestNodeWithoutInspectionSaysSo(t *testing.T) {
	t.Parallel()
	r := startRack(t, 1)
	uuid := r.register(t, "no-inspect", "", nil)
	status, body := r.call(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision", []byte(`{"target":"inspect"}`), "latest")
	if status == http.StatusAccepted {
		n := r.awaitState(t, uuid, "inspect failed")
		body = []byte(n.LastError)
	}
	if !strings.Contains(string(body), "inspect") {
		t.Errorf("answer %d %s does not say what is missing", status, body)
	}
}

func TestCallbackAnswersByVersionAndHidesReasonsFromUnknownMachines(t *testing.T) {
	t.Parallel()
	r := startRack(t, 4)
	waiting := func(i int) string {
		uuid := r.register(t, "agent", r.bootMAC(i), nil)
		r.provision(t, uuid, verbInspect, "inspect wait")
		return uuid
	}
	const callback = "/v1/continue_inspection"

	uuid := waiting(0)
	status, body := r.call(t, http.MethodPost, callback, r.Machine(0).Document(), "")
	if want := fmt.Sprintf(`{"uuid":%q}`, uuid); status != http.StatusOK || string(bytes.TrimSpace(body)) != want {
		t.Errorf("base version: %d %s, want 200 %s", status, body, want)
	}

	uuid = waiting(1)
	status, body = r.call(t, http.MethodPost, callback+"?node_uuid="+uuid, r.Machine(1).Document(), "1.84")
	var lookup struct {
		Node   struct{ UUID string }
		Config struct {
			Token string `json:"agent_token"`
		}
	}
	if err := json.Unmarshal(body, &lookup); err != nil || status != http.StatusOK || lookup.Node.UUID != uuid || len(lookup.Config.Token) < 32 {
		t.Errorf("version 1.84: %d %s (%v), want the node with a token", status, body, err)
	}

	// Unknown, known but not in inspection, and several nodes look the same.
	second := r.Machine(2).Hardware().Inspection.Inventory.Interfaces
	r.register(t, "agent", second[0].MACAddress, nil)
	r.register(t, "agent", second[1].MACAddress, nil)
	var answers []string
	for _, machine := range []int{3, 0, 2} {
		status, body := r.call(t, http.MethodPost, callback, r.Machine(machine).Document(), "")
		if status != http.StatusNotFound {
			t.Errorf("machine %d was answered with %d %s, want 404", machine, status, body)
		}
		answers = append(answers, string(body))
	}
	if diff := cmp.Diff([]string{answers[0], answers[0], answers[0]}, answers); diff != "" {
		t.Errorf("refusals differ:\n%s", diff)
	}
}
