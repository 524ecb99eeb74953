package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// TestFrequentWritesWaitForTheServerSeldom counts the trips to the server of the engine's most
// frequent writes, as the conductor makes them. Each trip costs a round trip on the network, and
// holds locks for that long.
func TestFrequentWritesWaitForTheServerSeldom(t *testing.T) {
	s := replicas(t, 1)[0]
	claims := []store.Claim{{Kind: store.MAC, Address: "52:54:00:00:00:01"}, {Kind: store.BMC, Address: "192.0.2.1"}}
	n := &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Enroll, AutoDiscovered: true}
	w := &store.Work{Kind: "inspect"}
	var document int64
	event := func(tx *store.Tx) error {
		return tx.AddEvent(&node.Event{UUID: uuid.NewString(), NodeID: n.ID, Severity: node.SeverityInfo, Type: "test", Message: "done"})
	}
	start := func(tx *store.Tx) (err error) {
		if w.Lease, err = tx.AcquireLease(n.ID, "here", time.Minute); err != nil {
			return err
		}
		w.NodeID = n.ID
		return tx.AddWork(w)
	}
	change := func(tx *store.Tx, text string) error {
		before, err := tx.NodeByID(n.ID)
		if err != nil {
			return err
		}
		after := *before
		after.Description = text
		return tx.UpdateNode(before, &after)
	}
	prefetched := false
	finish := func(tx *store.Tx) error {
		return errors.Join(change(tx, "inspected"), tx.AddPorts(n.ID, []*node.Port{{UUID: uuid.NewString(), Address: "52:54:00:00:00:01"}}),
			tx.FinishInspection(n.ID, document, []byte("{}")), event(tx), tx.EndWork(w))
	}
	for _, test := range []struct {
		name  string
		trips int
		write func(*store.Tx) error
	}{
		{"enrol", 3, func(tx *store.Tx) (err error) {
			if _, err = tx.MatchClaims(claims); err != nil {
				return err
			}
			if err = errors.Join(tx.CreateNode(n), event(tx)); err != nil {
				return err
			}
			document, err = tx.AddDocument(n.ID, node.InspectionData{Inventory: []byte("{}"), PluginData: []byte("{}")})
			return errors.Join(err, tx.ClaimInventory(n.ID, claims), start(tx))
		}},
		{"end of an inspection", 2, finish},
		{"post of a known machine whose work begins with a call", 3, func(tx *store.Tx) (err error) {
			if _, err = tx.MatchClaims(claims); err != nil {
				return err
			}
			tx.ExpectWork()
			if err = change(tx, "posted"); err != nil {
				return err
			}
			if document, err = tx.AddDocument(n.ID, node.InspectionData{Inventory: []byte("{}"), PluginData: []byte("{}")}); err != nil {
				return err
			}
			if w.Lease, err = tx.AcquireBusyLease(n.ID, "here", time.Minute, time.Second, 0); err != nil {
				return err
			}
			return errors.Join(tx.AddWork(w), tx.PrefetchMachinePorts(n.ID, nil, func(*store.MachinePorts) { prefetched = true }))
		}},
		{"end of a second inspection", 2, finish},
		{"manage", 2, func(tx *store.Tx) error {
			tx.ExpectWork()
			if _, err := tx.Node(n.UUID); err != nil {
				return err
			}
			return errors.Join(start(tx), event(tx), storeState(tx, n))
		}},
		{"begin of a call to a machine", 2, func(tx *store.Tx) error {
			return errors.Join(change(tx, "begun"), tx.SetBusy(&w.Lease, tx.Now().Add(time.Minute), 0), tx.CheckpointWork(w))
		}},
		{"lookup", 3, func(tx *store.Tx) error {
			if _, err := tx.MatchClaims(claims); err != nil {
				return err
			}
			return change(tx, "looked up")
		}},
		{"delete", 2, func(tx *store.Tx) error {
			if _, err := tx.Node(n.UUID); err != nil {
				return err
			}
			return tx.DeleteNode(n)
		}},
	} {
		trips, err := s.Trips(t.Context(), test.write)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if trips != test.trips {
			t.Errorf("%s took %d trips to the server, want %d", test.name, trips, test.trips)
		}
	}
	if !prefetched {
		t.Error("the post has not brought the ports of its node")
	}
}

// storeState stores a change of a node that was read before.
func storeState(tx *store.Tx, n *node.Node) error {
	after := *n
	after.ProvisionState = node.Verifying
	return tx.UpdateNode(n, &after)
}
