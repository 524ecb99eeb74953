package manifests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/polltest"
)

// variables are those of the templates that have no default.
var variables = map[string]string{
	"CLUSTER_NAME": "edge", "KUBERNETES_VERSION": "v1.36.3", "CONTROL_PLANE_MACHINE_COUNT": "3", "WORKER_MACHINE_COUNT": "2",
	"CONTROL_PLANE_ENDPOINT_HOST": "127.0.0.1", "IMAGE_URL": "https://images.example.org/node.qcow2", "IMAGE_CHECKSUM": "https://images.example.org/sums",
}

var variable = regexp.MustCompile(`\$\{([A-Z_]+)(?::=([^}]*))?\}`)

// template reads a file that clusterctl gets, with its variables in place.
func template(t *testing.T, name, namespace string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "clusterctl", name))
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, variable.ReplaceAllFunc(text, func(match []byte) []byte {
		parts := variable.FindSubmatch(match)
		if value, there := variables[string(parts[1])]; there {
			return []byte(value)
		}
		return parts[2]
	}))
	for _, obj := range all {
		obj.SetNamespace(namespace)
	}
	return all
}

// clusterAPI is a control plane with the managers of Cluster API.
type clusterAPI struct {
	*testing.T
	client client.Client
}

// create stores objects that have no field which a schema does not know.
func (c *clusterAPI) create(all ...*unstructured.Unstructured) {
	c.Helper()
	for _, obj := range all {
		strictly := &client.CreateOptions{Raw: &metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}}
		if err := c.client.Create(c.Context(), obj, strictly); err != nil {
			c.Fatalf("create %s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
}

func (c *clusterAPI) namespace(name string) {
	c.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("v1")
	obj.SetKind("Namespace")
	obj.SetName(name)
	c.create(obj)
}

// one waits until there is one object of a kind in a namespace whose name has a prefix and which check accepts.
func (c *clusterAPI) one(apiVersion, kind, namespace, prefix string, check func(*unstructured.Unstructured) error) {
	c.Helper()
	polltest.Until(c, 3*time.Minute, fmt.Sprintf("%s %s in %s", kind, prefix, namespace), func() error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(apiVersion)
		list.SetKind(kind)
		if err := c.client.List(c.Context(), list, client.InNamespace(namespace)); err != nil {
			return err
		}
		problem := errors.New("there is none")
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].GetName(), prefix) {
				if problem = check(&list.Items[i]); problem == nil {
					return nil
				}
			}
		}
		return problem
	})
}

// fields compares fields with what they should be.
func fields(want map[string]string) func(*unstructured.Unstructured) error {
	return func(obj *unstructured.Unstructured) error {
		for path, value := range want {
			got, _, err := unstructured.NestedFieldNoCopy(obj.Object, strings.Split(path, ".")...)
			if err != nil || fmt.Sprint(got) != value {
				return fmt.Errorf("%s of %s is %v (%w), want %s", path, obj.GetName(), got, err, value)
			}
		}
		return nil
	}
}

// decode reads the object of a kind in a file that clusterctl gets.
func decode(t *testing.T, file, kind string, into any) {
	t.Helper()
	for _, obj := range template(t, file, "decoded") {
		if obj.GetKind() != kind {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
			t.Fatal(err)
		}
	}
}

// TestVariablesOfTheClusterClassHaveAnEffect looks at the paths of patches: Cluster API drops what they change elsewhere.
func TestVariablesOfTheClusterClassHaveAnEffect(t *testing.T) {
	var class clusterv1.ClusterClass
	decode(t, "clusterclass-ingot.yaml", "ClusterClass", &class)
	used := map[string]bool{}
	for _, patch := range class.Spec.Patches {
		for _, definition := range patch.Definitions {
			for _, change := range definition.JSONPatches {
				if !strings.HasPrefix(change.Path, "/spec/template/spec/") {
					t.Errorf("patch %s changes %s, which has no effect", patch.Name, change.Path)
				}
				if change.ValueFrom != nil {
					used[change.ValueFrom.Variable] = true
				}
			}
		}
	}
	if len(class.Spec.Variables) == 0 {
		t.Error("the class has no variables")
	}
	for _, v := range class.Spec.Variables {
		if !used[v.Name] {
			t.Errorf("nothing uses the variable %s", v.Name)
		}
	}
}

// TestHealthChecksActWhenOneOfTwoWorkersIsUnhealthy looks at the limits, which Cluster API rounds down.
func TestHealthChecksActWhenOneOfTwoWorkersIsUnhealthy(t *testing.T) {
	var check clusterv1.MachineHealthCheck
	decode(t, "cluster-template.yaml", "MachineHealthCheck", &check)
	var class clusterv1.ClusterClass
	decode(t, "clusterclass-ingot.yaml", "ClusterClass", &class)
	for name, limit := range map[string]*intstr.IntOrString{
		"template": check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo,
		"class":    class.Spec.Workers.MachineDeployments[0].HealthCheck.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo,
	} {
		for workers := 2; workers < 10; workers++ {
			n, err := intstr.GetScaledValueFromIntOrPercent(limit, workers, false)
			if err != nil || n < 1 || n > workers/2 {
				t.Errorf("%s: %d of %d workers may be unhealthy (%v), want one at least and half of them at most", name, n, workers, err)
			}
		}
	}
}

// TestClusterctlCanWaitForTheControllers looks for the name by which clusterctl knows the container of a provider. For others it
// does not wait.
func TestClusterctlCanWaitForTheControllers(t *testing.T) {
	found := 0
	for _, obj := range kustomized(t, "clusterctl") {
		if obj.GetKind() != "Deployment" {
			continue
		}
		found++
		containers, _, err := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
		isManager := func(c any) bool {
			fields, _ := c.(map[string]any)
			return fields["name"] == "manager"
		}
		if err != nil || !slices.ContainsFunc(containers, isManager) {
			t.Errorf("Deployment %s has no container manager (%v)", obj.GetName(), err)
		}
	}
	if found == 0 {
		t.Error("there are no Deployments")
	}
}

func TestTemplatesForClusterctlMakeClusters(t *testing.T) {
	t.Parallel()
	const core, infrastructure = "cluster.x-k8s.io/v1beta2", "infrastructure.cluster.x-k8s.io/v1beta2"
	config := controlplanetest.Start(t, controlplanetest.Options{ClusterAPI: true}).Config()
	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &clusterAPI{t, api}
	role, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", "clusterapi", "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c.create(objects(t, role)...)

	c.namespace("plain")
	c.create(template(t, "cluster-template.yaml", "plain")...)
	c.one(core, "MachineSet", "plain", "edge-workers-", fields(map[string]string{"spec.replicas": "2"})) // Machines follow the control plane

	c.namespace("class")
	c.create(template(t, "clusterclass-ingot.yaml", "class")...)
	c.one(core, "ClusterClass", "class", "ingot", func(obj *unstructured.Unstructured) error {
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, one := range conditions {
			condition, _ := one.(map[string]any)
			if condition["type"] == clusterv1.ClusterClassVariablesReadyCondition && condition["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("its variables are not ready: %v", conditions)
	})
	topology := template(t, "cluster-template-topology.yaml", "class")
	for _, obj := range topology {
		if obj.GetKind() != "Cluster" {
			continue
		}
		set, _, err := unstructured.NestedSlice(obj.Object, "spec", "topology", "variables")
		set = append(set, map[string]any{"name": "controlPlaneCleaningMode", "value": "disabled"})
		if err = errors.Join(err, unstructured.SetNestedSlice(obj.Object, set, "spec", "topology", "variables")); err != nil {
			t.Fatal(err)
		}
	}
	c.create(topology...)
	c.one(infrastructure, "Metal3Cluster", "class", "edge-", fields(map[string]string{
		"spec.controlPlaneEndpoint.host": "127.0.0.1", "spec.controlPlaneEndpoint.port": "6443",
	}))
	machines := map[string]string{
		"spec.template.spec.image.url": "https://images.example.org/node.qcow2", "spec.template.spec.image.checksumType": "sha256",
		"spec.template.spec.dataTemplate.name": "edge",
	}
	of := func(more map[string]string) func(*unstructured.Unstructured) error {
		return func(obj *unstructured.Unstructured) error {
			if err := fields(machines)(obj); err != nil {
				return err
			}
			return fields(more)(obj)
		}
	}
	c.one(infrastructure, "Metal3MachineTemplate", "class", "edge-", of(map[string]string{
		"spec.template.spec.hostSelector.matchLabels": "map[pool:control-plane]", "spec.nodeReuse": "false",
		"spec.template.spec.automatedCleaningMode": "disabled",
	}))
	c.one(infrastructure, "Metal3MachineTemplate", "class", "edge-workers-", of(map[string]string{
		"spec.template.spec.hostSelector.matchLabels": "map[pool:workers]", "spec.nodeReuse": "true",
		"spec.template.spec.automatedCleaningMode": "disabled",
	}))
	c.one("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", "class", "edge-", fields(map[string]string{
		"spec.replicas": "3", "spec.rollout.strategy.rollingUpdate.maxSurge": "1",
	}))
}
