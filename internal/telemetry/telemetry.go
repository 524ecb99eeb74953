// Package telemetry exports metrics of an engine for Prometheus, and writes an access
// log with a line for each request.
//
// Each label has few values, whatever clients send: routes are patterns of the route table, methods
// are methods of HTTP, and states and outcomes are the engine's. No metric names a node, a user or
// an address.
package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ingot-metal/ingot/internal/buildinfo"
	"github.com/ingot-metal/ingot/internal/conductor"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
)

// Upper bounds of the histograms' buckets, in seconds.
var (
	requestBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	waitBuckets    = []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	workBuckets    = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 15, 60, 300, 1800}
)

// Metrics are the metrics of one engine, in their own registry. They are safe for
// concurrent use and implement conductor.Observer.
type Metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec   // route, method, code
	durations  *prometheus.HistogramVec // route, method
	inFlight   prometheus.Gauge
	leaseWaits *prometheus.HistogramVec // outcome
	work       *prometheus.HistogramVec // kind, outcome
	posts      *prometheus.CounterVec   // outcome
	leftOut    prometheus.Counter
}

var _ conductor.Observer = (*Metrics)(nil)

// New returns metrics whose values are zero.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_api_requests_total", Help: "Requests of the API that were answered.",
		}, []string{"route", "method", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ingot_api_request_duration_seconds", Help: "Time from the header of a request to the end of its answer.", Buckets: requestBuckets,
		}, []string{"route", "method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ingot_api_requests_in_flight", Help: "Requests of the API that are being answered.",
		}),
		leaseWaits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ingot_lease_wait_seconds", Help: "Time that requests waited for a node under work, until they got it or gave up.", Buckets: waitBuckets,
		}, []string{"outcome"}),
		work: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ingot_work_duration_seconds", Help: "Time of one attempt at a piece of work on a node.", Buckets: workBuckets,
		}, []string{"kind", "outcome"}),
		posts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_inspection_posts_total", Help: "Posts of inspection data, by outcome.",
		}, []string{"outcome"}),
		leftOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ingot_discovery_addresses_left_out_total", Help: "MAC addresses of discovered machines over auto_discovery.max_ports, which their nodes do not claim.",
		}),
	}
	m.registry.MustRegister(
		m.requests, m.durations, m.inFlight, m.leaseWaits, m.work, m.posts, m.leftOut, buildInfo(),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// buildInfo is always 1. Its labels say what the binary was built from.
func buildInfo() prometheus.Collector {
	info := buildinfo.Read()
	labels := prometheus.Labels{"version": info.Version, "go_version": info.Go, "revision": info.Commit}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ingot_build_info", Help: "Version and commit of this engine.", ConstLabels: labels,
	}, func() float64 { return 1 })
}

// Engine is the source of the metrics that are read at each scrape.
type Engine interface {
	// QueueLength returns the number of pieces of work that wait for a worker.
	QueueLength() int
	// NodeStates counts nodes by provision state. States without nodes may be missing.
	NodeStates(ctx context.Context) (map[node.State]int, error)
	// Suspension describes the suspended work that waits for a person, with its counts.
	Suspension(ctx context.Context) (node.Suspension, error)
}

// Watch adds the metrics that are read from the engine. Call it once.
func (m *Metrics) Watch(e Engine, log *slog.Logger, now func() time.Time) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ingot_work_queue_length", Help: "Pieces of work that wait for a worker of this engine.",
		}, func() float64 { return float64(e.QueueLength()) }),
		newNodeStates(e.NodeStates, log, now), newSuspension(e.Suspension, log, now),
	)
}

// WatchCertificate adds the expiry of the certificate in use, so operators notice a failed renewal
// before clients do. Call it at most once.
func (m *Metrics) WatchCertificate(ends func() time.Time) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ingot_tls_certificate_expiry_timestamp_seconds", Help: "When the certificate in use ends, in seconds since 1970.",
	}, func() float64 { return float64(ends().Unix()) }))
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// WorkEnded counts work.
func (m *Metrics) WorkEnded(kind string, outcome runner.Outcome, took time.Duration) {
	m.work.WithLabelValues(kind, string(outcome)).Observe(took.Seconds())
}

// LeaseWaited counts requests that waited for a node.
func (m *Metrics) LeaseWaited(took time.Duration, gotTurn bool) {
	outcome := "refused"
	if gotTurn {
		outcome = "got"
	}
	m.leaseWaits.WithLabelValues(outcome).Observe(took.Seconds())
}

// PostEnded counts inspection data.
func (m *Metrics) PostEnded(outcome conductor.PostOutcome) {
	m.posts.WithLabelValues(string(outcome)).Inc()
}

// AddressesLeftOut counts MAC addresses.
func (m *Metrics) AddressesLeftOut(count int) { m.leftOut.Add(float64(count)) }
