package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var historyBehaviours = []behaviour{
	{"history reads back in order", checkHistory},
	{"the oldest rows of one history are trimmed", checkTrimEvents},
	{"a conductor is alive while it says so", checkConductors},
	{"a conductor that was silent for a day is forgotten", checkGoneConductor},
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

func checkTrimEvents(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	for i := range 5 {
		for _, of := range []*node.Node{n, other} {
			event := &node.Event{UUID: uuid.NewString(), NodeID: of.ID, Severity: node.SeverityInfo, Type: "agent", Message: fmt.Sprint(i)}
			e.write(func(tx *store.Tx) error { return tx.AddEvent(event) })
		}
	}
	history := func(of *node.Node) string {
		var messages strings.Builder
		e.read(func(tx *store.Tx) error {
			events, err := tx.Events(of.ID)
			for _, event := range events {
				messages.WriteString(event.Message)
			}
			return err
		})
		return messages.String()
	}
	for _, step := range []struct {
		keep int
		want string
	}{{7, "01234"}, {5, "01234"}, {2, "34"}} {
		e.write(func(tx *store.Tx) error { return tx.TrimEvents(n.ID, step.keep) })
		if got := history(n); got != step.want {
			t.Errorf("keeping %d: history %q, want %q", step.keep, got, step.want)
		}
	}
	if got := history(other); got != "01234" {
		t.Errorf("history of another node %q, want all of it", got)
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

func checkGoneConductor(t *testing.T, e *env) {
	register := func(hostname string) {
		t.Helper()
		e.write(func(tx *store.Tx) error { return tx.RegisterConductor(node.Conductor{Hostname: hostname}) })
	}
	want := func(hostnames ...string) {
		t.Helper()
		var got []string
		e.read(func(tx *store.Tx) error {
			conductors, err := tx.Conductors(time.Minute)
			for _, c := range conductors {
				got = append(got, c.Hostname)
			}
			return err
		})
		if diff := cmp.Diff(hostnames, got); diff != "" {
			t.Errorf("conductors (-want +got):\n%s", diff)
		}
	}
	register(here)
	e.clock.Advance(24 * time.Hour)
	register(there)
	want(here, there)
	e.clock.Advance(time.Second)
	register(there)
	want(there)
}
