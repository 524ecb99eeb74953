package workload

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// hostile returns a client of a workload cluster whose administrator decides what the server
// answers.
func hostile(t *testing.T, answer http.HandlerFunc) client.Client {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/api/v1" { // asked by the client for the resources of the group
			_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node","verbs":["list"]}]}`)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config := kubeconfig(t, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		c.Server = server.URL
		c.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	})
	secrets := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterKey.Namespace, Name: clusterKey.Name + kubeconfigSuffix}, Data: map[string][]byte{kubeconfigKey: config},
	}).Build()
	c, err := New(secrets, scheme).Client(t.Context(), clusterKey)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWorkloadClusterCannotSendTheOperatorElsewhere(t *testing.T) {
	var reached atomic.Bool
	internal := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer internal.Close()
	c := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, internal.URL+"/credentials", http.StatusTemporaryRedirect)
	})
	_, _, err := list(t.Context(), c)
	if !errors.Is(err, ErrNoAccess) || !strings.Contains(err.Error(), "redirect") {
		t.Errorf("error %v", err)
	}
	if reached.Load() {
		t.Error("a redirect to another server was followed")
	}
}

func TestWorkloadClusterCannotKeepTheOperatorWaiting(t *testing.T) {
	var asked atomic.Int32
	c := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	began := time.Now()
	if _, _, err := list(t.Context(), c); err == nil {
		t.Error("no error")
	}
	// A client that obeyed the answer would ask again, after three seconds each time.
	if n := asked.Load(); n != 1 {
		t.Errorf("%d requests in %s, want 1", n, time.Since(began))
	}
}

func TestWorkloadClusterCannotFillTheMemoryOfTheOperator(t *testing.T) {
	const most, mostSize = 10, 10_000
	for name, label := range map[string]string{"pages without an end": "", "large Nodes without an end": strings.Repeat("x", mostSize/4)} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			c := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
				if asked.Add(1) > 2*most {
					http.Error(w, "{}", http.StatusGone)
					return
				}
				page := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{Continue: "more"}}
				page.Items = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": label}}}}
				if err := json.NewEncoder(w).Encode(page); err != nil {
					t.Error(err)
				}
			})
			if _, _, err := listUpTo(t.Context(), c, most, mostSize); !errors.Is(err, errTooManyNodes) {
				t.Errorf("error %v after %d pages", err, asked.Load())
			}
		})
	}
}

func TestEventsOfAWatchAreLookedAtNoFasterThanTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, cluster("one", "1"))
		stop := b.open(t.Context())
		defer stop()
		b.reconcile(t, "one")
		synctest.Wait()
		watch, began := b.last(), time.Now()
		const events = eventBurst + 10*eventRate
		for i := range events {
			n := node("n", "")
			n.Labels = map[string]string{"i": fmt.Sprint(i)}
			watch.Modify(&n)
		}
		if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("%d events took %s, want 10 s", events, took)
		}
	})
}

func TestWatchThatBringsNodesWithoutAnEndIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, cluster("one", "1"))
		stop := b.open(t.Context())
		defer stop()
		b.reconcile(t, "one")
		b.poll(t, 0)
		watch := b.last()
		for i := range maxNodes + 1 {
			n := node(fmt.Sprint("n-", i), "")
			watch.Add(&n)
		}
		sleep(100 * time.Millisecond) // less than the wait for the next watch
		b.poll(t, pollInterval)
	})
}

func TestOnlyShortTextsOfNodesAreKept(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, cluster("one", "1"))
		stop := b.open(t.Context())
		defer stop()
		b.reconcile(t, "one")
		b.poll(t, 0)
		for _, event := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
			n := node(strings.Repeat("n", maxName+1), ownID)
			b.last().Action(event, &n)
		}
		b.expect(t, "a name that is too long")
		n := node(strings.Repeat("n", maxName), ownID)
		b.last().Add(&n)
		b.expect(t, "the longest name", Change{Node: n.Name, ProviderID: ownID})
		n = node("n", long)
		b.last().Add(&n)
		b.expect(t, "a provider ID that is too long", Change{Node: "n"})
		b.last().Delete(&n)
		b.expect(t, "its Node goes", Change{Node: "n"})
	})
	n := node("n", long)
	n.UID = types.UID(long)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionStatus(long)}}
	if s := summarize(&n); s.uid != "" || s.providerID != "" || s.ready != "" {
		t.Errorf("remembered are %d, %d and %d bytes", len(s.uid), len(s.providerID), len(s.ready))
	}
}

func TestLongTextsOfNodesAreNotShown(t *testing.T) {
	long := node("host-1", foreignID+strings.Repeat("x", maxText))
	if r := present(&long, wanted{}, nil); r.ProviderID != "" || r.Reason != v1beta2.WaitingForCloudProviderReason {
		t.Errorf("%+v", r)
	}
	id := identity{providerIDs: []string{ownID}, names: []string{"host-1"}}
	f, err := id.choose([]corev1.Node{long})
	if err != nil || f.node != nil {
		t.Fatalf("found %+v, error %v; want that the Node of another machine is never taken", f, err)
	}
	if r := absent(id, f.foreign); r.Reason != v1beta2.ProviderIDMismatchReason || len(r.Message) > maxText {
		t.Errorf("%+v", r)
	}
}

func TestNodeWithANameThatIsTooLongIsNotThere(t *testing.T) {
	c := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
		page := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
		page.Items = []corev1.Node{node(strings.Repeat("n", maxName+1), ownID), node("n", uidID)}
		if err := json.NewEncoder(w).Encode(page); err != nil {
			t.Error(err)
		}
	})
	nodes, _, err := list(t.Context(), c)
	if err != nil || len(nodes) != 1 || nodes[0].Name != "n" {
		t.Errorf("%d Nodes, error %v", len(nodes), err)
	}
}
