package story

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/up"
)

// TestNamespaceGetsNoNodeOfAnother tries to delete the node of a host and to read its inventory,
// with rights in another namespace only.
func TestNamespaceGetsNoNodeOfAnother(t *testing.T) {
	t.Parallel()
	w := start(t, up.Options{Machines: 1, Seed: 14, DataDir: t.TempDir()})
	host := w.theAvailableHost(t)
	id := host.Status.Provisioning.ID
	before, err := w.engine.Node(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	mark, _ := before.Extra[metal3v1alpha1.NodeMarkKey].(string)
	if cluster, name, _ := strings.Cut(mark, "/"); len(cluster) != 36 || name != host.Namespace+"/"+host.Name {
		t.Errorf("mark %q, want the cluster's UID and %s/%s", mark, host.Namespace, host.Name)
	}
	for i, state := range []string{
		"", "importing", "match profile", "preparing", "ready", "available", "externally provisioned", "deleting",
	} {
		tenant := &metal3v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespacePublic, Name: fmt.Sprintf("tenant-%d", i),
			Annotations: map[string]string{metal3v1alpha1.StatusAnnotation: fmt.Sprintf(
				`{"operationalStatus":"OK","provisioning":{"state":%q,"ID":%q}}`, state, id)},
		}}
		if err := w.kube.Create(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		key := client.ObjectKeyFromObject(tenant)
		eventually(t, func(ctx context.Context) error {
			if err := w.kube.Get(ctx, key, tenant); err != nil {
				return err
			}
			if !strings.Contains(tenant.Status.ErrorMessage, "does not belong to this host") {
				return fmt.Errorf("in state %q the host says %q", state, tenant.Status.ErrorMessage)
			}
			return nil
		})
		data := &metal3v1alpha1.HardwareData{}
		if err := w.kube.Get(t.Context(), key, data); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("hardware data of a host in state %q: got %v, want not found", state, err)
		}
		if err := w.kube.Delete(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		w.gone(t, tenant)
	}
	after, err := w.engine.Node(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if after.ProvisionState != before.ProvisionState || after.Maintenance || after.Extra[metal3v1alpha1.NodeMarkKey] != mark {
		t.Errorf("node is %s with mark %v, want it as it was", after.ProvisionState, after.Extra)
	}
}
