package remediation_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/fencing"
	"github.com/ingot-metal/ingot/internal/cluster/remediation"
	"github.com/ingot-metal/ingot/internal/cluster/workload"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/polltest"
)

// setup is a Cluster with Cluster API's own managers, the two controllers that recover machines,
// and a MachineSet of one. One API server has the Nodes, too. The test is the host operator, the
// controller of Metal3Machines, and what runs on the host.
type setup struct {
	*testing.T
	client.Client

	machine *clusterv1.Machine // of the MachineSet
	running bool               // the host is on
	// suspended is true when health checks were suspended while the Node was gone.
	suspended bool
	// remediated are the Metal3Remediations that were seen, with the most retries that they had.
	remediated map[types.UID]int32
}

const siteNamespace = "racks"

const siteObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: racks}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3Cluster
metadata: {name: edge}
spec: {controlPlaneEndpoint: {host: 127.0.0.1, port: 1}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: edge}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Cluster, name: edge}
  controlPlaneEndpoint: {host: 127.0.0.1, port: 1}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3MachineTemplate
metadata: {name: machine}
spec: {template: {spec: {customDeploy: {method: install}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3Machine
metadata: {name: plane}
spec: {customDeploy: {method: install}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: plane, labels: {cluster.x-k8s.io/control-plane: ""}}
spec:
  clusterName: edge
  bootstrap: {dataSecretName: boot}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Machine, name: plane}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: worker, annotations: {machineset.cluster.x-k8s.io/skip-preflight-checks: All}}
spec:
  clusterName: edge
  replicas: 1
  selector: {matchLabels: {of: worker}}
  template:
    metadata: {labels: {of: worker}}
    spec:
      clusterName: edge
      bootstrap: {dataSecretName: boot}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: machine}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3RemediationTemplate
metadata: {name: edge}
spec: {template: {spec: {strategy: {type: Annotation, retryLimit: 1, timeoutSeconds: 900}}}}
`

const healthCheck = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: %s}
spec:
  clusterName: edge
  selector: {matchLabels: {of: worker}}
  checks:
    nodeStartupTimeoutSeconds: 0
    unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 1}]
  remediation: {%s}
`

func newSetup(t *testing.T) *setup {
	t.Helper()
	config := controlplanetest.Start(t, controlplanetest.Options{ClusterAPI: true}).Config()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, storagev1.AddToScheme, clusterv1.AddToScheme, v1beta2.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{T: t, Client: api, running: true, remediated: map[types.UID]int32{}}
	role, err := os.ReadFile("../../../config/rbac/clusterapi/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.apply(string(role))
	s.apply(siteObjects)
	s.createKubeconfig(config)
	s.recover(config, scheme)
	return s
}

func (s *setup) apply(text string) {
	s.Helper()
	for one := range bytes.SplitSeq([]byte(text), []byte("\n---\n")) {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(one, &u.Object); err != nil {
			s.Fatal(err)
		}
		if u.GetKind() != "ClusterRole" && u.GetKind() != "Namespace" {
			u.SetNamespace(siteNamespace)
		}
		s.create(u)
	}
}

func (s *setup) create(obj client.Object) {
	s.Helper()
	if err := s.Create(s.Context(), obj); err != nil {
		s.Fatalf("create %T %s: %v", obj, obj.GetName(), err)
	}
}

func (s *setup) createKubeconfig(config *rest.Config) {
	s.Helper()
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"a": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"a": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:  map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}}, CurrentContext: "a",
	})
	if err != nil {
		s.Fatal(err)
	}
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: siteNamespace, Name: "edge-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "edge"}},
		Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": kubeconfig},
	})
}

// recover starts the two controllers that recover machines.
func (s *setup) recover(config *rest.Config, scheme *runtime.Scheme) {
	s.Helper()
	mgr, err := manager.New(config, manager.Options{Scheme: scheme, Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		s.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	fenced, err := fencing.NewMetrics(registry)
	if err != nil {
		s.Fatal(err)
	}
	attempts, err := remediation.NewMetrics(registry)
	if err != nil {
		s.Fatal(err)
	}
	cached, live := mgr.GetClient(), mgr.GetAPIReader()
	clients, recorder := workload.New(live, scheme), events.NewFakeRecorder(1000)
	guard := fencing.NewGuard(live, clients, workload.FindNode)
	skip := true
	options := controller.Options{SkipNameValidation: &skip, Logger: logr.Discard(), UsePriorityQueue: new(false)}
	byAnnotation, err := fencing.New(fencing.Config{
		Client: cached, Live: live, Workloads: clients, FindNode: workload.FindNode, Guard: guard, Recorder: recorder, Metrics: fenced, Now: time.Now,
	}).Controller(mgr.GetCache(), options)
	if err != nil {
		s.Fatal(err)
	}
	byObject, err := remediation.New(remediation.Config{
		Client: cached, Live: live, Workload: clients, FindNode: workload.FindNode, ProvenOff: fencing.ProvenOff, DoubtNode: fencing.DoubtNode,
		Guard: guard, Recorder: recorder, Metrics: attempts, Now: time.Now,
	}).Controller(mgr.GetCache(), options)
	if err != nil {
		s.Fatal(err)
	}
	for _, c := range []controller.Controller{byAnnotation, byObject} {
		if err := mgr.Add(c); err != nil {
			s.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("manager ended: %v", err)
		}
	})
}

// get reads an object of the namespace. It returns false when there is none.
func (s *setup) get(name string, obj client.Object) bool {
	s.Helper()
	key := client.ObjectKey{Namespace: siteNamespace, Name: name}
	if _, cluster := obj.(*corev1.Node); cluster {
		key.Namespace = ""
	}
	err := s.Get(s.Context(), key, obj)
	if err != nil && !apierrors.IsNotFound(err) {
		s.Fatal(err)
	}
	return err == nil
}

// eventually lets the setup run until something is so.
func (s *setup) eventually(what string, is func() bool) {
	s.Helper()
	polltest.Until(s.T, 3*time.Minute, what, func() error {
		if is() {
			return nil
		}
		s.operate()
		var machines clusterv1.MachineList
		_ = s.List(s.Context(), &machines)
		h := &v1alpha1.BareMetalHost{}
		s.get("host", h)
		found := fmt.Sprintf("host %v", h.Annotations)
		for _, m := range machines.Items {
			found += fmt.Sprintf("; Machine %s %v, %+v", m.Name, m.Annotations, m.Status.Conditions)
		}
		return errors.New(found)
	})
}

// provide makes a Metal3Machine one that runs on a host, and registers its Node.
func (s *setup) provide(machine, host string) {
	s.Helper()
	m := &v1beta2.Metal3Machine{}
	s.eventually("Metal3Machine "+machine+" is owned by its Machine", func() bool { return s.get(machine, m) && len(m.OwnerReferences) > 0 })
	before := m.DeepCopy()
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1beta2.HostAnnotation, siteNamespace+"/"+host)
	m.Spec.ProviderID = v1beta2.ProviderIDPrefix + siteNamespace + "/" + host + "/" + machine
	if err := s.Patch(s.Context(), m, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
	s.provisioned(m, func() { m.Status.Initialization.Provisioned = new(true) })
	s.register(host, m.Spec.ProviderID)
}

func (s *setup) provisioned(obj client.Object, change func()) {
	s.Helper()
	before, _ := obj.DeepCopyObject().(client.Object)
	change()
	if err := s.Status().Patch(s.Context(), obj, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
}

// register is what a kubelet does that starts.
func (s *setup) register(name, providerID string) {
	s.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	s.create(node)
	s.ready(node, corev1.ConditionTrue)
}

func (s *setup) ready(node *corev1.Node, status corev1.ConditionStatus) {
	s.Helper()
	s.provisioned(node, func() {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Test", LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
	})
}

// operate is a step of the host operator and of the machine, and looks at what others do.
func (s *setup) operate() {
	s.Helper()
	h := &v1alpha1.BareMetalHost{}
	if s.machine == nil || !s.get("host", h) {
		return
	}
	before := h.DeepCopy()
	now := metav1.Now()
	h.Status.PowerOffHolds = nil
	for key, value := range h.Annotations {
		if !strings.HasPrefix(key, v1alpha1.RebootAnnotationPrefix) {
			continue
		}
		record := v1alpha1.PowerOffHold{Key: key, Value: recorded(value), RequestedAt: now}
		for _, known := range before.Status.PowerOffHolds {
			if known.Key == record.Key && known.Value == record.Value {
				if record = known; !s.running && record.ConfirmedAt == nil {
					record.ConfirmedAt = &now
				}
			}
		}
		h.Status.PowerOffHolds = append(h.Status.PowerOffHolds, record)
	}
	booted := !s.running && len(h.Status.PowerOffHolds) == 0
	s.running = len(h.Status.PowerOffHolds) == 0
	h.Status.PoweredOn = s.running
	if err := s.Status().Patch(s.Context(), h, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
	s.watch(booted)
}

// watch looks at the Node and the Metal3Remediations.
func (s *setup) watch(booted bool) {
	s.Helper()
	node, machine := &corev1.Node{}, &clusterv1.Machine{}
	there := s.get("host", node)
	if !there && s.get(s.machine.Name, machine) {
		s.suspended = s.suspended || machine.Annotations[clusterv1.MachineSkipRemediationAnnotation] == v1beta2.SkipRemediationMarker
	}
	switch {
	case there && booted:
		s.ready(node, corev1.ConditionTrue)
	case !there && s.running && s.isMissed():
		s.register("host", s.machine.Spec.ProviderID)
	}
	var all v1beta2.Metal3RemediationList
	if err := s.List(s.Context(), &all); err != nil {
		s.Fatal(err)
	}
	for _, m := range all.Items {
		s.remediated[m.UID] = max(s.remediated[m.UID], m.Status.RetryCount)
	}
}

// isMissed reports whether the health check no longer counts the Machine as healthy. The simulated
// system boots for that long.
func (s *setup) isMissed() bool {
	s.Helper()
	var checks clusterv1.MachineHealthCheckList
	if err := s.List(s.Context(), &checks); err != nil {
		s.Fatal(err)
	}
	return len(checks.Items) == 1 && checks.Items[0].Status.CurrentHealthy != nil && *checks.Items[0].Status.CurrentHealthy == 0
}

// recorded is how the host operator records the value of an annotation.
func recorded(value string) string {
	if len(value) <= 256 {
		return value
	}
	digest := sha256.Sum256([]byte(value))
	return "sha256:" + hex.EncodeToString(digest[:])
}

// worker waits for the Machine of the MachineSet, and for its Node.
func (s *setup) worker() {
	s.Helper()
	s.provide("plane", "plane")
	var machines clusterv1.MachineList
	s.eventually("the MachineSet makes its Machine", func() bool {
		err := s.List(s.Context(), &machines, client.MatchingLabels{"of": "worker"})
		return err == nil && len(machines.Items) == 1
	})
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: siteNamespace, Name: "host"}}
	h.Spec.Online = true
	h.Spec.BMC = v1alpha1.BMCDetails{Address: "redfish://192.0.2.1/redfish/v1/Systems/1", CredentialsName: "bmc"}
	name := machines.Items[0].Spec.InfrastructureRef.Name
	h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3Machine", Namespace: siteNamespace, Name: name}
	s.create(h)
	s.provisioned(h, func() {
		h.Status.OperationalStatus, h.Status.PoweredOn = v1alpha1.OperationalStatusOK, true
		h.Status.Provisioning = v1alpha1.ProvisionStatus{State: v1alpha1.StateProvisioned, ID: "6f3e9b0e-2c50-4a8d-9fd2-4f0d8c5b9c11"}
	})
	s.provide(name, "host")
	m := &clusterv1.Machine{}
	s.eventually("the Machine has its Node", func() bool { return s.get(machines.Items[0].Name, m) && m.Status.NodeRef.Name == "host" })
	s.machine = m
}

// checkKept checks that the Machine is the one of before, and that nothing is left of its recovery.
func (s *setup) checkKept() {
	s.Helper()
	var machines clusterv1.MachineList
	if err := s.List(s.Context(), &machines, client.MatchingLabels{"of": "worker"}); err != nil {
		s.Fatal(err)
	}
	if len(machines.Items) != 1 || machines.Items[0].UID != s.machine.UID || !machines.Items[0].DeletionTimestamp.IsZero() {
		s.Errorf("the MachineSet has other Machines than before: %+v", machines.Items)
	}
	h := &v1alpha1.BareMetalHost{}
	if s.get("host", h); h.Annotations[v1alpha1.UnhealthyAnnotation] != "" {
		s.Errorf("the host has %v", h.Annotations)
	}
	if !s.suspended {
		s.Error("health checks were not seen suspended while the Node was gone")
	}
	s.suspended = false
}

// recovered reports whether there is another Node, the host is on, and the Machine has no
// annotations of a recovery.
func (s *setup) recovered(old types.UID) bool {
	s.Helper()
	node, m := &corev1.Node{}, &clusterv1.Machine{}
	if !s.running || !s.get("host", node) || node.UID == old || !s.get(s.machine.Name, m) {
		return false
	}
	for _, key := range []string{
		v1beta2.ExternalRemediationAnnotation, v1beta2.RequestedByAnnotation, v1beta2.RemediationStageAnnotation,
		v1beta2.RestorePendingAnnotation, clusterv1.MachineSkipRemediationAnnotation,
	} {
		if _, left := m.Annotations[key]; left {
			return false
		}
	}
	return true
}

func TestAHealthCheckRecoversAMachineByAnnotationAndReplacesNone(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	infrastructure := &v1beta2.Metal3Cluster{}
	s.get("edge", infrastructure)
	s.provisioned(infrastructure, func() { infrastructure.Status.Initialization.Provisioned = new(true) })
	s.worker()

	s.apply(fmt.Sprintf(healthCheck, "with-template", `templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: Metal3RemediationTemplate, name: edge}`))
	node := &corev1.Node{}
	s.get("host", node)
	s.ready(node, corev1.ConditionUnknown)
	s.eventually("the health check finds the Machine unhealthy and recovers it", func() bool {
		var all v1beta2.Metal3RemediationList
		err := s.List(t.Context(), &all)
		return err == nil && len(all.Items) == 0 && len(s.remediated) > 0 && s.recovered(node.UID)
	})
	if len(s.remediated) != 1 {
		t.Errorf("there were %d Metal3Remediations, want one", len(s.remediated))
	}
	for _, retries := range s.remediated {
		if retries != 0 {
			t.Errorf("there were %d retries, want none", retries)
		}
	}
	s.checkKept()

	// A health check without a template replaces each Machine whose Node is deleted, unless it is
	// suspended.
	if err := s.Delete(t.Context(), &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: siteNamespace, Name: "with-template"}}); err != nil {
		t.Fatal(err)
	}
	s.apply(fmt.Sprintf(healthCheck, "alone", `triggerIf: {unhealthyLessThanOrEqualTo: 100%}`))
	check := &clusterv1.MachineHealthCheck{}
	s.eventually("the other health check looks at the Machine", func() bool {
		return s.get("alone", check) && check.Status.CurrentHealthy != nil && *check.Status.CurrentHealthy == 1
	})
	s.get("host", node)
	s.get(s.machine.Name, s.machine)
	before := s.machine.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.machine.ObjectMeta, v1beta2.ExternalRemediationAnnotation, "")
	if err := s.Patch(t.Context(), s.machine, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	s.eventually("the Machine is recovered by hand", func() bool { return s.recovered(node.UID) })
	s.checkKept()
}
