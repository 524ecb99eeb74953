package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/config"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/polltest"
)

// plane is management cluster and workload cluster at once; each test has a namespace in the one
// and Nodes of its own in the other. It has two kinds of Cluster API, without a schema.
var plane = controlplanetest.New(controlplanetest.Options{CRDs: kinds()})

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(plane.Run(m))
}

func kinds() fstest.MapFS {
	const machines = "crd/infrastructure.cluster.x-k8s.io_metal3machines.yaml"
	own, err := config.CRDs.ReadFile(machines)
	if err != nil {
		panic(err)
	}
	fsys := fstest.MapFS{"own.yaml": {Data: own}}
	for _, kind := range []string{"Cluster", "Machine"} {
		name := strings.ToLower(kind)
		fsys[name+".yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.cluster.x-k8s.io}
spec:
  group: cluster.x-k8s.io
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]ss, singular: %[1]s}
  scope: Namespaced
  versions:
  - {name: v1beta2, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, name, kind)}
	}
	return fsys
}

// setup is a Cluster in a namespace, with the kubeconfig of its workload cluster and a machine on
// a host.
type setup struct {
	*testing.T
	api     client.Client
	config  *rest.Config
	clients *Clients
	nodes   *Nodes

	cluster        *clusterv1.Cluster
	machine        *clusterv1.Machine
	metal3Machine  *v1beta2.Metal3Machine
	host           *v1alpha1.BareMetalHost
	infrastructure *v1beta2.Metal3Cluster
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), v1beta2.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	config := plane.Config(t)
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{T: t, api: api, config: config, clients: New(api, scheme)}
	s.nodes = &Nodes{Clients: s.clients, Live: api}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "workload-"}}
	s.create(namespace)
	name := namespace.Name // also that of its objects, because Nodes have no namespace
	s.cluster = cluster(name, "")
	s.cluster.Namespace = name
	s.create(s.cluster)
	s.metal3Machine = &v1beta2.Metal3Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name, Name: name + "-m", Labels: map[string]string{clusterv1.ClusterNameLabel: name},
			Annotations: map[string]string{v1beta2.HostAnnotation: name + "/" + name + "-h"},
		},
		Spec: v1beta2.Metal3MachineSpec{CustomDeploy: v1beta2.CustomDeploy{Method: "install"}},
	}
	s.create(s.metal3Machine)
	m := machine(name+"-m", "", "")
	m.Namespace, m.Spec.ClusterName, m.Labels = name, name, map[string]string{clusterv1.ClusterNameLabel: name}
	s.machine = &m
	s.create(s.machine)
	s.host = &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name + "-h", UID: types.UID(hostUID)}}
	s.infrastructure = &v1beta2.Metal3Cluster{}
	return s
}

func (s *setup) create(obj client.Object) {
	s.Helper()
	if err := s.api.Create(s.Context(), obj); err != nil {
		s.Fatal(err)
	}
}

func (s *setup) key() types.NamespacedName { return client.ObjectKeyFromObject(s.cluster) }

// access writes the Secret with the kubeconfig.
func (s *setup) access(change func(*clientcmdapi.Cluster)) {
	s.Helper()
	c := clientcmdapi.NewConfig()
	server := s.config.Host
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	c.Clusters["a"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: s.config.CAData}
	change(c.Clusters["a"])
	c.AuthInfos["a"] = &clientcmdapi.AuthInfo{ClientCertificateData: s.config.CertData, ClientKeyData: s.config.KeyData, Token: s.config.BearerToken}
	c.Contexts["a"] = &clientcmdapi.Context{Cluster: "a", AuthInfo: "a"}
	c.CurrentContext = "a"
	data, err := clientcmd.Write(*c)
	if err != nil {
		s.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.cluster.Namespace, Name: s.cluster.Name + kubeconfigSuffix}, Data: map[string][]byte{kubeconfigKey: data}}
	err = s.api.Create(s.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = s.api.Update(s.Context(), secret)
	}
	if err != nil {
		s.Fatal(err)
	}
}

func (s *setup) accessible() { s.access(func(*clientcmdapi.Cluster) {}) }

// register creates a Node as a kubelet does.
func (s *setup) register(name, providerID string, change func(*corev1.Node)) *corev1.Node {
	s.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	change(n)
	s.create(n)
	s.Cleanup(func() { _ = s.api.Delete(context.WithoutCancel(s.Context()), n) })
	return n
}

func same(*corev1.Node) {}

// sync runs Sync, wants a reason and returns the result and the Node.
func (s *setup) sync(reason string) (Result, *corev1.Node) {
	s.Helper()
	result, err := s.nodes.Sync(s.Context(), s.cluster, s.machine, s.metal3Machine, s.host, s.infrastructure)
	if err != nil || result.Reason != reason {
		s.Fatalf("result %+v, error %v, want reason %s", result, err, reason)
	}
	if result.Node == "" {
		return result, nil
	}
	var n corev1.Node
	if err := s.api.Get(s.Context(), types.NamespacedName{Name: result.Node}, &n); err != nil {
		s.Fatal(err)
	}
	return result, &n
}

func TestNodeIsCompletedEachTimeItRegisters(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.accessible()
	s.host.Labels = map[string]string{"rack.example.com/row": "7"}
	s.infrastructure.Annotations = map[string]string{v1beta2.LabelSyncPrefixesAnnotation: "rack.example.com,Not/A/Prefix"}
	want := ProviderID(s.metal3Machine, s.host)

	if result, _ := s.sync(v1beta2.WaitingForNodeReason); result.RequeueAfter != pollInterval || result.Condition().Status != metav1.ConditionFalse {
		t.Errorf("without a Node: %+v", result)
	}
	for _, registration := range []string{"the first", "after a deletion"} {
		n := s.register(s.host.Name, "", func(n *corev1.Node) {
			n.Labels = map[string]string{"rack.example.com/old": "1", "kept": "2"}
			n.Spec.Taints = []corev1.Taint{{Key: uninitializedTaint, Effect: corev1.TaintEffectNoSchedule}, {Key: "kept", Effect: corev1.TaintEffectNoSchedule}}
		})
		result, got := s.sync(v1beta2.AssociateMetal3MachineMetaDataSuccessReason)
		var taints []string
		for _, taint := range got.Spec.Taints {
			if !strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
				taints = append(taints, taint.Key)
			}
		}
		if got.UID != n.UID || got.Spec.ProviderID != want || result.ProviderID != want || fmt.Sprint(taints) != "[kept]" {
			t.Errorf("%s: result %+v, provider ID %q, taints %v", registration, result, got.Spec.ProviderID, taints)
		}
		if got.Labels["rack.example.com/row"] != "7" || got.Labels["kept"] != "2" || got.Labels["rack.example.com/old"] != "" {
			t.Errorf("%s: labels %v", registration, got.Labels)
		}
		if result.RequeueAfter != labelInterval || !strings.Contains(result.Message, `"Not/A/Prefix"`) || result.Condition().Status != metav1.ConditionTrue {
			t.Errorf("%s: result %+v", registration, result)
		}
		if _, again := s.sync(v1beta2.AssociateMetal3MachineMetaDataSuccessReason); again.ResourceVersion != got.ResourceVersion {
			t.Errorf("%s: a complete Node is written again", registration)
		}
		// Cluster API has seen it.
		s.machine.Spec.ProviderID, s.machine.Status.NodeRef.Name = want, got.Name
		if err := s.api.Delete(t.Context(), got); err != nil {
			t.Fatal(err)
		}
		s.sync(v1beta2.WaitingForNodeReason)
	}
}

func TestNodeOfAnotherMachineIsNeverTaken(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.accessible()
	other := s.register(s.host.Name, "metal3://other/a/b", same)
	result, _ := s.sync(v1beta2.ProviderIDMismatchReason)
	if !strings.Contains(result.Message, other.Name) || !strings.Contains(result.Message, "delete it") {
		t.Errorf("message %q", result.Message)
	}
	s.machine.Status.NodeRef.Name = other.Name
	s.sync(v1beta2.ProviderIDMismatchReason)
	if n, err := FindNode(t.Context(), s.api, s.machine, ProviderID(s.metal3Machine, s.host)); n != nil || err != nil {
		t.Errorf("Node %v, error %v", n, err)
	}
	s.metal3Machine.Spec.ProviderID = "metal3://other/a/b"
	if result, _ := s.sync(v1beta2.ProviderIDMismatchReason); !strings.Contains(result.Message, "spec.providerID of Metal3Machine") {
		t.Errorf("message %q", result.Message)
	}
}

func TestNodeKeepsAProviderIDByTheUIDOfItsHost(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.accessible()
	s.host.UID = "33333333-3333-4333-8333-333333333333"
	const id = "metal3://33333333-3333-4333-8333-333333333333"
	s.register(s.host.Name, id, same)
	if result, n := s.sync(v1beta2.AssociateMetal3MachineMetaDataSuccessReason); result.ProviderID != id || n.Spec.ProviderID != id {
		t.Errorf("result %+v, provider ID %q", result, n.Spec.ProviderID)
	}
}

func TestNodeThatCanBeOfTwoMachinesIsGivenToNone(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.accessible()
	rival := s.metal3Machine.DeepCopy()
	rival.ObjectMeta = metav1.ObjectMeta{Namespace: rival.Namespace, Name: s.host.Name, Labels: rival.Labels}
	s.create(rival)
	n := s.register(s.host.Name, "", same)
	if result, _ := s.sync(v1beta2.AmbiguousNodeReason); !strings.Contains(result.Message, rival.Name) || !strings.Contains(result.Message, v1beta2.NodeHostLabel) {
		t.Errorf("message %q", result.Message)
	}
	// The label tells which machine the Node belongs to.
	before := n.DeepCopy()
	n.Labels = map[string]string{v1beta2.NodeHostLabel: "44444444-4444-4444-8444-444444444444"}
	s.host.UID = "44444444-4444-4444-8444-444444444444"
	if err := s.api.Patch(t.Context(), n, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	s.sync(v1beta2.AssociateMetal3MachineMetaDataSuccessReason)
	// Another Node with the same provider ID makes it uncertain again.
	s.register(s.host.Name+"-b", ProviderID(s.metal3Machine, s.host), same)
	if result, _ := s.sync(v1beta2.AmbiguousNodeReason); !strings.Contains(result.Message, s.host.Name+"-b") {
		t.Errorf("message %q", result.Message)
	}
}

func TestCloudProviderSetsProviderIDs(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.accessible()
	enabled := true
	s.infrastructure.Spec.CloudProviderEnabled = &enabled
	s.register(s.host.Name, "", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: uninitializedTaint, Effect: corev1.TaintEffectNoSchedule}}
	})
	result, n := s.sync(v1beta2.WaitingForCloudProviderReason)
	if n.Spec.ProviderID != "" || !summarize(n).uninitialized || result.Condition().Status != metav1.ConditionFalse {
		t.Errorf("result %+v, spec %+v", result, n.Spec)
	}
}

func TestNodeThatChangesMeanwhileIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.accessible()
	n := s.register(s.host.Name, "", same)
	made, err := s.clients.watching(t.Context(), s.key())
	if err != nil {
		t.Fatal(err)
	}
	patches := 0
	k := s.clients.known[s.key()]
	k.client = interceptor.NewClient(made, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if patches++; patches == 1 {
				before := n.DeepCopy()
				n.Labels = map[string]string{"written": "meanwhile"}
				if err := s.api.Patch(ctx, n, client.MergeFrom(before)); err != nil {
					return err
				}
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	s.clients.known[s.key()] = k
	if _, got := s.sync(v1beta2.AssociateMetal3MachineMetaDataSuccessReason); patches != 2 || got.Labels["written"] == "" || got.Spec.ProviderID == "" {
		t.Errorf("%d patches, labels %v", patches, got.Labels)
	}
}

func TestClusterThatCannotBeReachedIsSaidInTheResult(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	unreachable := func(what, text string) {
		t.Helper()
		result, _ := s.sync(v1beta2.WorkloadClusterUnreachableReason)
		if result.RequeueAfter != pollInterval || !strings.Contains(result.Message, text) {
			t.Errorf("%s: %+v", what, result)
		}
	}
	unreachable("without kubeconfig", s.cluster.Name+kubeconfigSuffix+" with its kubeconfig does not exist")
	s.access(func(c *clientcmdapi.Cluster) { c.ProxyURL = "http://192.0.2.1" })
	unreachable("kubeconfig that is refused", "proxy-url is refused")
	s.access(func(c *clientcmdapi.Cluster) { c.Server = "https://127.0.0.1:1" })
	unreachable("nobody there", "connection refused")
	s.access(func(c *clientcmdapi.Cluster) { c.CertificateAuthorityData = nil })
	unreachable("another authority", "certificate")
	s.accessible()
	s.sync(v1beta2.WaitingForNodeReason)
	if _, known := s.clients.known[s.key()]; !known {
		t.Error("no client is kept")
	}
	if err := s.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.cluster.Namespace, Name: s.cluster.Name + kubeconfigSuffix}}); err != nil {
		t.Fatal(err)
	}
	unreachable("kubeconfig that is gone", "does not exist")
	if _, known := s.clients.known[s.key()]; known {
		t.Error("the client of a cluster without kubeconfig is kept")
	}
}

func TestListOfNodesIsReadInPages(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	pages := 0
	base, err := client.NewWithWatch(s.config, client.Options{Scheme: s.api.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		s.register(fmt.Sprintf("%s-%d", s.host.Name, i), "", same)
	}
	small := interceptor.NewClient(base, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			pages++
			return c.List(ctx, list, append(opts, client.Limit(1))...)
		},
	})
	nodes, version, err := list(t.Context(), small)
	names := map[string]bool{}
	for _, n := range nodes {
		names[n.Name] = true
	}
	if err != nil || version == "" || pages < 3 || len(names) != len(nodes) || !names[s.host.Name+"-0"] || !names[s.host.Name+"-2"] {
		t.Errorf("%d Nodes in %d pages, version %q, error %v", len(nodes), pages, version, err)
	}
}

func TestNodeIsFoundForAMachine(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	base, err := client.NewWithWatch(s.config, client.Options{Scheme: s.api.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	lists := 0
	counting := interceptor.NewClient(base, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	})
	own := ProviderID(s.metal3Machine, s.host)
	find := func(what, want string, wantLists int, ids ...string) {
		t.Helper()
		lists = 0
		n, err := FindNode(t.Context(), counting, s.machine, ids...)
		got := ""
		if n != nil {
			got = n.Name
		}
		if err != nil || got != want || lists != wantLists {
			t.Errorf("%s: Node %q, %d lists, error %v; want %q, %d lists", what, got, lists, err, want, wantLists)
		}
	}
	find("no Node", "", 1, own)
	a := s.register(s.host.Name, own, same)
	find("no ID known", "", 1)
	find("ID given", a.Name, 1, own)
	s.machine.Spec.ProviderID = own
	find("ID of the Machine", a.Name, 1)
	s.machine.Status.NodeRef.Name = a.Name
	find("nodeRef and ID", a.Name, 0)
	if err := s.api.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	find("nodeRef of a Node that is gone", "", 1)
	s.register(a.Name, "", same)
	find("nodeRef of a Node that registered again", a.Name, 1)
	s.register(a.Name+"-b", own, same)
	find("another Node with the ID", a.Name+"-b", 1)
}

// asked collects the requests of a controller.
type asked chan ctrl.Request

func (a asked) Reconcile(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
	a <- request
	return reconcile.Result{}, nil
}

// expect fails the test when no request for the Metal3Machine comes in time.
func (a asked) expect(s *setup, what string) {
	s.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case request := <-a:
			if request.NamespacedName == client.ObjectKeyFromObject(s.metal3Machine) {
				return
			}
		case <-deadline:
			s.Fatalf("no request after %s", what)
		}
	}
}

func TestChangesOfNodesAskForPassesOverMachines(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	objects, err := cache.New(s.config, cache.Options{Scheme: s.api.Scheme(), DefaultNamespaces: map[string]cache.Config{s.cluster.Namespace: {}}})
	if err != nil {
		t.Fatal(err)
	}
	watches := NewWatches(WatchesConfig{Client: objects, Clients: s.clients})
	s.nodes.Watches = watches
	skip, requests := true, make(asked, 100)
	options := controller.Options{SkipNameValidation: &skip, CacheSyncTimeout: time.Minute, UsePriorityQueue: new(false)}
	of, err := watches.Controller(objects, options)
	if err != nil {
		t.Fatal(err)
	}
	options.Reconciler = requests
	consumer, err := controller.NewUnmanaged("consumer", options)
	if err != nil {
		t.Fatal(err)
	}
	if err := consumer.Watch(watches.Source(Metal3MachineRequest)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 3)
	for _, start := range []func(context.Context) error{objects.Start, consumer.Start, of.Start} {
		go func() { ended <- start(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})

	s.accessible() // after the first attempt to watch
	n := s.register(s.host.Name, "", same)
	requests.expect(s, "a Node without provider ID came")
	result, n2 := s.sync(v1beta2.AssociateMetal3MachineMetaDataSuccessReason)
	if n2.UID != n.UID || result.RequeueAfter != 0 {
		t.Errorf("while Nodes are watched: %+v", result)
	}
	requests.expect(s, "it got its provider ID")
	if err := s.api.Delete(ctx, n2); err != nil {
		t.Fatal(err)
	}
	requests.expect(s, "it was deleted")
	s.register(s.metal3Machine.Name, "", same)
	requests.expect(s, "it came back")

	if err := s.api.Delete(ctx, s.cluster); err != nil {
		t.Fatal(err)
	}
	polltest.UntilTrue(t, 3*time.Minute, "the end of the watch of a Cluster that is gone", func() bool { return watches.PollAfter(s.key()) > 0 })
}
