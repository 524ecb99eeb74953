package host

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Metrics are the controller's metrics. The names that begin with metal3_ are
// the same as in Metal3, so that its dashboards work.
type Metrics struct {
	reconciles   *prometheus.CounterVec
	errors       *prometheus.CounterVec
	hostErrors   *prometheus.CounterVec
	stateChanges *prometheus.CounterVec
	unmanaged    *prometheus.CounterVec
	notReady     *prometheus.CounterVec
	uncleaned    *prometheus.CounterVec
	deleteGaveUp *prometheus.CounterVec
	powerChanges *prometheus.CounterVec
	registered   *prometheus.CounterVec
	newSecrets   *prometheus.CounterVec
	badData      *prometheus.CounterVec
	poweredOn    *prometheus.CounterVec
	heldBack     *prometheus.CounterVec
	servicing    *prometheus.CounterVec
	noRamdisk    *prometheus.CounterVec
	noSecret     *prometheus.CounterVec
	badSecret    *prometheus.CounterVec
	secretErrors *prometheus.CounterVec
	noAccess     *prometheus.CounterVec
	queued       *prometheus.CounterVec
	queuedToEnd  *prometheus.CounterVec
	durations    map[v1alpha1.ProvisioningState]*prometheus.HistogramVec
	info         *prometheus.GaugeVec

	mu    sync.Mutex
	shown map[types.NamespacedName][2]string // state and operational status in info
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
		unmanaged:    counter("metal3_host_unmanaged_total", "Hosts found to have neither a BMC nor a node.", host...),
		notReady:     counter("metal3_provisioner_not_ready_total", "Passes in which the engine did not answer.", host...),
		uncleaned:    counter("metal3_delete_without_deprovisioning_total", "Hosts deleted with data on their disks.", host...),
		deleteGaveUp: counter("ingot_delete_gave_up_total", "Hosts deleted while their node stayed in the engine.", host...),
		powerChanges: counter("metal3_operation_power_change_total", "Requests to change the power of a machine.", "namespace", "host", "on_off"),
		registered:   counter("metal3_host_registration_required_total", "Nodes created for a host.", host...),
		newSecrets:   counter("metal3_credentials_updated_total", "Credentials of a BMC taken over.", host...),
		badData:      counter("metal3_host_config_data_error_total", "Secrets for the config drive that could not be used.", "namespace", "host", "host_data_type"),
		poweredOn:    counter("metal3_delete_without_powering_off_total", "Hosts deleted whose machine may still be on.", host...),
		heldBack:     counter("metal3_delete_delayed_for_detached_total", "Passes in which a deletion waited for a detached host.", host...),
		servicing:    counter("ingot_servicing_total", "Live updates that ended.", "namespace", "host", "result"),
		noRamdisk:    counter("metal3_waiting_for_preprov_image_total", "Passes in which a host waited for its ramdisk.", host...),
		noSecret:     counter("metal3_credentials_missing_total", "Passes in which the Secret with the credentials of a BMC did not exist.", host...),
		badSecret:    counter("metal3_credentials_invalid_total", "Passes in which that Secret lacked a key.", host...),
		secretErrors: counter("metal3_credentials_unhandled_error_total", "Passes in which that Secret could not be read.", host...),
		noAccess:     counter("metal3_credentials_no_management_access_total", "Registrations that failed with the credentials that there are.", host...),
		queued:       counter("metal3_delayed__provisioning_total", "Passes in which an inspection or a deployment waited for a slot.", host...),
		queuedToEnd:  counter("metal3_delayed__deprovisioning_total", "Passes in which the removal of a deployment waited for a slot.", host...),
		durations:    map[v1alpha1.ProvisioningState]*prometheus.HistogramVec{},
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ingot_host_info", Help: "1 for the state and operational status that a host has.",
		}, []string{"namespace", "host", "state", "operational_status"}),
		shown: map[types.NamespacedName][2]string{},
	}
	for _, c := range append(m.plain(), m.hostErrors, m.powerChanges, m.badData, m.servicing, m.stateChanges) {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of hosts: %w", err)
		}
	}
	for _, state := range timedStates {
		m.durations[state.state] = prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "metal3_operation_" + state.name + "_duration_seconds", Help: "Time from the begin to the end of this operation on a host.",
			Buckets: []float64{30, 90, 180, 360, 720, 1440},
		}, host)
		if err := registry.Register(m.durations[state.state]); err != nil {
			return nil, fmt.Errorf("register metrics of hosts: %w", err)
		}
	}
	if err := registry.Register(m.info); err != nil {
		return nil, fmt.Errorf("register metrics of hosts: %w", err)
	}
	return m, nil
}

// timedStates are the states whose duration is measured, and the names of their operations in the
// metrics.
var timedStates = []struct {
	state v1alpha1.ProvisioningState
	name  string
}{
	{v1alpha1.StateRegistering, "register"},
	{v1alpha1.StateInspecting, "inspect"},
	{v1alpha1.StateProvisioning, "provision"},
	{v1alpha1.StateDeprovisioning, "deprovision"},
}

// plain are the counters whose only labels are namespace and name of a host.
func (m *Metrics) plain() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{
		m.reconciles, m.errors, m.unmanaged, m.notReady, m.uncleaned, m.deleteGaveUp,
		m.registered, m.newSecrets, m.poweredOn, m.heldBack, m.noRamdisk,
		m.noSecret, m.badSecret, m.secretErrors, m.noAccess, m.queued, m.queuedToEnd,
	}
}

// count adds one to the counter of a host. more are the values of the labels after its namespace
// and name.
func count(v *prometheus.CounterVec, h *v1alpha1.BareMetalHost, more ...string) {
	v.WithLabelValues(append([]string{h.Namespace, h.Name}, more...)...).Inc()
}

// observe records the outcome of a pass: the changes of state, the operations that ended, and the
// state that the host has now.
func (m *Metrics) observe(s *scope) {
	is := s.state()
	for i, left := range s.passed {
		to := is
		if i+1 < len(s.passed) {
			to = s.passed[i+1]
		}
		m.stateChanges.WithLabelValues(string(left), string(to)).Inc()
	}
	for _, timed := range timedStates {
		before, now := historyOf(&s.before.Status, timed.state), historyOf(&s.host.Status, timed.state)
		if !now.End.IsZero() && !now.Start.IsZero() && !now.End.Equal(&before.End) {
			m.durations[timed.state].WithLabelValues(s.host.Namespace, s.host.Name).Observe(now.End.Sub(now.Start.Time).Seconds())
		}
	}
	m.show(client.ObjectKeyFromObject(s.host), &[2]string{string(is), string(s.host.Status.OperationalStatus)})
}

// show makes the metric info show a state and an operational status of a host, and nothing else;
// nil is nothing at all.
func (m *Metrics) show(host types.NamespacedName, now *[2]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before, known := m.shown[host]; known && (now == nil || before != *now) {
		m.info.DeleteLabelValues(host.Namespace, host.Name, before[0], before[1])
		delete(m.shown, host)
	}
	if now != nil {
		m.info.WithLabelValues(host.Namespace, host.Name, now[0], now[1]).Set(1)
		m.shown[host] = *now
	}
}

// forget drops the metrics of a deleted host.
func (m *Metrics) forget(host types.NamespacedName) {
	for _, v := range m.plain() {
		v.DeleteLabelValues(host.Namespace, host.Name)
	}
	for _, v := range m.durations {
		v.DeleteLabelValues(host.Namespace, host.Name)
	}
	for _, request := range []string{askOn, askOff, askReboot} {
		m.powerChanges.DeleteLabelValues(host.Namespace, host.Name, request)
	}
	for _, v := range []*prometheus.CounterVec{m.hostErrors, m.badData, m.servicing} { // few hosts have these
		v.DeletePartialMatch(prometheus.Labels{"namespace": host.Namespace, "host": host.Name})
	}
	m.show(host, nil)
}
