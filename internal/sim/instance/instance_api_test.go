package instance_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/internal/configdrive"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/polltest"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/instance"
	"github.com/ingot-metal/ingot/internal/sim/invariant"
	"github.com/ingot-metal/ingot/internal/sim/kubeadm"
)

const (
	// A Node is not ready after it has been silent for nodeGrace. Every heartbeat, it renews its
	// Lease.
	nodeGrace = 6 * time.Second
	heartbeat = time.Second

	disk = "/dev/sda"
	// waitTimeout bounds every wait.
	waitTimeout = 120 * time.Second
)

// plane is the control plane of a workload cluster, whose tests have different Nodes.
var plane = controlplanetest.New(controlplanetest.Options{Workload: &controlplane.WorkloadOptions{NodeGrace: nodeGrace}})

func TestMain(m *testing.M) { os.Exit(plane.Run(m)) }

// cluster is a workload cluster and its administrator.
type cluster struct {
	client.Client
	plane *controlplane.ControlPlane
}

// joinable returns the cluster that the tests share, prepared for machines that join.
func joinable(t *testing.T) cluster {
	t.Helper()
	c := newCluster(t, plane.ControlPlane(t))
	if err := kubeadm.Install(t.Context(), c.plane.Config(), ""); err != nil {
		t.Fatal(err)
	}
	return c
}

func newCluster(t *testing.T, p *controlplane.ControlPlane) cluster {
	t.Helper()
	c, err := client.New(p.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return cluster{c, p}
}

func (c cluster) endpoint() string { return strings.TrimPrefix(c.plane.Config().Host, "https://") }

// caHash returns the hash of the cluster's CA in the form that kubeadm uses.
func (c cluster) caHash(t *testing.T) string {
	t.Helper()
	block, _ := pem.Decode(c.plane.Config().CAData)
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// addToken creates a bootstrap token as Cluster API does.
func (c cluster) addToken(t *testing.T, token string, expires time.Time) *corev1.Secret {
	t.Helper()
	id, secret, _ := strings.Cut(token, ".")
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "expiration": expires.UTC().Format(time.RFC3339),
			"usage-bootstrap-signing": "true", "usage-bootstrap-authentication": "true",
			"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
		},
	}
	if err := c.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// node returns a Node, or nil if there is none.
func (c cluster) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	err := c.Get(t.Context(), client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// awaitReady waits until the condition Ready of a Node has a status, and returns the Node.
func (c cluster) awaitReady(t *testing.T, name string, status corev1.ConditionStatus) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	eventually(t, func() error {
		if node = c.node(t, name); node == nil {
			return fmt.Errorf("there is no Node %s", name)
		}
		if got := ready(node); got != status {
			return fmt.Errorf("the Node %s has Ready=%s, want %s", name, got, status)
		}
		return nil
	})
	return node
}

func ready(node *corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return ""
}

// eventually waits until check succeeds.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	polltest.Until(t, waitTimeout, "the cluster", check)
}

// machines are simulated machines whose operating systems become Nodes.
type machines struct {
	*sim.Machines
	instances *instance.Instances
}

// subnet keeps the networks of the tests of this package apart.
var subnet byte

func newMachines(t *testing.T, count int, options instance.Options) machines {
	t.Helper()
	options.Heartbeat = heartbeat
	ms := machines{instances: instance.New(options)}
	subnet++
	var err error
	ms.Machines, err = sim.New(sim.Options{
		Engine: "http://127.0.0.1:1", Machines: count, Seed: uint64(subnet), Instance: ms.instances.Run,
		Network: netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 77, subnet, 0}), 24),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for i := range count {
			if t.Failed() {
				t.Logf("machine %d:\n%s", i, ms.notes(t, i))
			}
		}
		ms.Stop()
	})
	return ms
}

// deploy writes an image and a config drive to the disk of a machine and boots it.
func (ms machines) deploy(t *testing.T, machine int, name, userData string, metaData map[string]any) {
	t.Helper()
	disks := ms.Machine(machine).Disks()
	w, err := disks.Write(disk, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 1024)
	content[510], content[511] = 0x55, 0xaa
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	image, _ := w.Image()
	if err := w.Commit(image); err != nil {
		t.Fatal(err)
	}
	object, err := json.Marshal(map[string]any{"user_data": userData, "meta_data": metaData})
	if err != nil {
		t.Fatal(err)
	}
	drive, err := configdrive.Build(object, configdrive.Instance{UUID: "uuid-of-" + name, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	fileSystem, err := io.ReadAll(io.NewSectionReader(drive, 0, drive.Size()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := disks.PutConfigDrive(disk, fileSystem); err != nil {
		t.Fatal(err)
	}
	if err := ms.Machine(machine).PowerOn(); err != nil {
		t.Fatal(err)
	}
}

// notes returns what the instances of a machine have done.
func (ms machines) notes(t *testing.T, machine int) string {
	t.Helper()
	var lines []string
	for _, e := range ms.Recorder().Effects(strconv.Itoa(machine), 0) {
		lines = append(lines, e.Detail)
	}
	return strings.Join(lines, "\n")
}

// joinData returns the user data of a worker as the kubeadm bootstrap provider writes it.
func joinData(endpoint, token, caHash string) string {
	return fmt.Sprintf(`## template: jinja
#cloud-config

write_files:
-   path: /run/kubeadm/kubeadm-join-config.yaml
    owner: root:root
    permissions: '0640'
    content: |
      apiVersion: kubeadm.k8s.io/v1beta4
      discovery:
        bootstrapToken:
          apiServerEndpoint: %s
          caCertHashes:
          - %s
          token: %s
      kind: JoinConfiguration
      nodeRegistration:
        kubeletExtraArgs:
        - name: node-labels
          value: metal3.io/uuid={{ ds.meta_data.uuid }},example.com/rack=r1
        - name: provider-id
          value: metal3://{{ ds.meta_data.providerid }}
        name: '{{ ds.meta_data.name }}'
        taints:
        - effect: NoSchedule
          key: node.cluster.x-k8s.io/uninitialized
runcmd:
  - "echo before"
  - kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml  && echo success > /run/cluster-api/bootstrap-success.complete
`, endpoint, caHash, token)
}

// initData returns the user data of the first machine of a control plane.
func initData(endpoint string, caCert, caKey []byte) string {
	return fmt.Sprintf(`## template: jinja
#cloud-config

write_files:
-   path: /etc/kubernetes/pki/ca.crt
    encoding: "base64"
    content: |
      %s
-   path: /etc/kubernetes/pki/ca.key
    encoding: "base64"
    content: |
      %s
-   path: /run/kubeadm/kubeadm.yaml
    content: |
      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      clusterName: one
      controlPlaneEndpoint: %s
      kind: ClusterConfiguration
      kubernetesVersion: v1.36.3
      
      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: InitConfiguration
      nodeRegistration:
        kubeletExtraArgs:
        - name: provider-id
          value: metal3://{{ ds.meta_data.providerid }}
        name: '{{ ds.meta_data.name }}'
        taints: null
runcmd:
  - 'kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo success > /run/cluster-api/bootstrap-success.complete'
`, base64.StdEncoding.EncodeToString(caCert), base64.StdEncoding.EncodeToString(caKey), endpoint)
}

var soon = func() time.Time { return time.Now().Add(time.Hour) }

func TestMachineJoinsWithAValidBootstrapToken(t *testing.T) {
	c := joinable(t)
	c.addToken(t, "aaaaaa.0123456789abcdef", soon())
	ms := newMachines(t, 1, instance.Options{})
	ms.deploy(t, 0, "Worker-0", joinData(c.endpoint(), "aaaaaa.0123456789abcdef", c.caHash(t)), map[string]any{"providerid": "ns/host-0/m3m-0"})

	node := c.awaitReady(t, "worker-0", corev1.ConditionTrue)
	if want := "metal3://ns/host-0/m3m-0"; node.Spec.ProviderID != want {
		t.Errorf("provider ID %q, want %q", node.Spec.ProviderID, want)
	}
	for label, want := range map[string]string{"metal3.io/uuid": "uuid-of-Worker-0", "example.com/rack": "r1", corev1.LabelHostname: "worker-0"} {
		if got := node.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	if !hasTaint(node, "node.cluster.x-k8s.io/uninitialized") {
		t.Errorf("taints %v, want that of the configuration", node.Spec.Taints)
	}
	if node.Status.NodeInfo.KubeletVersion != "v"+controlplane.KubernetesVersion {
		t.Errorf("version %q", node.Status.NodeInfo.KubeletVersion)
	}
	var first, lease coordinationv1.Lease
	key := client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: "worker-0"}
	eventually(t, func() error { return c.Get(t.Context(), key, &first) })
	eventually(t, func() error {
		if err := c.Get(t.Context(), key, &lease); err != nil || !lease.Spec.RenewTime.After(first.Spec.RenewTime.Time) {
			return fmt.Errorf("the Lease is not renewed: %w", err)
		}
		return nil
	})
	got := ms.instances.Nodes()
	if len(got) != 1 || got[0] != (instance.Node{Run: 1, Name: "worker-0", UID: node.UID, ProviderID: node.Spec.ProviderID}) {
		t.Errorf("registered %+v", got)
	}
}

func hasTaint(node *corev1.Node, key string) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == key {
			return true
		}
	}
	return false
}

func TestMachineIsRefusedWithoutAValidBootstrapToken(t *testing.T) {
	c := joinable(t)
	c.addToken(t, "bbbbbb.0123456789abcdef", soon())
	c.addToken(t, "bbbbbc.0123456789abcdef", time.Now().Add(-time.Minute))
	hash := c.caHash(t)
	cases := []struct{ name, token, hash, want string }{
		{"unknown", "zzzzzz.0123456789abcdef", hash, `not signed by the bootstrap token "zzzzzz"`},
		{"expired", "bbbbbc.0123456789abcdef", hash, `not signed by the bootstrap token "bbbbbc"`},
		{"secret", "bbbbbb.fedcba9876543210", hash, `the signature of cluster-info by the bootstrap token "bbbbbb" is wrong`},
		{"form", "bbbbbb", hash, "not the form of one"},
		{"ca", "bbbbbb.0123456789abcdef", "sha256:00", "none of the caCertHashes"},
	}
	ms := newMachines(t, len(cases), instance.Options{BootstrapTimeout: 2 * time.Second})
	for i, test := range cases {
		ms.deploy(t, i, "refused-"+test.name, joinData(c.endpoint(), test.token, test.hash), map[string]any{"providerid": "a/b/c"})
	}
	for i, test := range cases {
		eventually(t, func() error {
			if got := ms.notes(t, i); !strings.Contains(got, test.want) {
				return fmt.Errorf("%s: the machine says %q, want %q", test.name, got, test.want)
			}
			return nil
		})
		if c.node(t, "refused-"+test.name) != nil {
			t.Errorf("%s: the machine is a Node", test.name)
		}
	}
}

func TestNodeIsNotReadyWhileItsMachineIsOffAndComesBackWithoutAToken(t *testing.T) {
	c := joinable(t)
	token := c.addToken(t, "cccccc.0123456789abcdef", soon())
	ms := newMachines(t, 1, instance.Options{})
	ms.deploy(t, 0, "restarted", joinData(c.endpoint(), "cccccc.0123456789abcdef", c.caHash(t)), map[string]any{"providerid": "ns/h/m"})
	before := c.awaitReady(t, "restarted", corev1.ConditionTrue)
	if err := c.Delete(t.Context(), token); err != nil {
		t.Fatal(err)
	}

	ms.Machine(0).PowerOff()
	c.awaitReady(t, "restarted", corev1.ConditionUnknown)
	if err := ms.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	after := c.awaitReady(t, "restarted", corev1.ConditionTrue)
	if after.UID != before.UID || after.Status.NodeInfo.BootID == before.Status.NodeInfo.BootID {
		t.Errorf("UID %s and boot %s, want the same Node after another boot than %s and %s",
			after.UID, after.Status.NodeInfo.BootID, before.UID, before.Status.NodeInfo.BootID)
	}

	if err := ms.Machine(0).Hang(); err != nil {
		t.Fatal(err)
	}
	c.awaitReady(t, "restarted", corev1.ConditionUnknown)
	if state := ms.Machine(0).Status().State; state != sim.OS {
		t.Errorf("a machine that hangs is %s", state)
	}
	if runs := ms.Runs(); len(runs) != 2 || runs[0].Until.IsZero() || !runs[1].Until.IsZero() {
		t.Errorf("runs %+v, want one that has ended and one that has not", runs)
	}
}

// running returns the operating system that a machine runs, found by the MAC address of its host.
func (ms *machines) running(machine int) (sim.Run, bool) {
	now := time.Now()
	return invariant.RunningOn(ms.Machines)(strings.ToUpper(ms.Machine(machine).BootMAC()), now, now)
}

func TestDeletedNodeComesBackWithTheNextBoot(t *testing.T) {
	c := joinable(t)
	c.addToken(t, "dddddd.0123456789abcdef", soon())
	ms := newMachines(t, 1, instance.Options{})
	ms.deploy(t, 0, "deleted", joinData(c.endpoint(), "dddddd.0123456789abcdef", c.caHash(t)), map[string]any{"providerid": "ns/h/m"})
	before := c.awaitReady(t, "deleted", corev1.ConditionTrue)
	if err := c.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if got := ms.notes(t, 0); !strings.Contains(got, "the Node is gone") {
			return fmt.Errorf("the kubelet says %q", got)
		}
		return nil
	})
	if c.node(t, "deleted") != nil {
		t.Error("the kubelet has registered again without a boot")
	}
	checker := invariant.Checker{Machines: ms.Machines, Instances: ms.instances, AuditLogs: []string{c.plane.AuditLog()}}
	broken, err := checker.Violations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(broken.Early) != 1 || broken.Early[0].UID != before.UID || broken.Early[0].User != "ingot-admin" || broken.Early[0].Run.Number != 1 {
		t.Errorf("violations %q, want that of the Node %s", broken.Strings(), before.UID)
	}
	if run, runs := ms.running(0); !runs || run.Number != 1 {
		t.Errorf("the machine runs %+v, %t, want its first boot", run, runs)
	}
	if err := ms.Machine(0).Reboot(); err != nil {
		t.Fatal(err)
	}
	if after := c.awaitReady(t, "deleted", corev1.ConditionTrue); after.UID == before.UID || after.Spec.ProviderID != before.Spec.ProviderID {
		t.Errorf("the Node %s has provider ID %s", after.UID, after.Spec.ProviderID)
	}
}

func TestNodeOfAMachineThatIsOffMayBeDeleted(t *testing.T) {
	c := joinable(t)
	c.addToken(t, "ffffff.0123456789abcdef", soon())
	ms := newMachines(t, 1, instance.Options{})
	ms.deploy(t, 0, "fenced", joinData(c.endpoint(), "ffffff.0123456789abcdef", c.caHash(t)), map[string]any{"providerid": "ns/h/m"})
	node := c.awaitReady(t, "fenced", corev1.ConditionTrue)
	eventually(t, func() error {
		if len(ms.instances.Nodes()) == 0 {
			return errors.New("the registration is not noted")
		}
		return nil
	})
	ms.Machine(0).PowerOff()
	if run, runs := ms.running(0); runs {
		t.Errorf("the machine that is off runs %+v", run)
	}
	if err := c.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	checker := invariant.Checker{Machines: ms.Machines, Instances: ms.instances, AuditLogs: []string{c.plane.AuditLog()}}
	if broken, err := checker.Violations(t.Context()); err != nil || len(broken.Strings()) > 0 {
		t.Errorf("violations %q, %v, want none", broken.Strings(), err)
	}
	if err := ms.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	c.awaitReady(t, "fenced", corev1.ConditionTrue)
}

func TestFirstControlPlaneMachineNeedsTheCAOfItsCluster(t *testing.T) {
	c := newCluster(t, controlplanetest.Start(t, controlplanetest.Options{Workload: &controlplane.WorkloadOptions{NodeGrace: nodeGrace}}))
	cert, key, err := c.plane.Authority()
	if err != nil {
		t.Fatal(err)
	}
	otherCert, otherKey, err := plane.ControlPlane(t).Authority()
	if err != nil {
		t.Fatal(err)
	}

	others := newMachines(t, 2, instance.Options{BootstrapTimeout: 2 * time.Second})
	others.deploy(t, 0, "other-authority", initData(c.endpoint(), otherCert, otherKey), map[string]any{"providerid": "a/b/c"})
	others.deploy(t, 1, "mixed", initData(c.endpoint(), cert, otherKey), map[string]any{"providerid": "a/b/c"})
	for i := range 2 {
		eventually(t, func() error {
			if got := others.notes(t, i); !strings.Contains(got, "kubeadm init: ") {
				return fmt.Errorf("the machine says %q", got)
			}
			return nil
		})
	}
	var nodes corev1.NodeList
	if err := c.List(t.Context(), &nodes); err != nil || len(nodes.Items) > 0 {
		t.Errorf("%d Nodes, %v, want none", len(nodes.Items), err)
	}

	ms := newMachines(t, 2, instance.Options{})
	ms.deploy(t, 0, "first", initData(c.endpoint(), cert, key), map[string]any{"providerid": "ns/h/first"})
	node := c.awaitReady(t, "first", corev1.ConditionTrue)
	eventually(t, func() error {
		node = c.node(t, "first")
		_, labelled := node.Labels["node-role.kubernetes.io/control-plane"]
		if !labelled || !hasTaint(node, "node-role.kubernetes.io/control-plane") {
			return fmt.Errorf("labels %v and taints %v, want those of a control plane", node.Labels, node.Spec.Taints)
		}
		return nil
	})
	var config corev1.ConfigMap
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"}, &config); err != nil {
		t.Fatal(err)
	}
	if got := config.Data["ClusterConfiguration"]; !strings.HasPrefix(got, "apiVersion: kubeadm.k8s.io/v1beta4\nclusterName: one\n") {
		t.Errorf("kubeadm-config has %q", got)
	}
	awaitMirrorPods(t, c, node)

	c.addToken(t, "eeeeee.0123456789abcdef", soon())
	ms.deploy(t, 1, "second", joinData(c.endpoint(), "eeeeee.0123456789abcdef", c.caHash(t)), map[string]any{"providerid": "ns/h/second"})
	c.awaitReady(t, "second", corev1.ConditionTrue)

	// The pods of a deleted Node must make way for those of the next Node.
	if err := c.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if err := ms.Machine(0).Reboot(); err != nil {
		t.Fatal(err)
	}
	awaitMirrorPods(t, c, c.awaitReady(t, "first", corev1.ConditionTrue))
}

// awaitMirrorPods waits for the pods that Cluster API's control plane provider looks for.
func awaitMirrorPods(t *testing.T, c cluster, node *corev1.Node) {
	t.Helper()
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		eventually(t, func() error {
			var pod corev1.Pod
			err := c.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: component + "-" + node.Name}, &pod)
			if err != nil {
				return err
			}
			if !metav1.IsControlledBy(&pod, node) || pod.DeletionTimestamp != nil {
				return fmt.Errorf("the pod %s belongs to another Node", pod.Name)
			}
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.Status.Phase == corev1.PodRunning {
					return nil
				}
			}
			return fmt.Errorf("the pod %s is not ready: %+v", pod.Name, pod.Status)
		})
	}
}

func TestInstanceThatIsNoMachineOfAClusterDoesNothing(t *testing.T) {
	ms := newMachines(t, 3, instance.Options{})
	for i, userData := range []string{"", "#!/bin/sh\necho hello\n", "#cloud-config\nruncmd: [echo hello]\n"} {
		ms.deploy(t, i, "plain", userData, nil)
	}
	eventually(t, func() error {
		if runs := ms.Runs(); len(runs) != 3 || runs[0].Name != "plain" {
			return fmt.Errorf("runs %+v", runs)
		}
		return nil
	})
	for i := range 3 {
		if got := ms.notes(t, i); strings.Contains(got, "kube") || strings.Contains(got, "cloud") {
			t.Errorf("machine %d says %q", i, got)
		}
	}
}
