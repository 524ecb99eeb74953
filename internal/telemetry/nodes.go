package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/internal/node"
)

const (
	// countFor is how long a count of nodes is shown before they are counted
	// again, however often somebody asks.
	countFor = 10 * time.Second
	// countTimeout bounds the count.
	countTimeout = 5 * time.Second
)

// nodeStates shows how many nodes are in each provision state. It counts when
// the figures are read and not with each change: other replicas change nodes too.
type nodeStates struct {
	count func(context.Context) (map[node.State]int, error)
	log   *slog.Logger
	now   func() time.Time
	desc  *prometheus.Desc

	mu      sync.Mutex
	counted time.Time // when last, successfully or not
	counts  map[node.State]int
}

func newNodeStates(count func(context.Context) (map[node.State]int, error), log *slog.Logger, now func() time.Time) *nodeStates {
	return &nodeStates{count: count, log: log, now: now, desc: prometheus.NewDesc(
		"ingot_nodes", "Nodes of the database by provision state; every replica shows all of them.", []string{"provision_state"}, nil)}
}

// Describe implements prometheus.Collector.
func (s *nodeStates) Describe(descs chan<- *prometheus.Desc) { descs <- s.desc }

// Collect implements prometheus.Collector. While nodes cannot be counted the
// figure is absent and the others are not.
func (s *nodeStates) Collect(metrics chan<- prometheus.Metric) {
	counts := s.current()
	if counts == nil {
		return
	}
	for _, state := range node.States() {
		metrics <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(counts[state]), string(state))
	}
}

func (s *nodeStates) current() map[node.State]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !s.counted.IsZero() && now.Sub(s.counted) < countFor {
		return s.counts
	}
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	counts, err := s.count(ctx)
	if err != nil {
		s.log.Warn("Nodes could not be counted for the metrics", "err", err)
		counts = nil
	}
	s.counted, s.counts = now, counts
	return counts
}
