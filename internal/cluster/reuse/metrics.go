package reuse

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Metrics are the controller's metrics.
type Metrics struct {
	released *prometheus.CounterVec
	reserved *prometheus.Desc

	mu sync.Mutex
	// hosts is the number of reserved hosts by namespace and Cluster.
	hosts map[string]map[string]int
}

// NewMetrics registers the metrics with a registry.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		released: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_host_reservations_released_total",
			Help: "Hosts that were freed without a machine of the owner that they were reserved for, by reason.",
		}, []string{"reason"}),
		reserved: prometheus.NewDesc("ingot_reservations",
			"Hosts that are reserved for the machines of a control plane or a MachineDeployment.", []string{"namespace", "cluster"}, nil),
		hosts: map[string]map[string]int{},
	}
	for _, c := range []prometheus.Collector{m.released, m} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of node reuse: %w", err)
		}
	}
	return m, nil
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- m.reserved }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for namespace, clusters := range m.hosts {
		for cluster, n := range clusters {
			metrics <- prometheus.MustNewConstMetric(m.reserved, prometheus.GaugeValue, float64(n), namespace, cluster)
		}
	}
}

// observe counts the reserved hosts among those of a namespace.
func (m *Metrics) observe(namespace string, hosts []v1alpha1.BareMetalHost) {
	counts := map[string]int{}
	for i := range hosts {
		if IsReserved(&hosts[i]) {
			counts[hosts[i].Labels[clusterv1.ClusterNameLabel]]++
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hosts[namespace] = counts
}
