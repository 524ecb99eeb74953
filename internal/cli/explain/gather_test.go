package explain

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discovery "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
)

var plane = controlplanetest.New(controlplanetest.Options{})

func TestMain(m *testing.M) { os.Exit(plane.Run(m)) }

// cluster returns a client of the test control plane.
func cluster(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme, discovery.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(plane.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// namespace creates one for the test.
func namespace(t *testing.T, c client.Client, name string) string {
	t.Helper()
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	return name
}

// createHost makes a host whose status links it to a node.
func createHost(t *testing.T, c client.Client, namespace, name, nodeID string) *v1alpha1.BareMetalHost {
	t.Helper()
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Create(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	host.Status.Provisioning = v1alpha1.ProvisionStatus{State: v1alpha1.StateAvailable, ID: nodeID}
	host.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.AvailableForProvisioningCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.AgentNotConnectedReason,
		Message: "The agent is silent", LastTransitionTime: metav1.Now(),
	}}
	if err := c.Status().Update(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	return host
}

// engineWith serves nodes by UUID.
func engineWith(t *testing.T, nodes ...string) *ironic.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, uuid := range nodes {
			if r.URL.Path == "/v1/nodes/"+uuid {
				_ = json.NewEncoder(w).Encode(map[string]any{
					"uuid": uuid, "provision_state": "available", "inspection_finished_at": "2026-01-02T03:04:05+00:00",
				})
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	engine, err := ironic.New(ironic.Options{Endpoint: server.URL, Microversion: "1.84"})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func TestHostIsFoundByNameNodeOrMAC(t *testing.T) {
	c := cluster(t)
	ns := namespace(t, c, "explain-find")
	createHost(t, c, ns, "web-1", "u-1")
	host := createHost(t, c, ns, "web-2", "u-2")
	warn(t, c, host, "OldTrouble", time.Now().Add(-30*time.Minute))
	warn(t, c, host, "NewTrouble", time.Now().Add(-3*time.Minute))

	sources := Sources{Kube: c, Namespace: "default", Engine: engineWith(t, "u-1", "u-2"), Now: time.Now()}
	for _, asked := range []string{"web-2", ns + "/web-2", ns + "~web-2", "u-2"} {
		f, err := sources.Gather(t.Context(), asked)
		if err != nil {
			t.Fatalf("%s: %v", asked, err)
		}
		if f.Host == nil || f.Host.Name != "web-2" || f.Node == nil || f.Node.UUID != "u-2" {
			t.Errorf("%s: host %+v, node %+v (%s)", asked, f.Host, f.Node, f.HostProblem)
			continue
		}
		if got := f.Host.condition(v1alpha1.AvailableForProvisioningCondition); got.True || got.Message != "The agent is silent" {
			t.Errorf("%s: condition %+v", asked, got)
		}
		if f.Host.Warning == nil || f.Host.Warning.Reason != "NewTrouble" {
			t.Errorf("%s: warning %+v, want the newest", asked, f.Host.Warning)
		}
	}
	if names, err := HostNames(t.Context(), c, ns, 10); err != nil || !slices.Equal(names, []string{"web-1", "web-2"}) {
		t.Errorf("names %v, %v", names, err)
	}
	sources.OnlyThere = true
	if f, err := sources.Gather(t.Context(), "web-2"); err != nil || f.Known() {
		t.Errorf("found %+v, %v outside of the namespace", f.Host, err)
	}
}

func TestSeveralHostsOfOneNameAreNotGuessedBetween(t *testing.T) {
	c := cluster(t)
	createHost(t, c, namespace(t, c, "explain-a"), "twin", "")
	createHost(t, c, namespace(t, c, "explain-b"), "twin", "")
	_, err := Sources{Kube: c, Namespace: "default", Engine: engineWith(t), Now: time.Now()}.Gather(t.Context(), "twin")
	if !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), "explain-a, explain-b") {
		t.Errorf("got %v, want both namespaces named", err)
	}
}

func TestNodeWithoutHostHasTheDecisionOfDiscovery(t *testing.T) {
	c := cluster(t)
	d := &discovery.BareMetalHostDiscovery{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t, c, "explain-skip"), Name: "rack"},
		Spec: discovery.BareMetalHostDiscoverySpec{
			ResourceNameTemplate: discovery.ResourceNameTemplate{HardwareDetails: discovery.DetailBootMAC},
			PollInterval:         metav1.Duration{Duration: 30 * time.Second},
		},
	}
	if err := c.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	d.Status.Skipped = []discovery.SkippedNode{
		{NodeID: "u-8", Reason: discovery.SkipIgnored},
		{NodeID: "u-9", Reason: discovery.SkipMissingMAC, Message: "No usable MAC address", Since: metav1.Now()},
	}
	if err := c.Status().Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	f, err := Sources{Kube: c, Engine: engineWith(t, "u-9"), Now: time.Now()}.Gather(t.Context(), "u-9")
	if err != nil || len(f.Discoveries) != 1 {
		t.Fatalf("got %+v, %v (%s)", f.Discoveries, err, f.HostProblem)
	}
	if got := f.Discoveries[0]; got.Skipped == nil || got.Skipped.Reason != "MissingMAC" || got.Interval != 30*time.Second {
		t.Errorf("got %+v", got)
	}
}

func TestSourceThatIsAwayBecomesAProblem(t *testing.T) {
	gone, err := ironic.New(ironic.Options{Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Sources{KubeProblem: "no kubeconfig", Engine: gone, Now: time.Now()}.Gather(t.Context(), "x")
	if err != nil || f.HostProblem != "no kubeconfig" || f.NodeProblem != "http://127.0.0.1:1: connection refused" {
		t.Errorf("got %q, %q, %v", f.HostProblem, f.NodeProblem, err)
	}
	f, err = Sources{KubeProblem: "no kubeconfig", Engine: engineWith(t, "u-1"), Now: time.Now()}.Gather(t.Context(), "u-1")
	if err != nil || f.Node == nil || f.Node.InspectionFinished.IsZero() || f.Host != nil {
		t.Errorf("got %+v, %v; want what the engine knows", f, err)
	}
}

func TestGatheringEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Sources{Engine: engineWith(t), Now: time.Now()}).Gather(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// warn records a warning event about the host.
func warn(t *testing.T, c client.Client, host *v1alpha1.BareMetalHost, reason string, at time.Time) {
	t.Helper()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name + "." + strings.ToLower(reason)},
		InvolvedObject: corev1.ObjectReference{Kind: "BareMetalHost", Namespace: host.Namespace, Name: host.Name, UID: host.UID},
		Reason:         reason, Message: "m", Type: corev1.EventTypeWarning,
		LastTimestamp: metav1.NewTime(at),
	}
	if err := c.Create(t.Context(), event); err != nil {
		t.Fatal(err)
	}
}

func TestRunningStepAndWaitAreReadFromTheNode(t *testing.T) {
	var n engineNode
	n.ProvisionState, n.DeployStep = "wait call-back", map[string]any{"interface": "deploy", "step": "write_image"}
	if got := n.facts(); got.Step != "deploy.write_image" || !got.AwaitsRamdisk {
		t.Errorf("got step %q, awaits the ramdisk: %v", got.Step, got.AwaitsRamdisk)
	}
	n.DriverInternalInfo = map[string]any{"agent_url": "https://192.0.2.7:9999"}
	if n.facts().AwaitsRamdisk {
		t.Error("it waits for a ramdisk that was heard")
	}
}

func TestRefusedHeartbeatsAreReadFromTheNode(t *testing.T) {
	at := before(time.Minute)
	n := &engineNode{}
	n.DriverInternalInfo = map[string]any{node.HeartbeatRefusalsKey: []any{
		map[string]any{"reason": "plain-http", "url": "http://192.0.2.7:9999", "at": at.Format(time.RFC3339Nano)},
	}}
	want := []node.HeartbeatRefusal{{Reason: node.RefusedPlainHTTP, URL: "http://192.0.2.7:9999", At: at}}
	if diff := cmp.Diff(want, n.facts().Refusals); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}
