package telemetry

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/internal/node"
)

// suspension exports figures about suspended work that waits for a person.
type suspension struct {
	present                     recent[node.Suspension]
	suspended, nodes, differing *prometheus.Desc
}

func newSuspension(read func(context.Context) (node.Suspension, error), log *slog.Logger, now func() time.Time) *suspension {
	return &suspension{
		present: recent[node.Suspension]{read: read, what: "suspension", log: log, now: now},
		suspended: prometheus.NewDesc("ingot_suspended",
			"1 while engines hold work and the restoring of power states back for this reason; every replica shows the same.", []string{"reason"}, nil),
		nodes: prometheus.NewDesc("ingot_suspended_nodes",
			"Nodes with suspended work; every replica shows all of them.", nil, nil),
		differing: prometheus.NewDesc("ingot_differing_nodes",
			"Nodes whose machine was seen in another power state while nothing was done about it; every replica shows all of them.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (s *suspension) Describe(descs chan<- *prometheus.Desc) {
	descs <- s.suspended
	descs <- s.nodes
	descs <- s.differing
}

// Collect implements prometheus.Collector. While the database does not answer, only these metrics
// are missing.
func (s *suspension) Collect(metrics chan<- prometheus.Metric) {
	present, known := s.present.get()
	if !known {
		return
	}
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	for _, reason := range []node.SuspensionReason{node.Restored, node.MachinesDiffer} {
		value := 0
		if present.Reason == reason {
			value = 1
		}
		gauge(s.suspended, value, string(reason))
	}
	gauge(s.nodes, present.Nodes)
	gauge(s.differing, present.Differing)
}
