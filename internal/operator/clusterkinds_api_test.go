package operator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta1"
	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/webhook/conversion"
)

// strictly makes the API server refuse fields that a schema does not have.
var strictly = &client.CreateOptions{Raw: &metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}}

// in reads an object in the given API version.
func (b *bench) in(version schema.GroupVersion, obj *unstructured.Unstructured) *unstructured.Unstructured {
	b.Helper()
	read := &unstructured.Unstructured{}
	read.SetGroupVersionKind(version.WithKind(obj.GetKind()))
	what := fmt.Sprintf("%s %s read in %s", obj.GetKind(), obj.GetName(), version)
	b.eventually(what, func() string { // until the API server knows the certificate
		if err := b.client.Get(b.Context(), client.ObjectKeyFromObject(obj), read); err != nil {
			return err.Error()
		}
		return ""
	})
	return read
}

// has reports whether all contains everything of some. all may contain more, such as defaults.
func has(all, some any) bool {
	switch some := some.(type) {
	case map[string]any:
		others, _ := all.(map[string]any)
		for key, value := range some {
			if !has(others[key], value) {
				return false
			}
		}
		return true
	case []any:
		others, _ := all.([]any)
		return slices.EqualFunc(others, some, has)
	default:
		return all == some
	}
}

func TestObjectsOfTheOlderVersionAreReadInBoth(t *testing.T) {
	t.Parallel()
	b, start := webhookBench(t)
	start(func(*operator.Options) {})
	written := b.decode("testdata/cluster_v1beta1.yaml")
	if len(written) != 9 {
		t.Errorf("%d objects, want one of each kind", len(written))
	}
	for _, obj := range written {
		obj.SetNamespace(b.namespace)
		b.eventually("creation of a "+obj.GetKind(), func() string { // until the API server knows the certificate
			if err := b.client.Create(t.Context(), obj.DeepCopy(), strictly); err != nil {
				return err.Error()
			}
			return ""
		})
		old, hub := b.in(v1beta1.GroupVersion, obj), b.in(v1beta2.GroupVersion, obj)
		if !has(old.Object["spec"], obj.Object["spec"]) {
			t.Errorf("%s changed (-written +read):\n%s", obj.GetKind(), cmp.Diff(obj.Object["spec"], old.Object["spec"]))
		}
		want, err := conversion.Convert(old.DeepCopy(), v1beta2.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		if !has(hub.Object["spec"], want.Object["spec"]) {
			t.Errorf("%s in v1beta2 (-want +got):\n%s", obj.GetKind(), cmp.Diff(want.Object["spec"], hub.Object["spec"]))
		}
	}
	t.Run("status that is written in the newer version", func(t *testing.T) {
		const status = `{"status": {"initialization": {"provisioned": true}, "failureDomain": "row-a",
			"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}}`
		hub := b.object("Metal3Machine", "edge-0", "{}")
		hub.SetGroupVersionKind(v1beta2.GroupVersion.WithKind("Metal3Machine"))
		if err := b.client.Status().Patch(t.Context(), hub, client.RawPatch(types.MergePatchType, []byte(status))); err != nil {
			t.Fatal(err)
		}
		old := b.in(v1beta1.GroupVersion, hub)
		ready, _, _ := unstructured.NestedBool(old.Object, "status", "ready")
		conditions, _, _ := unstructured.NestedSlice(old.Object, "status", "v1beta2", "conditions")
		kind, _, _ := unstructured.NestedString(old.Object, "spec", "dataTemplate", "kind")
		if !ready || len(conditions) != 1 || kind != "Metal3DataTemplate" {
			t.Errorf("ready %v, conditions %v, kind of the data template %q", ready, conditions, kind)
		}
		// A client of the older version writes the object back with a change of its own.
		_ = unstructured.SetNestedField(old.Object, "disabled", "spec", "automatedCleaningMode")
		if err := b.client.Update(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		hub = b.in(v1beta2.GroupVersion, hub)
		domain, _, _ := unstructured.NestedString(hub.Object, "status", "failureDomain")
		mode, _, _ := unstructured.NestedString(hub.Object, "spec", "automatedCleaningMode")
		if domain != "row-a" || mode != "disabled" {
			t.Errorf("failure domain %q, cleaning %q", domain, mode)
		}
	})
	t.Run("machines without anything to deploy", func(t *testing.T) {
		for _, version := range []schema.GroupVersion{v1beta1.GroupVersion, v1beta2.GroupVersion} {
			m := b.object("Metal3Machine", "empty", "spec: {}")
			m.SetGroupVersionKind(version.WithKind("Metal3Machine"))
			if err := b.client.Create(t.Context(), m); err == nil || !strings.Contains(err.Error(), "set image or customDeploy") {
				t.Errorf("%s: %v, want it refused", version, err)
			}
		}
	})
	t.Run("contradiction of the two names of a setting", func(t *testing.T) {
		c := b.in(v1beta1.GroupVersion, written[0])
		_ = unstructured.SetNestedField(c.Object, true, "spec", "cloudProviderEnabled")
		_ = unstructured.SetNestedField(c.Object, true, "spec", "noCloudProvider")
		if err := b.client.Update(t.Context(), c); err == nil || !strings.Contains(err.Error(), "noCloudProvider contradicts") {
			t.Errorf("update: %v, want it refused", err)
		}
	})
	b.stop()
}

// TestObjectsThatAreStoredInTheOlderVersionAreReadInTheNewer begins with a definition that stores
// the older version, as clusters of earlier years have it.
func TestObjectsThatAreStoredInTheOlderVersionAreReadInTheNewer(t *testing.T) {
	t.Parallel()
	b, start := webhookBench(t)
	start(func(*operator.Options) {})
	crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
	crd.SetName("metal3remediations.infrastructure.cluster.x-k8s.io")
	stores := func(older, newer bool) {
		patch := fmt.Appendf(nil, `[{"op": "replace", "path": "/spec/versions/0/storage", "value": %v}, {"op": "replace", "path": "/spec/versions/1/storage", "value": %v}]`, older, newer)
		if err := b.client.Patch(t.Context(), crd, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			t.Fatal(err)
		}
	}
	stores(true, false)
	obj := b.object("Metal3Remediation", "stored", `spec: {strategy: {type: Reboot, timeout: 1m40.5s}}`)
	obj.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(obj.GetKind()))
	b.create(obj)
	stores(false, true)
	var hub *unstructured.Unstructured
	b.eventually("a timeout in seconds", func() string {
		hub = b.in(v1beta2.GroupVersion, obj)
		if seconds, _, _ := unstructured.NestedInt64(hub.Object, "spec", "strategy", "timeoutSeconds"); seconds != 101 {
			return fmt.Sprintf("spec %v", hub.Object["spec"])
		}
		return ""
	})
	_ = unstructured.SetNestedField(hub.Object, int64(3), "spec", "strategy", "retryLimit")
	if err := b.client.Update(t.Context(), hub); err != nil { // stores it in the newer version
		t.Fatal(err)
	}
	strategy, _, _ := unstructured.NestedMap(b.in(v1beta1.GroupVersion, obj).Object, "spec", "strategy")
	if want := map[string]any{"type": "Reboot", "timeout": "1m40.5s", "retryLimit": int64(3)}; !cmp.Equal(want, strategy) {
		t.Errorf("strategy %v, want %v", strategy, want)
	}
	b.stop()
}

// TestApplyingTheSameAgainChangesNothing checks a property that Cluster API relies on when it finds
// out, with a dry run, whether templates changed.
func TestApplyingTheSameAgainChangesNothing(t *testing.T) {
	t.Parallel()
	b, start := webhookBench(t)
	start(func(*operator.Options) {})
	for _, file := range []string{"testdata/cluster_v1beta1.yaml", "../../config/samples/cluster.yaml"} {
		for _, obj := range b.decode(file) {
			obj.SetNamespace(b.namespace)
			obj.SetName(strings.ReplaceAll(strings.ToLower(obj.GroupVersionKind().Version+"-"+obj.GetName()), "/", "-"))
			owner := client.FieldOwner("capi-topology")
			b.eventually("application of a "+obj.GetKind(), func() string {
				if err := b.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj.DeepCopy()), owner, client.ForceOwnership); err != nil {
					return err.Error()
				}
				return ""
			})
			version := obj.GroupVersionKind().GroupVersion()
			stored := b.in(version, obj)
			tried := obj.DeepCopy()
			if err := b.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(tried), owner, client.ForceOwnership, client.DryRunAll); err != nil {
				t.Errorf("%s: %v", obj.GetKind(), err)
				continue
			}
			for _, o := range []*unstructured.Unstructured{stored, tried} {
				o.SetManagedFields(nil)
			}
			if diff := cmp.Diff(stored.Object, tried.Object); diff != "" {
				t.Errorf("%s %s (-stored +tried):\n%s", version, obj.GetKind(), diff)
			}
		}
	}
	b.stop()
}
