package operator_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/operator"
)

// clusterAPIKinds are definitions of Cluster API's kinds that accept everything.
func clusterAPIKinds() fstest.MapFS {
	files := fstest.MapFS{}
	for _, name := range []struct{ group, kind, plural string }{
		{clusterv1.GroupVersion.Group, "Cluster", "clusters"},
		{clusterv1.GroupVersion.Group, "Machine", "machines"},
		{clusterv1.GroupVersion.Group, "MachineSet", "machinesets"},
		{clusterv1.GroupVersion.Group, "MachineDeployment", "machinedeployments"},
		{ipamv1.GroupVersion.Group, "IPAddress", "ipaddresses"},
		{ipamv1.GroupVersion.Group, "IPAddressClaim", "ipaddressclaims"},
	} {
		files[name.plural+".yaml"] = lenientKind(name.group, name.kind, name.plural)
	}
	return files
}

// lenientKind is the definition of a kind that accepts everything.
func lenientKind(group, kind, plural string) *fstest.MapFile {
	return &fstest.MapFile{Data: fmt.Appendf(nil, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[3]s}
spec:
  group: %[3]s
  scope: Namespaced
  names: {kind: %[1]s, plural: %[2]s, listKind: %[1]sList}
  versions:
  - name: v1beta2
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, kind, plural, group)}
}

// newClusterBench starts the controllers of Cluster API's infrastructure and creates a Cluster. No
// other controllers run: Machines have none, and the test itself sets the state of hosts.
func newClusterBench(t testing.TB, config *rest.Config, change func(*operator.Options)) *bench {
	t.Helper()
	if err := controlplane.InstallCRDs(t.Context(), config, clusterAPIKinds()); err != nil {
		t.Fatal(err)
	}
	b := newIdleBenchOn(t, config)
	b.startCluster(config, change)
	return b
}

// startCluster starts the controllers and creates a Cluster that is ready for machines.
func (b *bench) startCluster(config *rest.Config, change func(*operator.Options)) {
	b.Helper()
	b.startWith(config, func(o *operator.Options) {
		o.Controllers, o.Engine = []string{operator.GroupCluster}, nil
		if change != nil {
			change(o)
		}
	})
	cluster, infrastructure := b.workloadCluster()
	b.eventually("Metal3Cluster provisioned", func() string {
		b.read(infrastructure, "edge")
		if p := infrastructure.Status.Initialization.Provisioned; p == nil || !*p {
			return conditionText(infrastructure.Status.Conditions)
		}
		return ""
	})
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	if err := b.client.Status().Update(b.Context(), cluster); err != nil {
		b.Fatal(err)
	}
}

// workloadCluster creates a Cluster with its infrastructure.
func (b *bench) workloadCluster() (*clusterv1.Cluster, *v1beta2.Metal3Cluster) {
	b.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: b.meta("edge")}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Cluster", Name: "edge"}
	b.create(cluster)
	infrastructure := &v1beta2.Metal3Cluster{ObjectMeta: b.meta("edge")}
	infrastructure.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "edge", UID: cluster.UID}}
	infrastructure.Spec.ControlPlaneEndpoint = v1beta2.APIEndpoint{Host: "192.0.2.249", Port: 6443}
	b.create(infrastructure)
	return cluster, infrastructure
}

// setState sets the state of a host, as the host controller does.
func (b *bench) setState(name string, state v1alpha1.ProvisioningState) {
	b.Helper()
	b.eventually(fmt.Sprintf("host %s reported as %s", name, state), func() string {
		h := b.host(name)
		h.Status.Provisioning.State, h.Status.OperationalStatus = state, v1alpha1.OperationalStatusOK
		if err := b.client.Status().Update(b.Context(), h); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (b *bench) availableHost(name string) {
	b.Helper()
	b.create(&corev1.Secret{ObjectMeta: b.meta(name + "-bmc")})
	h := &v1alpha1.BareMetalHost{ObjectMeta: b.meta(name)}
	h.Spec.BMC = v1alpha1.BMCDetails{Address: "redfish://192.0.2.1/redfish/v1/Systems/1", CredentialsName: name + "-bmc"}
	b.create(h)
	b.setState(name, v1alpha1.StateAvailable)
}

// machine creates a Machine with bootstrap data and its Metal3Machine.
func (b *bench) machine(name string) *v1beta2.Metal3Machine {
	b.Helper()
	machine := &clusterv1.Machine{ObjectMeta: b.meta(name)}
	machine.Spec.ClusterName = "edge"
	machine.Spec.Bootstrap.DataSecretName = new(name + "-bootstrap")
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Machine", Name: name}
	b.create(machine)
	m := &v1beta2.Metal3Machine{ObjectMeta: b.meta(name)}
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: "edge"}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: machine.UID}}
	m.Spec.Image = v1beta2.Image{URL: "https://images/os.qcow2", Checksum: "https://images/os.qcow2.sha256"}
	b.create(m)
	return m
}

// consumers returns the name of each host's consumer by host, and how many hosts are to be
// deployed.
func (b *bench) consumers() (consumers map[string]string, deployed int) {
	b.Helper()
	consumers = map[string]string{}
	for _, h := range b.hosts() {
		if h.Spec.ConsumerRef != nil {
			consumers[h.Name] = h.Spec.ConsumerRef.Name
		}
		if h.Spec.Image != nil {
			deployed++
		}
	}
	return consumers, deployed
}

// claimed waits until the given number of machines hold a host each.
func (b *bench) claimed(machines int) {
	b.Helper()
	b.eventually(fmt.Sprintf("%d machines with a host each", machines), func() string {
		consumers, deployed := b.consumers()
		holders := map[string]string{}
		for h, m := range consumers {
			if other, twice := holders[m]; twice {
				b.Fatalf("machine %s holds hosts %s and %s", m, h, other)
			}
			holders[m] = h
		}
		if len(holders) != machines || deployed != machines {
			return fmt.Sprintf("%d hosts have a consumer, %d are deployed", len(holders), deployed)
		}
		return ""
	})
}

func (b *bench) machineCondition(name, kind string, status metav1.ConditionStatus, reason string) {
	b.Helper()
	b.eventually(fmt.Sprintf("condition %s=%s/%s of machine %s", kind, status, reason, name), func() string {
		var m v1beta2.Metal3Machine
		b.read(&m, name)
		if c := meta.FindStatusCondition(m.Status.Conditions, kind); c == nil || c.Status != status || c.Reason != reason {
			return conditionText(m.Status.Conditions)
		}
		return ""
	})
}

func TestManyMachinesThatRaceForHostsGetOneEach(t *testing.T) {
	t.Parallel()
	b := newClusterBench(t, plane.Config(t), nil)
	const n = 20
	for i := range n {
		b.availableHost(fmt.Sprintf("host-%d", i))
	}
	for i := range n {
		b.machine(fmt.Sprintf("worker-%d", i))
	}
	b.claimed(n)
	late := b.machine("late")
	b.machineCondition("late", v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.NoMatchingHostReason)
	b.availableHost("new")
	b.claimed(n + 1)
	b.remove(late)
	b.setState("new", v1alpha1.StateAvailable)
	b.isGone(late)
	b.claimed(n)
}

func TestMachineIsProvisionedPausedAndReleased(t *testing.T) {
	t.Parallel()
	b := newClusterBench(t, plane.Config(t), nil)
	m := b.machine("worker")
	b.availableHost("host")
	b.claimed(1)
	b.setState("host", v1alpha1.StateProvisioned)
	b.machineCondition("worker", v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason)
	b.read(m, "worker")
	if want := "metal3://" + b.namespace + "/host/worker"; m.Spec.ProviderID != want {
		t.Errorf("provider ID %q, want %q", m.Spec.ProviderID, want)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: b.meta("edge")}
	b.update(cluster, func() { cluster.Spec.Paused = new(true) })
	b.eventually("a paused host", func() string {
		if h := b.host("host"); h.Annotations[v1alpha1.PausedAnnotation] != v1alpha1.PausedByClusterAPI {
			return fmt.Sprintf("annotations %v", h.Annotations)
		}
		return ""
	})
	b.update(cluster, func() { cluster.Spec.Paused = new(false) })
	b.eventually("a host that is not paused", func() string {
		if _, paused := b.host("host").Annotations[v1alpha1.PausedAnnotation]; paused {
			return "it is"
		}
		return ""
	})
	b.remove(m)
	b.eventually("a host without image", func() string {
		if h := b.host("host"); h.Spec.Image != nil || h.Spec.ConsumerRef == nil {
			return fmt.Sprintf("image %v, consumer %v", h.Spec.Image, h.Spec.ConsumerRef)
		}
		return ""
	})
	b.setState("host", v1alpha1.StateAvailable)
	b.isGone(m)
	if consumers, _ := b.consumers(); len(consumers) > 0 {
		t.Errorf("consumers are %v", consumers)
	}
	infrastructure := &v1beta2.Metal3Cluster{ObjectMeta: b.meta("edge")}
	b.remove(infrastructure)
	b.isGone(infrastructure)
}

// TestMachineOfAFormerLeaderIsProvisionedAndReleasedByItsSuccessor replaces the leader after each
// step of a machine.
func TestMachineOfAFormerLeaderIsProvisionedAndReleasedByItsSuccessor(t *testing.T) {
	t.Parallel()
	config := plane.Config(t)
	leases := func(o *operator.Options) {
		o.LeaderElection, o.LeaderElectionNamespace = true, o.Namespaces[0]
	}
	b := newClusterBench(t, config, leases)
	replace := func() {
		t.Helper()
		former := b.stop
		b.startWith(config, func(o *operator.Options) {
			o.Controllers, o.Engine = []string{operator.GroupCluster}, nil
			leases(o)
		})
		former() // gives its lease up
	}
	m := b.machine("worker")
	b.availableHost("host")
	b.availableHost("other")
	b.claimed(1)
	consumers, _ := b.consumers()
	host := slices.Collect(maps.Keys(consumers))[0]
	replace()
	b.setState(host, v1alpha1.StateProvisioned)
	b.machineCondition("worker", v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason)
	if consumers, _ = b.consumers(); len(consumers) != 1 || consumers[host] != "worker" {
		t.Errorf("consumers are %v, want only that of host %s", consumers, host)
	}
	replace()
	b.remove(m)
	b.eventually("a host without image", func() string {
		if h := b.host(host); h.Spec.Image != nil || h.Spec.ConsumerRef == nil {
			return fmt.Sprintf("image %v, consumer %v", h.Spec.Image, h.Spec.ConsumerRef)
		}
		return ""
	})
	replace()
	b.setState(host, v1alpha1.StateAvailable)
	b.isGone(m)
	if consumers, deployed := b.consumers(); len(consumers)+deployed > 0 {
		t.Errorf("consumers are %v, and %d hosts have an image", consumers, deployed)
	}
}

// TestControllersOfClustersNeedNoMoreThanTheirRole runs the controllers under their service
// account, with the roles of config/rbac.
func TestControllersOfClustersNeedNoMoreThanTheirRole(t *testing.T) {
	t.Parallel()
	config := controlplanetest.Start(t, controlplanetest.Options{}).Config()
	if err := controlplane.InstallCRDs(t.Context(), config, clusterAPIKinds()); err != nil {
		t.Fatal(err)
	}
	b := newIdleBenchOn(t, config)
	b.install()
	b.startCluster(config, asGroup(operator.GroupCluster))
	m := b.machine("worker")
	b.update(m, func() { m.Spec.DataTemplate = &v1beta2.ObjectReference{Name: "data"} })
	b.availableHost("host")
	b.templateTellsHardware("workers", "host")
	b.machineCondition("worker", v1beta2.Metal3DataReadyCondition, metav1.ConditionFalse, v1beta2.WaitingForMetal3DataReason)
	template := &v1beta2.Metal3DataTemplate{ObjectMeta: b.meta("data")}
	template.Spec.ClusterName = "edge"
	template.Spec.MetaData = &v1beta2.MetaData{Strings: []v1beta2.MetaDataString{{Key: "rack", Value: "7"}}}
	b.create(template)
	b.machineCondition("worker", v1beta2.Metal3DataReadyCondition, metav1.ConditionTrue, v1beta2.Metal3DataSecretsReadyReason)
	b.claimed(1)
	b.hasEvent("worker", "HostClaimed")
	b.setState("host", v1alpha1.StateProvisioned)
	b.machineCondition("worker", v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason)
	b.machineCondition("worker", v1beta2.AssociateMetal3MachineMetaDataCondition, metav1.ConditionFalse, v1beta2.WorkloadClusterUnreachableReason)
	b.remove(m)
	b.eventually("a host without image", func() string {
		if b.host("host").Spec.Image != nil {
			return "it has one"
		}
		return ""
	})
	b.setState("host", v1alpha1.StateAvailable)
	b.isGone(m)
	b.hasEvent("worker", "HostReleased")
	b.isGone(&v1beta2.Metal3Data{ObjectMeta: b.meta("data-0")})
}

// templateTellsHardware creates a template and the hardware data of a host, and waits until the
// template's status shows that hardware.
func (b *bench) templateTellsHardware(name, host string) {
	b.Helper()
	template := &v1beta2.Metal3MachineTemplate{ObjectMeta: b.meta(name)}
	template.Spec.Template.Spec.Image = v1beta2.Image{URL: "https://images/os.qcow2", Checksum: "https://images/os.qcow2.sha256"}
	b.create(template)
	b.create(&v1alpha1.HardwareData{ObjectMeta: b.meta(host), Spec: v1alpha1.HardwareDataSpec{
		HardwareDetails: &v1alpha1.HardwareDetails{CPU: v1alpha1.CPU{Arch: "aarch64", Count: 16}, RAMMebibytes: 65536},
	}})
	b.eventually("a template that tells the hardware of its host", func() string {
		b.read(template, name)
		s := template.Status
		if s.Capacity.Cpu().Value() != 16 || s.Capacity.Memory().String() != "64Gi" || s.NodeInfo.Architecture != "arm64" {
			return fmt.Sprintf("it tells %+v", s)
		}
		return ""
	})
}

func TestMissingKindsAreNamed(t *testing.T) {
	t.Parallel()
	one, err := os.ReadFile("../../config/crd/metal3.io_hardwaredata.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for group, tc := range map[string]struct {
		there fs.FS
		want  string
	}{
		operator.GroupCluster: {nil, "cluster.x-k8s.io/v1beta2; install Cluster API"},
		operator.GroupHost:    {fstest.MapFS{"hardwaredata.yaml": {Data: one}}, "metal3.io/v1alpha1; install Ingot's CustomResourceDefinitions"},
	} {
		config := controlplanetest.Start(t, controlplanetest.Options{CRDs: tc.there}).Config()
		op, err := operator.New(operator.Options{Config: config, Controllers: []string{group}, EngineURL: "http://127.0.0.1:1"})
		if err != nil {
			t.Fatalf("%s: %v, before the kinds are waited for", group, err)
		}
		if err := op.Run(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one that says what to install", group, err)
		}
	}
}
