package conductor

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/loglimit"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// TestRefusedPostsGoThroughTheBoundedLog sends every kind of refusal more often than
// it is logged.
func TestRefusedPostsGoThroughTheBoundedLog(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Discovery.MaxNodes = 1 })
	var out bytes.Buffer
	w.refusals = loglimit.New(slog.New(slog.NewTextHandler(&out, nil)), refusalsASecond, refusalsAtOnce)
	known := unknown(1)
	w.enrol(known)
	locked := waiting(w)
	w.lease(locked, "conductor-2")
	for range refusalsAtOnce {
		_, err := send(t, w.Conductor, known)
		wantIs(t, err, node.ErrNotFound)
		_, err = send(t, w.Conductor, unknown(2))
		wantIs(t, err, node.ErrBusy)
		_, err = w.ContinueInspection(t.Context(), node.InspectionPost{Body: []byte("{")})
		wantAs[*node.ValidationError](t, err)
		_, err = w.ContinueInspection(t.Context(), node.InspectionPost{Body: unknown(3).body(), NodeUUID: locked.UUID})
		wantIs(t, err, node.ErrLocked)
		_, err = w.lookUp("02:99:00:00:00:01")
		wantIs(t, err, node.ErrNotFound)
	}
	if lines := strings.Count(out.String(), "\n"); lines != refusalsAtOnce {
		t.Errorf("%d lines, want %d", lines, refusalsAtOnce)
	}
	for _, part := range []string{`source=192.0.2.1`, `state \"enroll\"`, "max_nodes", "Refused lookup", "is locked by host conductor-2", "node_uuid=" + locked.UUID} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the log lacks %s", part)
		}
	}
}

func TestUnknownMachineMustFitTheLists(t *testing.T) {
	list, err := inspect.NewAllowList([]string{"02:00:00"}, nil, []string{"192.0.2.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) { c.Discovery.Allow = list })
	otherMachine := machine{arch: "x86_64", macs: []string{"52:54:00:00:00:01"}}
	_, err = send(t, w.Conductor, otherMachine)
	wantIs(t, err, node.ErrNotFound)
	_, err = w.ContinueInspection(t.Context(), node.InspectionPost{Body: unknown(1).body()}) // from nobody knows where
	wantIs(t, err, node.ErrNotFound)
	if nodes := w.all(); len(nodes) != 0 || w.works() != 0 {
		t.Errorf("%d nodes, want nothing written", len(nodes))
	}
	w.enrol(unknown(1))
	n := waiting(w) // registered machines need no leave
	w.addPort(n, otherMachine.macs[0])
	if answer, err := send(t, w.Conductor, otherMachine); err != nil || answer.Node.UUID != n.UUID {
		t.Errorf("answer = %+v, %v; want the registered node", answer, err)
	}
}

func TestUnknownMachineLeavesNoMountainOfData(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	large := fmt.Appendf(nil, `{"inventory":%s,"data":%q}`, m.inventory(), strings.Repeat("x", maxUnknownDocument))
	_, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: large})
	wantIs(t, err, node.ErrNotFound)
	if nodes := w.all(); len(nodes) != 0 {
		t.Errorf("%d nodes, want none", len(nodes))
	}
	n := waiting(w)
	w.addPort(n, m.macs[0])
	if _, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: large}); err != nil {
		t.Errorf("the same of a registered machine: %v", err)
	}
	w.arrive(n, node.Manageable)
}

// TestInspectionsThatFailLeaveOneDocument inspects a machine again and again, as a
// controller does that never gives up.
func TestInspectionsThatFailLeaveOneDocument(t *testing.T) {
	w := newWorld(t)
	n := w.agentNode(nil)
	m := unknown(1)
	w.addPort(n, m.macs[0])
	m.arch = ""
	const inspections = 5
	for range inspections {
		w.send(n, "inspect")
		w.arrive(n, node.InspectWait)
		if _, err := send(t, w.Conductor, m); err != nil {
			t.Fatal(err)
		}
		w.awaitWorkDone()
		w.arrive(n, node.InspectFailed)
	}
	other, kept := w.register(), 0
	w.write(func(tx *store.Tx) error {
		last, err := tx.AddDocument(other.ID, node.InspectionData{}) // tells how far the keys have come
		for id := range last {
			if _, err := tx.Document(id); err == nil {
				kept++
			}
		}
		return err
	})
	if kept != 1 {
		t.Errorf("%d documents after %d failed inspections, want the last one", kept, inspections)
	}
}
