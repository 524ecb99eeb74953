package story

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/test/process"
)

func TestPersonInspectsAMachineWithTheClient(t *testing.T) {
	r := startRack(t, 2, "inspector.hooks=$default_hooks,parse-lldp", "auto_discovery.enabled=true", "auto_discovery.driver=fake-hardware")
	ingot := buildIngot(t)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), ingot, args...)
		cmd.Env = append(os.Environ(), "OS_ENDPOINT=http://"+r.address)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("ingot %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	uuid := r.register(t, "agent", r.bootMAC(0), nil)

	run("node", "inspect", uuid)
	r.awaitState(t, uuid, "inspect wait")
	run("node", "abort", uuid)
	r.awaitState(t, uuid, "inspect failed")

	run("node", "inspect", uuid)
	r.awaitState(t, uuid, "inspect wait")
	if err := r.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	if progress := run("node", "wait", uuid, "--state", "manageable", "--timeout", "60s"); !strings.Contains(progress, "manageable") {
		t.Errorf("the progress does not end with manageable:\n%s", progress)
	}

	file := filepath.Join(t.TempDir(), "inventory.json")
	run("node", "inventory", "save", uuid, "--file", file)
	saved, err := os.ReadFile(file)
	var posted, stored inspectionData
	if err := json.Unmarshal(r.Machine(0).Document(), &posted); err != nil {
		t.Fatal(err)
	}
	if err != nil || json.Unmarshal(saved, &stored) != nil {
		t.Fatalf("saved inventory: %v\n%s", err, saved)
	}
	var want, got bytes.Buffer
	if err := json.Compact(&want, posted.Inventory); err != nil {
		t.Fatal(err)
	}
	if err := json.Compact(&got, stored.Inventory); err != nil || got.String() != want.String() {
		t.Errorf("the saved inventory is not what the machine posted (%v):\n%s", err, got.String())
	}
	disk := r.Machine(0).Hardware().Inspection.Inventory.Disks[0]
	if shown := run("node", "inventory", "show", uuid, "--section", "disks"); !strings.Contains(shown, disk.Name) || strings.Contains(shown, r.bootMAC(0)) {
		t.Errorf("section disks has not %s alone:\n%s", disk.Name, shown)
	}

	if err := r.Machine(1).PowerOn(); err != nil { // nobody has registered this machine
		t.Fatal(err)
	}
	var list string
	eventually(t, func(context.Context) error {
		if list = run("node", "list", "--provision-state", "enroll", "--auto-discovered"); !strings.Contains(list, "enroll") {
			return errors.New("the unknown machine is not enrolled")
		}
		return nil
	})
	if strings.Contains(list, uuid) {
		t.Errorf("a registered node is among the discovered:\n%s", list)
	}
}

// buildIngot builds the program of this work tree.
func buildIngot(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "ingot")
	t.Setenv("CGO_ENABLED", "0") // as make builds it, so that both share Go's cache
	if err := process.Build(t.Context(), ".", program, "-pgo=off"); err != nil {
		t.Fatal(err)
	}
	return program
}
