package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	crwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/webhook"
)

// builder indexes a fake client as the operator indexes its cache.
type builder struct{ *fake.ClientBuilder }

func (b builder) IndexField(_ context.Context, obj client.Object, name string, values client.IndexerFunc) error {
	b.WithIndex(obj, name, values)
	return nil
}

// bench is the webhooks in front of a cluster with some objects.
type bench struct {
	testing.TB

	client client.Client
	mux    http.Handler
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	return newBenchWith(t, interceptor.Funcs{}, objects...)
}

// newBenchWith returns a bench whose client lets the functions answer calls.
func newBenchWith(t *testing.T, calls interceptor.Funcs, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, discoveryv1.AddToScheme, v1beta2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := builder{fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(calls)}
	if err := webhook.IndexFields(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	c := b.Build()
	server := crwebhook.NewServer(crwebhook.Options{})
	webhook.Register(server, webhook.Config{Cache: c, Live: c, Scheme: scheme})
	return &bench{TB: t, client: c, mux: server.WebhookMux()}
}

// answer is what the API server gets as an answer.
type answer struct {
	allowed  bool
	message  string
	warnings []string
}

// path returns the path at which a kind, in lower case, is checked.
func path(kind string) string {
	if strings.HasPrefix(kind, "metal3") {
		return "/validate-infrastructure-cluster-x-k8s-io-v1beta2-" + kind
	}
	return "/validate-metal3-io-v1alpha1-" + kind
}

// ask sends an admission request as the API server does. old is nil for a creation.
func (b *bench) ask(kind string, old, obj client.Object) answer {
	b.Helper()
	encode := func(obj client.Object) runtime.RawExtension {
		raw, err := json.Marshal(obj)
		if err != nil {
			b.Fatal(err)
		}
		return runtime.RawExtension{Raw: raw}
	}
	request := &admissionv1.AdmissionRequest{UID: "1", Operation: admissionv1.Create, Object: encode(obj)}
	if old != nil {
		request.Operation, request.OldObject = admissionv1.Update, encode(old)
	}
	review := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request}
	body, err := json.Marshal(review)
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, path(kind), bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.mux.ServeHTTP(w, r)
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Response == nil {
		b.Fatalf("answer %d %s: %v", w.Code, w.Body, err)
	}
	a := answer{allowed: got.Response.Allowed, warnings: got.Response.Warnings}
	if got.Response.Result != nil {
		a.message = got.Response.Result.Message
	}
	return a
}

func TestSecondHostOfAMachineIsRefused(t *testing.T) {
	t.Parallel()
	there := newHost(named("there"))
	there.Namespace = "other"
	b := newBench(t, there)
	for name, tc := range map[string]struct {
		host *v1alpha1.BareMetalHost
		want string
	}{
		"same MAC":      {newHost(address(""), mac("00:00:5E:00:53:0A")), `spec.bootMACAddress: Invalid value: "00:00:5E:00:53:0A": host other/there has the same; delete one of the two`},
		"same BMC":      {newHost(mac(""), address("redfish+https://192.0.2.7:443/redfish/v1/Systems/1/")), "spec.bmc.address: Invalid value"},
		"allowed":       {newHost(annotation(v1alpha1.AllowDuplicateAnnotation, "move")), ""},
		"other machine": {newHost(mac("00:00:5e:00:53:0b"), address("redfish://192.0.2.7/redfish/v1/Systems/2")), ""},
	} {
		got := b.ask("baremetalhost", nil, tc.host)
		if got.allowed != (tc.want == "") || !strings.Contains(got.message, tc.want) {
			t.Errorf("%s: %+v, want a refusal with %q", name, got, tc.want)
		}
	}
}

func TestHostBlocksItsMachineUntilItIsGone(t *testing.T) {
	t.Parallel()
	there := newHost(named("there"))
	there.Finalizers = []string{v1alpha1.HostFinalizer}
	b := newBench(t, there)
	if err := b.client.Delete(t.Context(), there); err != nil {
		t.Fatal(err)
	}
	if got := b.ask("baremetalhost", nil, newHost()); got.allowed || !strings.Contains(got.message, "is being deleted; wait until it is gone") {
		t.Errorf("%+v, want a refusal", got)
	}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(there), there); err != nil {
		t.Fatal(err)
	}
	there.Finalizers = nil
	if err := b.client.Update(t.Context(), there); err != nil {
		t.Fatal(err)
	}
	if got := b.ask("baremetalhost", nil, newHost()); !got.allowed {
		t.Errorf("%+v, want it allowed", got)
	}
}

func TestDuplicatesAreLookedForWhenAHostClaimsMore(t *testing.T) {
	t.Parallel()
	b := newBench(t, newHost(named("there")))
	other := []edit{mac("00:00:5e:00:53:0b"), address("redfish://192.0.2.8")}
	for name, tc := range map[string]struct {
		before, after []edit
		allowed       bool
	}{
		"nothing":           {nil, nil, true},
		"something else":    {nil, []edit{annotation("a", "b")}, true},
		"to its MAC":        {[]edit{mac(""), other[1]}, []edit{other[1]}, false},
		"to its BMC":        {[]edit{other[0], address("")}, []edit{other[0]}, false},
		"no longer allowed": {[]edit{annotation(v1alpha1.AllowDuplicateAnnotation, "")}, nil, false},
		"allowed at once":   {[]edit{mac(""), other[1]}, []edit{other[1], annotation(v1alpha1.AllowDuplicateAnnotation, "")}, true},
		"away from its BMC": {nil, []edit{other[1]}, false}, // the MAC stays the same
	} {
		got := b.ask("baremetalhost", newHost(tc.before...), newHost(tc.after...))
		if got.allowed != tc.allowed {
			t.Errorf("%s: %+v, want allowed %v", name, got, tc.allowed)
		}
	}
}

func TestWhatMayBeTheSameMachineIsAWarning(t *testing.T) {
	t.Parallel()
	there := newHost(named("there"))
	there.Status.HardwareDetails = &v1alpha1.HardwareDetails{NICs: []v1alpha1.NIC{{MAC: "00:00:5e:00:53:0b"}}}
	b := newBench(t, there)
	for want, host := range map[string]*v1alpha1.BareMetalHost{
		"spec.bootMACAddress: the machine of host racks/there has a NIC with this address": newHost(address(""), mac("00:00:5E:00:53:0B")),
		"spec.bmc.address: host racks/there has the same BMC":                              newHost(mac("00:00:5e:00:53:0c"), address("redfish-virtualmedia://192.0.2.7")),
	} {
		got := b.ask("baremetalhost", nil, host)
		if !got.allowed || len(got.warnings) != 1 || !strings.Contains(got.warnings[0], want) {
			t.Errorf("%+v, want a warning with %q", got, want)
		}
	}
}

func TestSecondActiveDiscoveryIsAWarning(t *testing.T) {
	t.Parallel()
	discovery := func(name string, suspend bool) *discoveryv1.BareMetalHostDiscovery {
		return &discoveryv1.BareMetalHostDiscovery{
			ObjectMeta: metav1.ObjectMeta{Namespace: "racks", Name: name},
			Spec:       discoveryv1.BareMetalHostDiscoverySpec{Suspend: suspend},
		}
	}
	b := newBench(t, discovery("first", false), discovery("suspended", true))
	for name, tc := range map[string]struct {
		old, obj *discoveryv1.BareMetalHostDiscovery
		warned   bool
	}{
		"second":           {nil, discovery("second", false), true},
		"second suspended": {nil, discovery("second", true), false},
		"the first itself": {nil, discovery("first", false), false},
		"resumed":          {discovery("suspended", true), discovery("suspended", false), true},
		"active as before": {discovery("second", false), discovery("second", false), false},
	} {
		var old client.Object
		if tc.old != nil {
			old = tc.old
		}
		got := b.ask("baremetalhostdiscovery", old, tc.obj)
		if !got.allowed || (len(got.warnings) > 0) != tc.warned {
			t.Errorf("%s: %+v, want a warning %v", name, got, tc.warned)
		}
	}
}
