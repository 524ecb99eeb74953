package pxefilter

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the metrics of one filter, in their own registry. No label names a
// machine.
type metrics struct {
	registry    *prometheus.Registry
	active      prometheus.Gauge
	synced      prometheus.Gauge
	ports       *prometheus.GaugeVec // verdict
	withoutFile prometheus.Gauge
	unknown     prometheus.Gauge       // 1 when unknown machines are served
	written     *prometheus.CounterVec // verdict
	removed     prometheus.Counter
	errors      *prometheus.CounterVec // about
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		active:   gauge("active", "Whether this process keeps the folder of hosts (1), or stands by (0)."),
		synced:   gauge("last_sync_timestamp_seconds", "When everything was compared last, in seconds since 1970."),
		ports: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ingot_pxe_filter_ports", Help: "Ports by what their DHCP requests meet.",
		}, []string{"verdict"}),
		withoutFile: gauge("ports_without_file", "Ports of discovered nodes that no person has accepted, which follow the rule for unknown machines."),
		unknown:     gauge("unknown_machines_served", "Whether machines without a port are served."),
		written: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_pxe_filter_files_written_total", Help: "Files of hosts that were written.",
		}, []string{"verdict"}),
		removed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ingot_pxe_filter_files_removed_total", Help: "Files of addresses without a port that were removed.",
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_pxe_filter_errors_total", Help: "Failed tries, by what they were about: database, folder or dnsmasq.",
		}, []string{"about"}),
	}
	m.registry.MustRegister(m.active, m.synced, m.ports, m.withoutFile, m.unknown, m.written, m.removed, m.errors,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: "ingot_pxe_filter_" + name, Help: help})
}

// show sets the metrics to the content of the folder.
func (m *metrics) show(w wanted) {
	count := map[Verdict]int{Allow: 0, Deny: 0}
	for _, r := range w.ports {
		count[r.verdict]++
	}
	for v, n := range count {
		m.ports.WithLabelValues(string(v)).Set(float64(n))
	}
	m.withoutFile.Set(float64(w.portsWithoutFile))
	served := 0.0
	if w.unknown.verdict == Allow {
		served = 1
	}
	m.unknown.Set(served)
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}
