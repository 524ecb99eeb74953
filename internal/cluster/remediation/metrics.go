package remediation

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics are the controller's metrics.
type Metrics struct {
	attempts *prometheus.CounterVec
	blocked  *prometheus.CounterVec
	stuck    *prometheus.GaugeVec
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
		stuck: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ingot_remediation_stuck",
			Help: "1 for each Metal3Remediation that does not get on by itself: its condition Progressing is False and says why.",
		}, []string{"namespace", "remediation"}),
	}
	for _, c := range []prometheus.Collector{m.attempts, m.blocked, m.stuck} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of remediation: %w", err)
		}
	}
	return m, nil
}

// showStuck says whether a remediation needs a person.
func (m *Metrics) showStuck(remediation types.NamespacedName, stuck bool) {
	if stuck {
		m.stuck.WithLabelValues(remediation.Namespace, remediation.Name).Set(1)
		return
	}
	m.stuck.DeleteLabelValues(remediation.Namespace, remediation.Name)
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
