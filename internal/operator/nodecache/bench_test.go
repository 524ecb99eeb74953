package nodecache

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// BenchmarkFindByMAC looks for an address that no node has and one that a node has, among
// 10,000 nodes whose ports are known.
func BenchmarkFindByMAC(b *testing.B) {
	e := &fakeEngine{nodes: map[string]provisioner.Node{}, macs: map[string][]string{}}
	for i := range 10_000 {
		id := fmt.Sprintf("n%05d", i)
		e.nodes[id] = provisioner.Node{ID: id, State: node.Enroll, UpdatedAt: start}
		e.macs[id] = []string{fmt.Sprintf("00:1b:21:00:%02x:%02x", i/256, i%256)}
	}
	c := New(e, Options{Interval: time.Hour, PortAge: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	free := func(string) bool { return false }
	for _, mac := range []string{"00:1b:21:ff:ff:ff", "00:1b:21:00:10:10"} {
		b.Run(mac, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Find(b.Context(), provisioner.Identity{MAC: mac}, free); err != nil && !errors.Is(err, provisioner.ErrNotFound) {
					b.Fatal(err)
				}
			}
		})
	}
}
