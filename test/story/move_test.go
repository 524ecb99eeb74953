package story

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
)

// deploys takes a new host to provisioned.
func (m *managed) deploys(t *testing.T) *metal3v1alpha1.BareMetalHost {
	t.Helper()
	m.register(t, "redfish")
	m.inState(t, metal3v1alpha1.StateAvailable)
	m.deploysImage(t)
	m.runsSystem(t)
	return m.awaitProvisioned(t)
}

// awaitProvisioned waits until a host in use is as it should be.
func (m *managed) awaitProvisioned(t *testing.T) *metal3v1alpha1.BareMetalHost {
	t.Helper()
	return m.shows(t, "provisioned and powered on without an error", func(h *metal3v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3v1alpha1.StateProvisioned && h.Status.ErrorType == "" && h.Status.PoweredOn &&
			h.Status.Provisioning.ID != "" && h.Status.OperationalStatus == metal3v1alpha1.OperationalStatusOK
	})
}

// copyTo creates the host and its Secret in another cluster, as clusterctl move does.
func (m *managed) copyTo(t *testing.T, to *managed, change func(*metal3v1alpha1.BareMetalHost)) {
	t.Helper()
	var h metal3v1alpha1.BareMetalHost
	var secret corev1.Secret
	for key, obj := range map[client.ObjectKey]client.Object{m.host: &h, {Namespace: m.host.Namespace, Name: "web-bmc"}: &secret} {
		if err := m.kube.Get(t.Context(), key, obj); err != nil {
			t.Fatal(err)
		}
		obj.SetResourceVersion("")
		obj.SetUID("")
		obj.SetOwnerReferences(nil)
		obj.SetManagedFields(nil)
	}
	change(&h)
	for _, obj := range []client.Object{&secret, &h} {
		if err := to.kube.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// vanishes deletes the host without its finalizers, as clusterctl move does.
func (m *managed) vanishes(t *testing.T) {
	t.Helper()
	m.change(t, func(h *metal3v1alpha1.BareMetalHost) { h.Finalizers = nil })
	if err := m.kube.Delete(t.Context(), &metal3v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: m.host.Namespace, Name: m.host.Name}}); err != nil {
		t.Fatal(err)
	}
}

func statusOf(t *testing.T, h *metal3v1alpha1.BareMetalHost) string {
	t.Helper()
	text, err := json.Marshal(h.Status)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestHostMovesBetweenClustersOfOneEngineAsItIs moves a host in use to another API server, as
// clusterctl move does, while its operator continues. At no time do both operators use the machine.
func TestHostMovesBetweenClustersOfOneEngineAsItIs(t *testing.T) {
	t.Parallel()
	r, _ := startBootService(t, redfish.Vendors[0])
	from := startHost(t, r)
	to := from.startHostElsewhere(t)
	before := from.deploys(t)
	done, boots := r.effects("0"), r.Machine(0).Status().Boots

	// The same machine in the other cluster, without a move.
	to.register(t, "redfish")
	to.shows(t, "refused", func(h *metal3v1alpha1.BareMetalHost) bool {
		return h.Status.ErrorType == metal3v1alpha1.ErrorRegistration
	})
	to.isDeleted(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: to.host.Namespace, Name: "web-bmc"}}
	if err := to.kube.Delete(t.Context(), secret); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	from.awaitProvisioned(t)

	status := statusOf(t, before)
	from.change(t, func(h *metal3v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{
			metal3v1alpha1.PausedAnnotation: metal3v1alpha1.PausedByClusterAPI, metal3v1alpha1.StatusAnnotation: status,
		}
	})
	from.copyTo(t, to, func(h *metal3v1alpha1.BareMetalHost) { delete(h.Annotations, metal3v1alpha1.PausedAnnotation) })
	after := to.awaitProvisioned(t)
	from.change(t, func(h *metal3v1alpha1.BareMetalHost) { h.Annotations = nil }) // cancels the move too late
	from.shows(t, "without the node", func(h *metal3v1alpha1.BareMetalHost) bool { return h.Status.ErrorType != "" })
	from.vanishes(t)
	if after.Status.Provisioning.ID != before.Status.Provisioning.ID {
		t.Errorf("host has node %s, want %s", after.Status.Provisioning.ID, before.Status.Provisioning.ID)
	}
	if nodes, err := allNodes(t.Context(), r.engine, ironic.NodeQuery{}); err != nil || len(nodes) != 1 || nodes[0].ProvisionState != "active" {
		t.Errorf("nodes = %+v, %v; want the active one", nodes, err)
	}
	if got := r.effects("0"); !slices.Equal(got, done) || r.Machine(0).Status().Boots != boots {
		t.Errorf("done to the machine: %q, want %q as before the move", got, done)
	}
	to.heldOffByTwo(t)
	to.awaitProvisioned(t)
	to.runsSystem(t)
}

// TestDetachedHostMovesToAnotherClusterAsItIs moves a host by detaching it first, which also
// works between two engines.
func TestDetachedHostMovesToAnotherClusterAsItIs(t *testing.T) {
	t.Parallel()
	r, _ := startBootService(t, redfish.Vendors[0])
	from := startHost(t, r)
	to := from.startHostElsewhere(t)
	from.deploys(t)
	done, boots := r.effects("0"), r.Machine(0).Status().Boots
	from.change(t, func(h *metal3v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{metal3v1alpha1.DetachedAnnotation: ""}
	})
	h := from.shows(t, "detached", func(h *metal3v1alpha1.BareMetalHost) bool {
		return h.Status.OperationalStatus == metal3v1alpha1.OperationalStatusDetached && h.Status.Provisioning.ID == ""
	})
	from.copyTo(t, to, func(copied *metal3v1alpha1.BareMetalHost) {
		copied.Annotations = map[string]string{metal3v1alpha1.StatusAnnotation: statusOf(t, h)}
	})
	to.awaitProvisioned(t)
	from.vanishes(t)
	if got := r.effects("0"); !slices.Equal(got, done) || r.Machine(0).Status().Boots != boots {
		t.Errorf("done to the machine: %q, want %q as before the move", got, done)
	}
}
