package fencing

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics are the controller's metrics.
type Metrics struct {
	started *prometheus.CounterVec
	deleted *prometheus.CounterVec
	stuck   *prometheus.GaugeVec
}

// NewMetrics registers the metrics with a registry.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		started: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_fencing_started_total",
			Help: "Hosts that were held off because their Machine was to be recovered.",
		}, []string{"namespace", "cluster"}),
		deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_fencing_nodes_deleted_total",
			Help: "Nodes that were deleted after their machine was proven to be off.",
		}, []string{"namespace", "cluster"}),
		stuck: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ingot_fencing_stuck",
			Help: "1 for each Machine whose host is held off and not proven to be off in time, or whose Node cannot be deleted in time after that.",
		}, []string{"namespace", "machine"}),
	}
	for _, c := range []prometheus.Collector{m.started, m.deleted, m.stuck} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of fencing: %w", err)
		}
	}
	return m, nil
}

// showStuck says whether the recovery of a Machine is stuck.
func (m *Metrics) showStuck(machine types.NamespacedName, stuck bool) {
	if stuck {
		m.stuck.WithLabelValues(machine.Namespace, machine.Name).Set(1)
		return
	}
	m.stuck.DeleteLabelValues(machine.Namespace, machine.Name)
}
