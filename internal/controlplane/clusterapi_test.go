package controlplane

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// infrastructureCRDs are kinds of the infrastructure contract whose provider is the test.
func infrastructureCRDs() fstest.MapFS {
	files := fstest.MapFS{}
	for _, kind := range []string{"TestCluster", "TestMachine", "TestMachineTemplate"} {
		plural := strings.ToLower(kind) + "s"
		files[plural+".yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[2]s.infrastructure.cluster.x-k8s.io
  labels: {cluster.x-k8s.io/v1beta2: v1}
spec:
  group: infrastructure.cluster.x-k8s.io
  scope: Namespaced
  names: {kind: %[1]s, plural: %[2]s}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
`, kind, plural)}
	}
	return files
}

// oneCluster is a cluster with a control plane machine and a worker.
const oneCluster = `
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: TestMachineTemplate
metadata: {name: one}
spec: {template: {spec: {size: 3}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: one}
spec: {template: {spec: {preKubeadmCommands: [echo worker]}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: one}
spec:
  replicas: 1
  version: v1.36.3
  machineTemplate:
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: TestMachineTemplate, name: one}
  kubeadmConfigSpec: {preKubeadmCommands: [echo first]}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: TestCluster
metadata: {name: one}
spec: {controlPlaneEndpoint: {host: 127.0.0.1, port: 1}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: one}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: TestCluster, name: one}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: one}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: one
  # Workers would not be made before the control plane is up.
  annotations: {machineset.cluster.x-k8s.io/skip-preflight-checks: All}
spec:
  clusterName: one
  replicas: 1
  template:
    spec:
      clusterName: one
      version: v1.36.3
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: one}}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: TestMachineTemplate, name: one}
`

// refused are objects that each of the managers refuses in its webhook, with what it says.
var refused = map[string]string{
	`{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: bad}, spec: {paused: true}}`: `"validation.cluster.cluster.x-k8s.io" denied`,

	`{apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfig, metadata: {name: bad},
		spec: {files: [{path: /a, content: a}, {path: /a, content: b}]}}`: `"validation.kubeadmconfig.bootstrap.cluster.x-k8s.io" denied`,

	`{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, metadata: {name: bad},
		spec: {replicas: 2, version: v1.36.3, kubeadmConfigSpec: {preKubeadmCommands: [a]}, machineTemplate: {spec: {
		infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: TestMachineTemplate, name: one}}}}}`: `"validation.kubeadmcontrolplane.controlplane.cluster.x-k8s.io" denied`,
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	o.SetNamespace("default")
	return o
}

// all are the objects of a kind that the cluster has.
func all(t *testing.T, api client.Client, gvk schema.GroupVersionKind) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	if err := api.List(t.Context(), list, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// conditions are the status of each condition of an object.
func conditions(o *unstructured.Unstructured) map[string]string {
	found := map[string]string{}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		if cond, ok := item.(map[string]any); ok {
			found[fmt.Sprint(cond["type"])] = fmt.Sprint(cond["status"])
		}
	}
	return found
}

func TestClusterAPIMakesTheMachinesOfAClusterAndContinuesAfterARestart(t *testing.T) {
	dir := t.TempDir()
	began := time.Now()
	c := start(t, Options{DataDir: dir, ClusterAPI: true})
	running := true
	t.Cleanup(func() {
		if running {
			stop(t, c)
		}
		if t.Failed() {
			c.ShowLogs(t.Logf)
		}
	})
	t.Logf("started after %s", time.Since(began).Round(100*time.Millisecond))
	if err := InstallCRDs(t.Context(), c.Config(), infrastructureCRDs()); err != nil {
		t.Fatal(err)
	}
	api := newClient(t, c.Config())
	checkWebhooks(t, api)
	for text := range strings.SplitSeq(oneCluster, "\n---\n") {
		if err := api.Create(t.Context(), object(t, text)); err != nil {
			t.Fatalf("create %s: %v", text, err)
		}
	}

	poll(t, "the infrastructure to be handed to its cluster", func() bool {
		for _, infrastructure := range all(t, api, infrastructureKind("TestCluster")) {
			if len(infrastructure.GetOwnerReferences()) > 0 {
				provisioned := client.RawPatch(client.Merge.Type(), []byte(`{"status":{"initialization":{"provisioned":true}}}`))
				return api.Status().Patch(t.Context(), &infrastructure, provisioned) == nil
			}
		}
		return false
	})
	checkMachines(t, api, 2)
	poll(t, "the data that the first machine boots with", func() bool {
		for _, config := range all(t, api, kubeadmConfigKind) {
			if secret, _, _ := unstructured.NestedString(config.Object, "status", "dataSecretName"); secret != "" {
				return true
			}
		}
		return false
	})
	poll(t, "the conditions of the cluster", func() bool {
		cluster := all(t, api, clusterKind)[0]
		got := conditions(&cluster)
		return got["InfrastructureReady"] == "True" && got["ControlPlaneInitialized"] == "False" && got["Available"] == "False"
	})
	checkRights(t, c)
	checkConversion(t, api)

	began, running = time.Now(), false
	stop(t, c)
	t.Logf("stopped after %s", time.Since(began).Round(100*time.Millisecond))
	began = time.Now()
	c = start(t, Options{DataDir: dir, ClusterAPI: true})
	running = true
	t.Logf("started again after %s", time.Since(began).Round(100*time.Millisecond))
	api = newClient(t, c.Config())
	checkWebhooks(t, api)
	checkConversion(t, api)
	deployment := all(t, api, coreKind("MachineDeployment"))[0]
	if err := api.Patch(t.Context(), &deployment, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"replicas":2}}`))); err != nil {
		t.Fatal(err)
	}
	checkMachines(t, api, 3)
}

var (
	clusterKind       = coreKind("Cluster")
	kubeadmConfigKind = schema.GroupVersionKind{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmConfig"}
)

func coreKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: kind}
}

func infrastructureKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: kind}
}

// checkMachines waits until there are n machines, each with a bootstrap configuration and a
// machine of the infrastructure.
func checkMachines(t *testing.T, api client.Client, n int) {
	t.Helper()
	for _, kind := range []schema.GroupVersionKind{coreKind("Machine"), kubeadmConfigKind, infrastructureKind("TestMachine")} {
		poll(t, fmt.Sprintf("%d objects of kind %s", n, kind.Kind), func() bool { return len(all(t, api, kind)) == n })
	}
	for _, machine := range all(t, api, infrastructureKind("TestMachine")) {
		if size, _, _ := unstructured.NestedInt64(machine.Object, "spec", "size"); size != 3 {
			t.Errorf("%s has size %d, want that of its template", machine.GetName(), size)
		}
	}
}

// checkWebhooks fails the test unless the webhooks of all managers are asked.
func checkWebhooks(t *testing.T, api client.Client) {
	t.Helper()
	for text, want := range refused {
		if err := api.Create(t.Context(), object(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("create %s:\nerror = %v, want one with %q", text, err, want)
		}
	}
}

// checkConversion fails the test unless an object of each manager is read in the version that
// is not stored.
func checkConversion(t *testing.T, api client.Client) {
	t.Helper()
	for _, kind := range []schema.GroupVersionKind{
		clusterKind, kubeadmConfigKind,
		{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"},
	} {
		kind.Version = "v1beta1"
		if len(all(t, api, kind)) == 0 {
			t.Errorf("there is no %s", kind)
		}
	}
}

// checkRights fails the test unless the managers have the rights that their release gives
// them, and no others.
func checkRights(t *testing.T, c *ControlPlane) {
	t.Helper()
	for _, tc := range []struct {
		manager, group, resource string
		want                     bool
	}{
		{clusterAPIManagers[0], "infrastructure.cluster.x-k8s.io", "testmachines", true},
		{clusterAPIManagers[0], "metal3.io", "baremetalhosts", false},
		{clusterAPIManagers[1], "bootstrap.cluster.x-k8s.io", "kubeadmconfigs", true},
		{clusterAPIManagers[1], "infrastructure.cluster.x-k8s.io", "testmachines", false},
		{clusterAPIManagers[2], "infrastructure.cluster.x-k8s.io", "testmachines", true},
		{clusterAPIManagers[2], "cluster.x-k8s.io", "machinedeployments", false},
	} {
		config, err := clientcmd.BuildConfigFromFlags("", c.dir.pki(tc.manager+".config"))
		if err != nil {
			t.Fatal(err)
		}
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: "default", Verb: "patch", Group: tc.group, Resource: tc.resource,
			},
		}}
		if err := newClient(t, config).Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != tc.want {
			t.Errorf("%s may patch %s: %t, want %t", tc.manager, tc.resource, review.Status.Allowed, tc.want)
		}
	}
}
