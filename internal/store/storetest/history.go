package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var historyBehaviours = []behaviour{
	{"history reads back in order", checkHistory},
	{"a conductor is alive while it says so", checkConductors},
}

func checkHistory(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	want := []*node.Event{
		{UUID: uuid.NewString(), NodeID: n.ID, Conductor: here, Severity: node.SeverityError, Type: "inspection", Message: "first", User: "ann"},
		{UUID: uuid.NewString(), NodeID: n.ID, Severity: node.SeverityInfo, Type: "agent", Message: "second"},
	}
	for _, event := range want {
		e.clock.Advance(time.Second)
		e.write(func(tx *store.Tx) error { return tx.AddEvent(event) })
	}
	e.write(func(tx *store.Tx) error {
		return tx.AddEvent(&node.Event{UUID: uuid.NewString(), NodeID: other.ID, Severity: node.SeverityInfo, Type: "agent", Message: "other"})
	})
	e.read(func(tx *store.Tx) error {
		got, err := tx.Events(n.ID)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		return err
	})
	if !want[1].CreatedAt.Equal(want[0].CreatedAt.Add(time.Second)) {
		t.Errorf("times %v and %v, want the clock's", want[0].CreatedAt, want[1].CreatedAt)
	}
}

func checkConductors(t *testing.T, e *env) {
	started := e.clock.Now()
	silent := node.Conductor{Hostname: here, Group: "row1", Drivers: []string{"fake-hardware", "redfish"}}
	lively := node.Conductor{Hostname: there, Drivers: []string{"redfish"}}
	e.write(func(tx *store.Tx) error { return tx.RegisterConductor(silent) })
	e.clock.Advance(time.Minute)
	e.write(func(tx *store.Tx) error { return tx.RegisterConductor(lively) })
	e.clock.Advance(time.Second)
	lively.Group, lively.Drivers = "row2", []string{"ipmi"}
	e.write(func(tx *store.Tx) error { return tx.RegisterConductor(lively) })
	silent.CreatedAt, lively.CreatedAt = started, started.Add(time.Minute)
	silent.UpdatedAt, lively.UpdatedAt, lively.Alive = started, e.clock.Now(), true
	e.read(func(tx *store.Tx) error {
		got, err := tx.Conductors(time.Minute)
		if diff := cmp.Diff([]node.Conductor{silent, lively}, got); diff != "" {
			t.Errorf("conductors (-want +got):\n%s", diff)
		}
		return err
	})
}
