package remediation

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the controller's metrics.
type Metrics struct {
	attempts *prometheus.CounterVec
	blocked  *prometheus.CounterVec
}

// NewMetrics registers the metrics with a registry.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_remediation_total",
			Help: "Attempts of Metal3Remediations that began.",
		}, []string{"namespace", "strategy"}),
		blocked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_remediation_blocked_total",
			Help: "Metal3Remediations that failed because the host cannot be powered off and on.",
		}, []string{"namespace", "reason"}),
	}
	for _, c := range []prometheus.Collector{m.attempts, m.blocked} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of remediation: %w", err)
		}
	}
	return m, nil
}

// count counts an action that was taken.
func (m *Metrics) count(s *scope, a action) {
	switch a {
	case begin:
		m.attempts.WithLabelValues(s.remediation.Namespace, string(s.strategy)).Inc()
	case fail:
		m.blocked.WithLabelValues(s.remediation.Namespace, string(s.obstacle)).Inc()
	}
}
