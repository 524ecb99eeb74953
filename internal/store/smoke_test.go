package store

import (
	"context"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestSmoke(t *testing.T) {
	s, err := Open(context.Background(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := &node.Node{UUID: "u1", Driver: "d", ProvisionState: node.Enroll, Owner: "me"}
	if err := s.Write(context.Background(), func(tx *Tx) error {
		if err := tx.CreateNode(n); err != nil {
			return err
		}
		_, err := tx.AcquireLease(n.ID, "h", 1e9)
		if err != nil {
			return err
		}
		if err := tx.AddPorts(n.ID, []*node.Port{{UUID: "p", Address: "a"}, {UUID: "p2", Address: "b"}}); err != nil {
			return err
		}
		m, err := tx.MatchClaims([]Claim{{MAC, "a"}, {BMC, "x"}})
		t.Log(m, err)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	err = s.Read(context.Background(), func(tx *Tx) error {
		got, err := tx.Node("u1")
		t.Logf("%+v", got)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
