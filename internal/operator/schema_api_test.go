package operator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// TestSchemaKeepsEveryKey stores the manifests that use every key of the wire
// format: what the schema does not know would be dropped.
func TestSchemaKeepsEveryKey(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, file := range []string{"baremetalhost.yaml", "hardwaredata.yaml"} {
		want := b.decode("../../api/metal3/v1alpha1/testdata/" + file)[0]
		want.SetNamespace(b.namespace)
		want.SetAnnotations(map[string]string{v1alpha1.PausedAnnotation: ""})
		got := want.DeepCopy()
		b.create(got)
		if status, there := want.Object["status"]; there {
			got.Object["status"] = status
			if err := b.client.Status().Update(t.Context(), got); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"spec", "status"} {
			if diff := cmp.Diff(want.Object[part], got.Object[part]); diff != "" {
				t.Errorf("%s of %s differs (-want +got):\n%s", part, file, diff)
			}
		}
	}
}
