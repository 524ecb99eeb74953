package up

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/polltest"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// The interface that booted has an address in 127/8, which engines refuse by default.
func TestSimulatedMachineGetsAPortForTheInterfaceThatBooted(t *testing.T) {
	u := &Up{
		opts:   Options{DataDir: t.TempDir(), Listen: "127.0.0.1:0", Network: hardware.DefaultNetwork, AgentTimeout: time.Minute},
		log:    slog.New(slog.DiscardHandler),
		failed: make(chan error, 4),
	}
	if _, err := u.startEngine(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustStop(t, u) })
	machine := hardware.Options{Kind: hardware.Server}.Machine(1, 0)
	document, err := json.Marshal(machine.Inspection)
	if err != nil {
		t.Fatal(err)
	}
	posted, err := http.Post(u.EngineURL()+"/v1/continue_inspection", "application/json", bytes.NewReader(document))
	if err != nil || posted.StatusCode != http.StatusOK {
		t.Fatalf("post: %v, %+v", err, posted)
	}
	posted.Body.Close()

	boot := machine.Inspection.Inventory.Interfaces[machine.BootNIC].MACAddress
	var ports struct{ Ports []json.RawMessage }
	polltest.UntilTrue(t, time.Minute, "a port with the address "+boot+" of the interface that booted", func() bool {
		answer, err := http.Get(u.EngineURL() + "/v1/ports?address=" + boot)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || json.Unmarshal(body, &ports) != nil {
			t.Fatalf("ports: %v, %s", err, body)
		}
		return len(ports.Ports) > 0
	})
}

// TestCleaningModeMetadataErasesNoWholeDisks checks what the API of hosts promises.
func TestCleaningModeMetadataErasesNoWholeDisks(t *testing.T) {
	cfg := (&Up{opts: Options{DataDir: t.TempDir(), Network: hardware.DefaultNetwork}}).engineConfig().Conductor
	whole, metadata := cfg.EraseDevicesPriority, cfg.EraseDevicesMetadataPriority
	if whole == nil || *whole != 0 || metadata == nil || *metadata <= 0 {
		t.Errorf("erase_devices has the priority %v, erase_devices_metadata %v; want 0, and more", whole, metadata)
	}
}
