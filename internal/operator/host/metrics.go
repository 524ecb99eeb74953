package host

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Metrics are the controller's metrics. The names that begin with metal3_ are
// the same as in Metal3, so that its dashboards work.
type Metrics struct {
	reconciles   *prometheus.CounterVec
	errors       *prometheus.CounterVec
	hostErrors   *prometheus.CounterVec
	stateChanges *prometheus.CounterVec
	unmanageds   *prometheus.CounterVec
	notReady     *prometheus.CounterVec
	uncleaned    *prometheus.CounterVec
	gaveUp       *prometheus.CounterVec
	powerChanges *prometheus.CounterVec
	registered   *prometheus.CounterVec
	newSecrets   *prometheus.CounterVec
	badData      *prometheus.CounterVec
	poweredOn    *prometheus.CounterVec
	heldBack     *prometheus.CounterVec
	info         *prometheus.GaugeVec
}

// NewMetrics registers the metrics with a registry.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	host := []string{"namespace", "host"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		reconciles:   counter("metal3_reconcile_total", "Passes over a host.", host...),
		errors:       counter("metal3_reconcile_error_total", "Passes that ended in an error of the API server.", host...),
		hostErrors:   counter("metal3_host_error_total", "Failed operations on a host.", "namespace", "host", "error_type"),
		stateChanges: counter("metal3_provisioning_state_change_total", "Changes of provisioning state.", "prev_state", "new_state"),
		unmanageds:   counter("metal3_host_unmanaged_total", "Hosts found to have neither a BMC nor a node.", host...),
		notReady:     counter("metal3_provisioner_not_ready_total", "Passes in which the engine did not answer.", host...),
		uncleaned:    counter("metal3_delete_without_deprovisioning_total", "Hosts deleted with data on their disks.", host...),
		gaveUp:       counter("ingot_delete_gave_up_total", "Hosts deleted while their node stayed in the engine.", host...),
		powerChanges: counter("metal3_operation_power_change_total", "Requests to change the power of a machine.", "namespace", "host", "on_off"),
		registered:   counter("metal3_host_registration_required_total", "Nodes created for a host.", host...),
		newSecrets:   counter("metal3_credentials_updated_total", "Credentials of a BMC taken over.", host...),
		badData:      counter("metal3_host_config_data_error_total", "Secrets for the config drive that could not be used.", "namespace", "host", "host_data_type"),
		poweredOn:    counter("metal3_delete_without_powering_off_total", "Hosts deleted whose machine may still be on.", host...),
		heldBack:     counter("metal3_delete_delayed_for_detached_total", "Passes in which a deletion waited for a detached host.", host...),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ingot_host_info", Help: "1 for the state and operational status that a host has.",
		}, []string{"namespace", "host", "state", "operational_status"}),
	}
	for _, c := range append(m.ofHosts(), m.stateChanges) {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of hosts: %w", err)
		}
	}
	if err := registry.Register(m.info); err != nil {
		return nil, fmt.Errorf("register metrics of hosts: %w", err)
	}
	return m, nil
}

// ofHosts are the counters whose first labels are namespace and name of a host.
func (m *Metrics) ofHosts() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{
		m.reconciles, m.errors, m.hostErrors, m.unmanageds, m.notReady, m.uncleaned, m.gaveUp, m.powerChanges,
		m.registered, m.newSecrets, m.badData, m.poweredOn, m.heldBack,
	}
}

// count counts something about a host. more are the labels after its namespace and name.
func count(v *prometheus.CounterVec, h *v1alpha1.BareMetalHost, more ...string) {
	v.WithLabelValues(append([]string{h.Namespace, h.Name}, more...)...).Inc()
}

// observe records the state that a pass left the host in.
func (m *Metrics) observe(s *scope) {
	was, is := s.before.Status.Provisioning.State, s.state()
	if was != is {
		m.stateChanges.WithLabelValues(string(was), string(is)).Inc()
	}
	before, now := s.before.Status.OperationalStatus, s.host.Status.OperationalStatus
	if was != is || before != now {
		m.info.DeleteLabelValues(s.host.Namespace, s.host.Name, string(was), string(before))
	}
	m.info.WithLabelValues(s.host.Namespace, s.host.Name, string(is), string(now)).Set(1)
}

// forget drops the metrics of a deleted host.
func (m *Metrics) forget(host types.NamespacedName) {
	labels := prometheus.Labels{"namespace": host.Namespace, "host": host.Name}
	for _, v := range m.ofHosts() {
		v.DeletePartialMatch(labels)
	}
	m.info.DeletePartialMatch(labels)
}
