package remediation

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/fencing"
	"github.com/ingot-metal/ingot/internal/cluster/workload"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/polltest"
)

// clusterKind is a definition of a kind of Cluster API, as far as this package looks at it.
func clusterKind(kind, plural string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + plural + `.cluster.x-k8s.io, annotations: {api-approved.kubernetes.io: "for a test"}}
spec:
  group: cluster.x-k8s.io
  scope: Namespaced
  names: {kind: ` + kind + `, listKind: ` + kind + `List, plural: ` + plural + `, singular: ` + plural[:len(plural)-1] + `}
  versions:
  - name: v1beta2
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {status: {}}
`)}
}

// controllers runs the controller of a process, which can be replaced.
type controllers struct {
	config  *clientrest.Config
	clients *workload.Clients
	cancel  context.CancelFunc
	ended   chan error
}

func (c *controllers) start(t *testing.T) {
	t.Helper()
	mgr, err := manager.New(c.config, manager.Options{Scheme: scheme(t), Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	skip := true
	c.clients = workload.New(mgr.GetAPIReader(), scheme(t))
	made, err := New(Config{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Workload: c.clients, Recorder: silent{}, Now: time.Now,
		FindNode: nodeByReference, ProvenOff: recordedOff, DoubtNode: (&life{}).doubtNode, Metrics: metrics, Guard: fencing.NewGuard(mgr.GetAPIReader(), c.clients, nodeByReference),
	}).Controller(mgr.GetCache(), controller.Options{SkipNameValidation: &skip, UsePriorityQueue: new(false)}, c.clients.Gone(mgr.GetCache()))
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Add(made); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.ended = cancel, make(chan error, 1)
	go func() { c.ended <- mgr.Start(ctx) }()
}

func (c *controllers) stop(t *testing.T) {
	t.Helper()
	c.cancel()
	if err := <-c.ended; err != nil {
		t.Errorf("manager ended: %v", err)
	}
}

// TestARemediationOnARealAPIServer has the controller, with its watches, and one API server for
// both clusters. The controller is replaced in the middle of the remediation. The test powers
// the host, and detaches its volume.
func TestARemediationOnARealAPIServer(t *testing.T) {
	t.Parallel()
	config := controlplanetest.Start(t, controlplanetest.Options{}).Config()
	kinds := fstest.MapFS{"machines.yaml": clusterKind("Machine", "machines"), "clusters.yaml": clusterKind("Cluster", "clusters")}
	if err := controlplane.InstallCRDs(t.Context(), config, kinds); err != nil {
		t.Fatal(err)
	}
	c := &controllers{config: config}
	c.start(t)
	t.Cleanup(func() { c.stop(t) })

	api, err := client.New(config, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	create := func(obj client.Object) {
		t.Helper()
		if err := api.Create(t.Context(), obj); err != nil {
			t.Fatalf("create %T: %v", obj, err)
		}
	}
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"a": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"a": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:  map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}}, CurrentContext: "a",
	})
	if err != nil {
		t.Fatal(err)
	}
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	create(&corev1.Secret{ObjectMeta: named("edge-kubeconfig", ""), Data: map[string][]byte{"value": kubeconfig}})
	create(&clusterv1.Cluster{ObjectMeta: named("edge", "")})
	machine := &clusterv1.Machine{ObjectMeta: named("edge-0", ""), Spec: clusterv1.MachineSpec{
		ClusterName:       "edge",
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Machine", Name: "edge-0"},
	}}
	create(machine)
	machine.Status.NodeRef.Name = "web"
	if err := api.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	owner := []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "edge-0", UID: machine.UID}}
	m3m := &v1beta2.Metal3Machine{ObjectMeta: named("edge-0", ""), Spec: v1beta2.Metal3MachineSpec{CustomDeploy: v1beta2.CustomDeploy{Method: "install"}}}
	m3m.OwnerReferences, m3m.Annotations = owner, map[string]string{v1beta2.HostAnnotation: ns + "/web"}
	create(m3m)
	host := &v1alpha1.BareMetalHost{ObjectMeta: named("web", ""), Spec: v1alpha1.BareMetalHostSpec{
		Online: true, BMC: v1alpha1.BMCDetails{Address: "redfish://192.0.2.1/redfish/v1/Systems/1"},
		ConsumerRef: &corev1.ObjectReference{APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3Machine", Namespace: ns, Name: "edge-0"},
	}}
	create(host)
	create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "web"}})
	volume := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: "test", NodeName: "web", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("disk")},
	}}
	create(volume)
	m3r := &v1beta2.Metal3Remediation{ObjectMeta: named("edge-0", "")}
	m3r.OwnerReferences = owner
	create(m3r)

	read := func(obj client.Object) bool {
		t.Helper()
		err := api.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	tainted := false
	// power does what the host controller does for the annotations.
	power := func() {
		t.Helper()
		read(host)
		before := host.DeepCopy()
		host.Status.PowerOffHolds = nil
		for key, value := range host.Annotations {
			at := metav1.Now()
			host.Status.PowerOffHolds = append(host.Status.PowerOffHolds, v1alpha1.PowerOffHold{Key: key, Value: value, RequestedAt: at, ConfirmedAt: &at})
		}
		host.Status.PoweredOn = len(host.Status.PowerOffHolds) == 0
		host.Status.OperationalStatus, host.Status.Provisioning.State = v1alpha1.OperationalStatusOK, v1alpha1.StateProvisioned
		unchanged := before.Status.PoweredOn == host.Status.PoweredOn && len(before.Status.PowerOffHolds) == len(host.Status.PowerOffHolds)
		if err := api.Status().Patch(t.Context(), host, client.MergeFrom(before)); !unchanged && err != nil {
			t.Fatal(err)
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		read(node)
		if slices.ContainsFunc(node.Spec.Taints, isOutOfService) {
			tainted = true
			if err := client.IgnoreNotFound(api.Delete(t.Context(), volume)); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually := func(what string, is func() bool) {
		t.Helper()
		polltest.Until(t, 2*time.Minute, what, func() error {
			if is() {
				return nil
			}
			power()
			return fmt.Errorf("status %+v, annotations %v, tainted %t", m3r.Status, host.Annotations, tainted)
		})
	}
	replaced := func(what string, is func() bool) {
		t.Helper()
		eventually(what, is)
		c.stop(t)
		c.start(t)
	}
	replaced("the hold", func() bool { return read(host) && len(host.Annotations) > 0 })
	replaced("the record of the taint", func() bool { return read(m3r) && m3r.Annotations[v1beta2.OutOfServiceAnnotation] != "" })
	replaced("the release", func() bool { return read(m3r) && m3r.Status.ReleasedAt != nil })
	eventually("phase Waiting", func() bool { return read(m3r) && m3r.Status.Phase == waiting })
	if s := m3r.Status; s.RetryCount != 0 || s.LastRemediated == nil || s.ReleasedAt == nil || !tainted {
		t.Errorf("status %+v, tainted %t", s, tainted)
	}
	c.stop(t) // and what is deleted meanwhile is found
	if err := api.Delete(t.Context(), m3r); err != nil {
		t.Fatal(err)
	}
	c.start(t)
	eventually("end", func() bool { return !read(m3r) })
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	if read(host); len(host.Annotations) > 0 || !read(node) || slices.ContainsFunc(node.Spec.Taints, isOutOfService) {
		t.Errorf("the host has %v, the Node %v", host.Annotations, node.Spec.Taints)
	}

	key := client.ObjectKey{Namespace: ns, Name: "edge"}
	before, err := c.clients.Client(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: named(key.Name, "")}); err != nil {
		t.Fatal(err)
	}
	eventually("a new client for a Cluster that is gone", func() bool {
		after, err := c.clients.Client(t.Context(), key)
		return err == nil && after != before
	})
}

// silent drops events.
type silent struct{}

func (silent) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
