package operator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	usable := func(change func(*Options)) Options {
		o := Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, EngineURL: "http://127.0.0.1:6385"}
		change(&o)
		return o
	}
	for _, tt := range []struct {
		name string
		opts Options
		want string // part of the error
	}{
		{"no cluster", usable(func(o *Options) { o.Config = nil }), "how to reach Kubernetes"},
		{"no engine", usable(func(o *Options) { o.EngineURL = "" }), "URL of an engine"},
		{"an engine that is no URL", usable(func(o *Options) { o.EngineURL = "ironic" }), "is not a URL"},
		{"controllers that never were", usable(func(o *Options) { o.Controllers = []string{"hots"} }), `there are no controllers "hots"; this version has host, discovery, firmware, cluster, remediation, autoscale`},
		{"boot devices that last sometimes", usable(func(o *Options) { o.PersistentBoot.LiveISO = "sometimes" }), `want Default, Always, Never, got "sometimes"`},
		{"negative limits", usable(func(o *Options) { o.KubeQPS = -1 }), "want more than 0, got -1 in a second"},
		{"a budget with which nothing is fenced", usable(func(o *Options) { o.RemediationBudget = -1 }), "want more than 0, got -1 hosts at once"},
		{"a time for a Node that is over at once", usable(func(o *Options) { o.RemediationNodeTimeout = -time.Second }), "and -1s for a Node"},
		{"a filter that no label can match", usable(func(o *Options) { o.WatchFilter = "a/b" }), `watch filter "a/b"`},
		{"leases that end before they are renewed", usable(func(o *Options) { o.LeaseDuration = 5 * time.Second }), "has to be longer than the deadline"},
		{"insecure metrics for everybody", usable(func(o *Options) { o.MetricsAddr, o.MetricsInsecure = ":8443", true }), "for loopback only"},
		{"insecure metrics for the network", usable(func(o *Options) { o.MetricsAddr, o.MetricsInsecure = "10.0.0.1:8443", true }), "for loopback only"},
		{"metrics at no address", usable(func(o *Options) { o.MetricsAddr, o.MetricsInsecure = "8443", true }), "missing port"},
		{"metrics without a certificate", usable(func(o *Options) { o.MetricsAddr, o.MetricsCertDir = ":8443", "/nonexistent" }), "tls.crt and tls.key in /nonexistent"},
		{"a certificate for insecure metrics", usable(func(o *Options) { o.MetricsAddr, o.MetricsInsecure, o.MetricsCertDir = ":8443", true, "/x" }), "leave out one of"},
		{"neither controllers nor webhooks", usable(func(o *Options) { o.Controllers = []string{NoControllers} }), "has nothing to do"},
		{"webhooks on no port that exists", usable(func(o *Options) { o.Webhook.Port = 70000 }), "port 70000 of the webhooks"},
		{"certificates without webhooks", usable(func(o *Options) { o.Webhook.CertDir = "/etc/ingot/webhook" }), "no port to serve them on"},
		{"leases without a namespace", usable(func(o *Options) { o.LeaderElection = true }), "needs a namespace"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.opts)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestControllersOfClusterAPIRunWhenChosenAndWithoutAnEngine(t *testing.T) {
	chosen := Options{Config: &rest.Config{}, Controllers: []string{"cluster", "remediation", "autoscale"}}
	if err := chosen.setDefaults(); err != nil {
		t.Errorf("controllers of Cluster API alone: %v", err)
	}
	byDefault := Options{Config: &rest.Config{}, EngineURL: "http://127.0.0.1:6385"}
	if err := byDefault.setDefaults(); err != nil || !slices.Equal(byDefault.Controllers, []string{"host", "discovery", "firmware"}) {
		t.Errorf("controllers by default are %v, error %v", byDefault.Controllers, err)
	}
}

func TestUnreachableClusterIsOneClearError(t *testing.T) {
	_, err := New(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, EngineURL: "http://127.0.0.1:6385"})
	if err == nil || !strings.HasPrefix(err.Error(), "reach Kubernetes at http://127.0.0.1:1: ") {
		t.Errorf("error = %v, want one that names the cluster", err)
	}
}

func TestLimitsOfRequestsComeFromTheOptionsThenFromTheClient(t *testing.T) {
	for name, tt := range map[string]struct {
		opts      Options
		config    rest.Config
		wantQPS   float32
		wantBurst int
	}{
		"neither":                     {Options{}, rest.Config{}, 1000, 2000},
		"client":                      {Options{}, rest.Config{QPS: 7, Burst: 9}, 7, 9},
		"no throttling by the client": {Options{}, rest.Config{QPS: -1}, -1, 0},
		"options":                     {Options{KubeQPS: 20, KubeBurst: 30}, rest.Config{QPS: 7, Burst: 9}, 20, 30},
	} {
		t.Run(name, func(t *testing.T) {
			tt.opts.limit(&tt.config)
			if tt.config.QPS != tt.wantQPS || tt.config.Burst != tt.wantBurst {
				t.Errorf("limits are %v and %d, want %v and %d", tt.config.QPS, tt.config.Burst, tt.wantQPS, tt.wantBurst)
			}
		})
	}
}
