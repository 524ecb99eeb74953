package machine

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the metrics of the controller. The zero value and nil count nothing.
type Metrics struct{ conflicts prometheus.Counter }

// NewMetrics returns metrics that are registered in a registry.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{conflicts: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ingot_claim_conflicts_total",
		Help: "Hosts that a Metal3Machine had chosen and that could not be claimed.",
	})}
	return m, registry.Register(m.conflicts)
}

func (m *Metrics) conflict() {
	if m != nil && m.conflicts != nil {
		m.conflicts.Inc()
	}
}
