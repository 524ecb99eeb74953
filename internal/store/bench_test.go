package store_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// BenchmarkStore measures what the API asks of a database most often, by eight
// clients at once.
func BenchmarkStore(b *testing.B) {
	for name, options := range map[string]func() store.Options{
		"sqlite":   func() store.Options { return store.Options{Dir: b.TempDir()} },
		"postgres": func() store.Options { return store.Options{URL: storetest.Postgres(b)} },
	} {
		b.Run(name, func(b *testing.B) {
			s, err := store.Open(b.Context(), options())
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() })
			for _, work := range []struct {
				name string
				run  func(b *testing.B, s *store.Store)
			}{
				{"create node", benchCreateNode},
				{"create port", benchCreatePort},
				{"show node", benchShowNode},
				{"verb and its work", benchVerb},
				{"delete node", benchDeleteNode},
				{"list 1000 nodes", benchList},
			} {
				b.Run(work.name, func(b *testing.B) {
					b.SetParallelism(max(1, 8/runtime.GOMAXPROCS(0)))
					work.run(b, s)
				})
			}
		})
	}
}

func benchNode(b *testing.B, s *store.Store) *node.Node {
	b.Helper()
	n := &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Enroll}
	if err := s.Write(b.Context(), func(tx *store.Tx) error { return tx.CreateNode(n) }); err != nil {
		b.Fatal(err)
	}
	return n
}

func benchCreateNode(b *testing.B, s *store.Store) {
	b.Helper()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			benchNode(b, s)
		}
	})
}

func benchCreatePort(b *testing.B, s *store.Store) {
	b.Helper()
	n := benchNode(b, s)
	base := time.Now().UnixNano()
	var count atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mac := fmt.Sprintf("%012x", (base+count.Add(1))&0xffffffffffff)
			p := &node.Port{UUID: uuid.NewString(), NodeID: n.ID, Address: mac}
			if err := s.Write(b.Context(), func(tx *store.Tx) error {
				owner, err := tx.Node(n.UUID)
				if err != nil {
					return err
				}
				p.NodeID = owner.ID
				return tx.CreatePort(p)
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchShowNode(b *testing.B, s *store.Store) {
	b.Helper()
	n := benchNode(b, s)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.Read(b.Context(), func(tx *store.Tx) error {
				_, err := tx.Node(n.UUID)
				return err
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// benchVerb accepts a verb in one transaction and finishes its work in another.
func benchVerb(b *testing.B, s *store.Store) {
	b.Helper()
	b.RunParallel(func(pb *testing.PB) {
		n := benchNode(b, s)
		for pb.Next() {
			w := &store.Work{NodeID: n.ID, Kind: "verify"}
			must := func(fn func(tx *store.Tx, n *node.Node) error) {
				if err := s.Write(b.Context(), func(tx *store.Tx) error {
					before, err := tx.Node(n.UUID)
					if err != nil {
						return err
					}
					after := *before
					if err := fn(tx, &after); err != nil {
						return err
					}
					return tx.UpdateNode(before, &after)
				}); err != nil {
					b.Fatal(err)
				}
			}
			must(func(tx *store.Tx, n *node.Node) (err error) {
				n.ProvisionState = node.Verifying
				if w.Lease, err = tx.AcquireLease(n.ID, "bench", time.Minute); err != nil {
					return err
				}
				return tx.AddWork(w)
			})
			must(func(tx *store.Tx, n *node.Node) error {
				n.ProvisionState = node.Manageable
				if err := tx.FinishWork(w); err != nil {
					return err
				}
				return tx.EndLeaseKeepBusy(w.Lease)
			})
		}
	})
}

func benchDeleteNode(b *testing.B, s *store.Store) {
	b.Helper()
	uuids := make([]string, b.N)
	if err := s.Write(b.Context(), func(tx *store.Tx) error {
		for i := range uuids {
			n := &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Enroll}
			if err := tx.CreateNode(n); err != nil {
				return err
			}
			uuids[i] = n.UUID
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.Write(b.Context(), func(tx *store.Tx) error {
				n, err := tx.NodeToDelete(uuids[next.Add(1)-1])
				if err != nil {
					return err
				}
				return tx.DeleteNode(n)
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchList(b *testing.B, s *store.Store) {
	b.Helper()
	for range 1000 {
		benchNode(b, s)
	}
	for b.Loop() {
		if err := s.Read(b.Context(), func(tx *store.Tx) error {
			_, err := tx.Nodes(node.Query{Limit: 1000})
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}
