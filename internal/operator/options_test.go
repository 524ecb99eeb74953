package operator

import (
	"strings"
	"testing"

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
		{"controllers of a later version", usable(func(o *Options) { o.Controllers = []string{"host", "firmware"} }), `this version has no controllers "firmware" yet; it has host and discovery`},
		{"controllers that never were", usable(func(o *Options) { o.Controllers = []string{"hots"} }), `there are no controllers "hots"; this version has host and discovery`},
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

func TestEachLaterGroupIsNamedAsSuch(t *testing.T) {
	for _, name := range []string{"firmware", "cluster", "remediation", "autoscale"} {
		err := checkControllers([]string{name})
		if err == nil || !strings.Contains(err.Error(), "yet") {
			t.Errorf("%s: error = %v, want one that says it comes later", name, err)
		}
	}
}

func TestUnreachableClusterIsOneClearError(t *testing.T) {
	o, err := New(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, EngineURL: "http://127.0.0.1:6385"})
	if err != nil {
		t.Fatal(err)
	}
	err = o.Run(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "reach Kubernetes at http://127.0.0.1:1: ") {
		t.Errorf("error = %v, want one that names the cluster", err)
	}
}
