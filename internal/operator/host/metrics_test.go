package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// countedHosts are metrics of so many hosts, which have one of everything.
func countedHosts(tb testing.TB, hosts int) (*Metrics, *prometheus.Registry) {
	tb.Helper()
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range hosts {
		s := newScope(testHost(func(h *v1alpha1.BareMetalHost) { h.Name = fmt.Sprint("host-", i) }), testNow, 0)
		for _, v := range m.plain() {
			count(v, s.host)
		}
		count(m.hostErrors, s.host, "inspection error")
		count(m.powerChanges, s.host, askReboot)
		count(m.badData, s.host, "userData")
		m.observe(s)
		s.moveTo(v1alpha1.StateAvailable)
		m.observe(s)
	}
	return m, registry
}

func TestDeletedHostHasNoMetrics(t *testing.T) {
	m, registry := countedHosts(t, 2)
	m.forget(types.NamespacedName{Namespace: "metal", Name: "host-0"})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				switch {
				case label.GetName() == "host" && label.GetValue() == "host-0":
					t.Errorf("%s is left: %v", family.GetName(), metric)
				case label.GetName() == "host":
					left++
				}
			}
		}
	}
	if want := len(m.plain()) + 4; left != want {
		t.Errorf("the other host has %d metrics, want %d", left, want)
	}
}

// BenchmarkForgetHost drops and counts one of 10,000 hosts.
func BenchmarkForgetHost(b *testing.B) {
	m, _ := countedHosts(b, 10_000)
	host := testHost(func(h *v1alpha1.BareMetalHost) { h.Name = "host-1" })
	b.ReportAllocs()
	for b.Loop() {
		m.forget(types.NamespacedName{Namespace: host.Namespace, Name: host.Name})
		count(m.reconciles, host)
	}
}

func TestDurationOfAnOperationIsMeasuredOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	h := testHost(func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = v1alpha1.StateRegistering })
	begun := newScope(h, testNow, 0)
	begun.begin(v1alpha1.StateRegistering)
	m.observe(begun)
	ended := newScope(begun.host, testNow.Add(100*time.Second), 0)
	ended.moveTo(v1alpha1.StateInspecting)
	m.observe(ended)
	m.observe(newScope(ended.host, testNow.Add(200*time.Second), 0)) // a pass that changes nothing
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string]string{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if histogram := metric.GetHistogram(); histogram != nil {
				measured[family.GetName()] = fmt.Sprint(histogram.GetSampleCount(), " in ", histogram.GetSampleSum(), " s")
			}
		}
	}
	if diff := cmp.Diff(map[string]string{"metal3_operation_register_duration_seconds": "1 in 100 s"}, measured); diff != "" {
		t.Errorf("durations (-want +got):\n%s", diff)
	}
}

// described keeps the names and labels of what is registered.
type described struct{ all []string }

func (d *described) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc, 16)
	c.Describe(descriptions)
	close(descriptions)
	for desc := range descriptions {
		text := desc.String()
		name := text[strings.Index(text, `"`)+1:]
		labels := text[strings.Index(text, "variableLabels: ")+len("variableLabels: "):]
		d.all = append(d.all, name[:strings.Index(name, `"`)]+strings.TrimSuffix(labels, "}"))
	}
	return nil
}

func (d *described) MustRegister(...prometheus.Collector) {}
func (d *described) Unregister(prometheus.Collector) bool { return false }

// TestMetricsHaveTheNamesAndLabelsThatDashboardsOfMetal3Use keeps the doubled underscores, too.
func TestMetricsHaveTheNamesAndLabelsThatDashboardsOfMetal3Use(t *testing.T) {
	var registry described
	if _, err := NewMetrics(&registry); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, metric := range registry.all {
		if strings.HasPrefix(metric, "metal3_") {
			got = append(got, metric)
		}
	}
	slices.Sort(got)
	want := []string{"metal3_provisioning_state_change_total{prev_state,new_state}"}
	for name, label := range map[string]string{
		"reconcile_total": "", "reconcile_error_total": "", "provisioner_not_ready_total": "", "host_unmanaged_total": "",
		"host_error_total": "error_type", "host_registration_required_total": "", "host_config_data_error_total": "host_data_type",
		"operation_power_change_total": "on_off", "operation_register_duration_seconds": "", "operation_inspect_duration_seconds": "",
		"operation_provision_duration_seconds": "", "operation_deprovision_duration_seconds": "",
		"credentials_missing_total": "", "credentials_invalid_total": "", "credentials_unhandled_error_total": "",
		"credentials_updated_total": "", "credentials_no_management_access_total": "",
		"delete_without_deprovisioning_total": "", "delete_without_powering_off_total": "", "delete_delayed_for_detached_total": "",
		"waiting_for_preprov_image_total": "", "delayed__provisioning_total": "", "delayed__deprovisioning_total": "",
	} {
		labels := "namespace,host"
		if label != "" {
			labels += "," + label
		}
		want = append(want, "metal3_"+name+"{"+labels+"}")
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
