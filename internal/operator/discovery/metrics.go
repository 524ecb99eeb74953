package discovery

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
)

// Metrics are the controller's metrics.
type Metrics struct {
	nodes   *prometheus.GaugeVec
	created *prometheus.CounterVec
	skipped *prometheus.CounterVec
}

// NewMetrics registers the metrics with a registry.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	labels := []string{"namespace", "discovery"}
	m := &Metrics{
		nodes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ingot_discovery_nodes",
			Help: "Nodes that the engine knew at the last poll.",
		}, labels),
		created: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_discovery_created_total",
			Help: "Hosts created for discovered machines.",
		}, labels),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_discovery_skipped_total",
			Help: "Nodes that were newly skipped, by reason.",
		}, append(labels, "reason")),
	}
	for _, c := range []prometheus.Collector{m.nodes, m.created, m.skipped} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of discovery: %w", err)
		}
	}
	return m, nil
}

// observe counts the outcome of a poll. fresh are the nodes that are newly skipped.
func (m *Metrics) observe(resource *discoveryv1.BareMetalHostDiscovery, o outcome, fresh []discoveryv1.SkippedNode) {
	m.nodes.WithLabelValues(resource.Namespace, resource.Name).Set(float64(o.engineNodes))
	m.created.WithLabelValues(resource.Namespace, resource.Name).Add(float64(len(o.made)))
	for _, s := range fresh {
		m.skipped.WithLabelValues(resource.Namespace, resource.Name, string(s.Reason)).Inc()
	}
}

// forget drops the metrics of a deleted resource.
func (m *Metrics) forget(name types.NamespacedName) {
	m.nodes.DeleteLabelValues(name.Namespace, name.Name)
	m.created.DeleteLabelValues(name.Namespace, name.Name)
	for _, reason := range skipReasons {
		m.skipped.DeleteLabelValues(name.Namespace, name.Name, string(reason))
	}
}

// skipReasons are all reasons for which a node can be skipped.
var skipReasons = []discoveryv1.SkipReason{
	discoveryv1.SkipMissingDetail, discoveryv1.SkipMissingMAC, discoveryv1.SkipNoInventory, discoveryv1.SkipDuplicateMAC,
	discoveryv1.SkipNameConflict, discoveryv1.SkipNameInvalid, discoveryv1.SkipIgnored, discoveryv1.SkipTombstone,
	discoveryv1.SkipLimitReached, discoveryv1.SkipCreateForbidden, discoveryv1.SkipNodeBusy,
}
