package telemetry

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/internal/node"
)

// nodeStates exports the number of nodes in each provision state.
type nodeStates struct {
	counts recent[map[node.State]int]
	desc   *prometheus.Desc
}

func newNodeStates(count func(context.Context) (map[node.State]int, error), log *slog.Logger, now func() time.Time) *nodeStates {
	return &nodeStates{
		counts: recent[map[node.State]int]{read: count, what: "nodes", log: log, now: now},
		desc: prometheus.NewDesc(
			"ingot_nodes", "Nodes of the database by provision state; every replica shows all of them.", []string{"provision_state"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (s *nodeStates) Describe(descs chan<- *prometheus.Desc) { descs <- s.desc }

// Collect implements prometheus.Collector. While nodes cannot be counted, only this metric is
// missing.
func (s *nodeStates) Collect(metrics chan<- prometheus.Metric) {
	counts, known := s.counts.get()
	if !known {
		return
	}
	for _, state := range node.States() {
		metrics <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(counts[state]), string(state))
	}
}
