package operator_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// newTenant returns a bench and, under the same operator, a second namespace.
func newTenant(t *testing.T) (owner, tenant *bench) {
	t.Helper()
	var namespace string
	owner = newBench(t, func(o *operator.Options) {
		namespace = o.Namespaces[0] + "-tenant"
		o.Namespaces = append(o.Namespaces, namespace)
	})
	owner.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	return owner, &bench{TB: t, client: owner.client, engine: owner.engine, namespace: namespace}
}

// node reads a node and fails the test if it does not exist.
func (b *bench) node(id string) provisioner.Node {
	b.Helper()
	n, err := b.engine.Node(b.Context(), id)
	if err != nil {
		b.Fatalf("node of somebody else: %v", err)
	}
	n.Agent, n.UpdatedAt = provisioner.Agent{}, n.CreatedAt
	return n
}

// restored creates a host with a status annotation that names a node.
func (b *bench) restored(name, id string, state v1alpha1.ProvisioningState, change func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	b.Helper()
	status, err := json.Marshal(map[string]any{"operationalStatus": "OK", "provisioning": map[string]any{"state": state, "ID": id}})
	if err != nil {
		b.Fatal(err)
	}
	return b.plainHost(name, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.StatusAnnotation: string(status)}
		if change != nil {
			change(h)
		}
	})
}

// isRefused waits until the host says that the node in its annotation belongs to somebody else.
func (b *bench) isRefused(name, id string) {
	b.Helper()
	b.eventually("refusal of node "+id+" for host "+name, func() string {
		h := b.host(name)
		if h.Status.ErrorType != v1alpha1.ErrorRegistration || !strings.Contains(h.Status.ErrorMessage, id) ||
			!strings.Contains(h.Status.ErrorMessage, "does not belong to this host") {
			return string(h.Status.ErrorType) + " " + h.Status.ErrorMessage
		}
		if h.Status.Provisioning.ID != "" {
			b.Fatalf("host has node %s in state %q", h.Status.Provisioning.ID, h.Status.Provisioning.State)
		}
		return ""
	})
}

// hasNoHardwareData fails if the host has HardwareData.
func (b *bench) hasNoHardwareData(name string) {
	b.Helper()
	err := b.client.Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, &v1alpha1.HardwareData{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		b.Errorf("hardware data of %s: got %v, want not found", name, err)
	}
}

// cluster returns the identity of the test's cluster in marks.
func (b *bench) cluster() string {
	b.Helper()
	var ns corev1.Namespace
	if err := b.client.Get(b.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, &ns); err != nil {
		b.Fatal(err)
	}
	return string(ns.UID)
}

// everyState are the states that a status annotation can name.
var everyState = []v1alpha1.ProvisioningState{
	v1alpha1.StateNone, v1alpha1.StateUnmanaged, v1alpha1.StateImporting, v1alpha1.StateRegistering,
	v1alpha1.StateMatchProfile, v1alpha1.StateInspecting, v1alpha1.StatePreparing, v1alpha1.StateReady,
	v1alpha1.StateAvailable, v1alpha1.StateProvisioning, v1alpha1.StateProvisioned,
	v1alpha1.StateExternallyProvisioned, v1alpha1.StateDeprovisioning, v1alpha1.StatePoweringOffBeforeDelete,
	v1alpha1.StateDeleting,
}

func stateName(state v1alpha1.ProvisioningState) string {
	if state == v1alpha1.StateNone {
		return "none"
	}
	return strings.ReplaceAll(string(state), " ", "-")
}

// victims returns nodes that belong to somebody: one to another host, the others to clients of the
// engine that know nothing of hosts.
func (b *bench) victims() map[string]string {
	b.Helper()
	ids := map[string]string{"of-host": b.boot("victim")}
	b.restored("victim", ids["of-host"], v1alpha1.StateNone, nil)
	b.inState("victim", v1alpha1.StateAvailable)
	for what, change := range map[string]func(*provisioner.Node){
		"named": func(n *provisioner.Node) { n.Name, n.State = "db-1", node.Active },
		"owned": func(n *provisioner.Node) { n.Owner = "team-a" },
		"marked": func(n *provisioner.Node) {
			n.Mark = provisioner.MarkOf("other-cluster", b.namespace+"-tenant", "thief")
		},
	} {
		ids[what] = b.engine.Discover(demo.Machine{Inventory: demo.SampleInventory(what), Change: change})
	}
	return ids
}

func TestStatusAnnotationGivesNobodyTheNodeOfSomebodyElse(t *testing.T) {
	t.Parallel()
	owner, tenant := newTenant(t)
	for what, id := range owner.victims() {
		before := owner.node(id)
		var hosts []*v1alpha1.BareMetalHost
		for _, state := range everyState {
			hosts = append(hosts, tenant.restored(what+"-"+stateName(state), id, state, nil))
		}
		for _, h := range hosts {
			tenant.isRefused(h.Name, id)
			tenant.hasNoHardwareData(h.Name)
			tenant.hasEvent(h.Name, "RegistrationError")
			tenant.remove(h)
		}
		for _, h := range hosts {
			tenant.gone(h.Name)
		}
		if after := owner.node(id); after != before {
			t.Errorf("node %s was %+v and is %+v", what, before, after)
		}
	}
	owner.inState("victim", v1alpha1.StateAvailable)
}

func TestHostDeletedBeforeItsAnnotationWasReadDeletesNobodysNode(t *testing.T) {
	t.Parallel()
	owner, tenant := newTenant(t)
	for what, id := range owner.victims() {
		before := owner.node(id)
		var hosts []*v1alpha1.BareMetalHost
		for _, state := range everyState {
			h := tenant.restored(what+"-"+stateName(state), id, state, func(h *v1alpha1.BareMetalHost) {
				h.Finalizers = []string{v1alpha1.HostFinalizer}
				h.Annotations[v1alpha1.PausedAnnotation] = ""
			})
			tenant.remove(h)
			tenant.update(h, func() { delete(h.Annotations, v1alpha1.PausedAnnotation) })
			hosts = append(hosts, h)
		}
		for _, h := range hosts {
			tenant.gone(h.Name)
			tenant.hasEvent(h.Name, "NodeKept")
		}
		if after := owner.node(id); after != before {
			t.Errorf("node %s was %+v and is %+v", what, before, after)
		}
	}
}

func TestNodeNamedInAnAnnotationByItsNameDoesNotCount(t *testing.T) {
	t.Parallel()
	owner, tenant := newTenant(t)
	id := owner.victims()["named"]
	h := tenant.restored("by-name", "db-1", v1alpha1.StateDeleting, nil)
	tenant.isRefused(h.Name, "db-1")
	tenant.remove(h)
	tenant.gone(h.Name)
	owner.node(id)
}

func TestOlderHostDoesNotTakeAMarkedNode(t *testing.T) {
	t.Parallel()
	owner, tenant := newTenant(t)
	id := owner.boot("victim")
	older := tenant.restored("older", id, v1alpha1.StateAvailable, func(h *v1alpha1.BareMetalHost) {
		h.Annotations[v1alpha1.PausedAnnotation] = ""
	})
	owner.restored("victim", id, v1alpha1.StateNone, nil)
	owner.inState("victim", v1alpha1.StateAvailable)
	tenant.update(older, func() { delete(older.Annotations, v1alpha1.PausedAnnotation) })
	tenant.isRefused("older", id)
	if h := owner.inState("victim", v1alpha1.StateAvailable); h.Status.Provisioning.ID != id {
		t.Errorf("host has node %q, want %q", h.Status.Provisioning.ID, id)
	}
}

func TestImportedNodeCarriesTheMarkOfItsHost(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.boot("marked")
	b.restored("marked", id, v1alpha1.StateNone, nil)
	b.inState("marked", v1alpha1.StateAvailable)
	if got, want := b.node(id).Mark, provisioner.MarkOf(b.cluster(), b.namespace, "marked"); got != want {
		t.Errorf("mark = %q, want %q", got, want)
	}
}

func TestHostThatWasRestoredFromABackupGetsItsNodeBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.boot("backup")
	b.engine.Change(id, func(n *provisioner.Node) {
		n.Mark, n.State = provisioner.MarkOf(b.cluster(), b.namespace, "backup"), node.CleanFailed
	})
	b.restored("backup", id, v1alpha1.StateAvailable, nil)
	if h := b.inState("backup", v1alpha1.StatePreparing); h.Status.Provisioning.ID != id {
		t.Errorf("host has node %q, want %q", h.Status.Provisioning.ID, id)
	}
}

func TestHostWhoseMarkWasReplacedGivesItsNodeUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.boot("lost")
	h := b.restored("lost", id, v1alpha1.StateNone, nil)
	b.inState("lost", v1alpha1.StateAvailable)
	other := provisioner.MarkOf("other-cluster", b.namespace, "lost")
	b.engine.Change(id, func(n *provisioner.Node) { n.Mark = other })
	b.inState("lost", v1alpha1.StateUnmanaged)
	b.hasEvent("lost", "ImportConflict")
	b.remove(h)
	b.gone("lost")
	if got := b.node(id).Mark; got != other {
		t.Errorf("mark = %q, want the other one", got)
	}
}

func TestDeletionReadsTheMarkBeforeItDeletesTheNode(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.boot("late")
	h := b.restored("late", id, v1alpha1.StateNone, nil)
	b.inState("late", v1alpha1.StateAvailable)
	b.update(h, func() { h.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""} })
	b.remove(h)
	b.engine.Change(id, func(n *provisioner.Node) { n.Mark = "other-cluster/metal/late" })
	b.update(h, func() { delete(h.Annotations, v1alpha1.PausedAnnotation) })
	b.gone("late")
	b.hasEvent("late", "NodeKept")
	b.node(id)
}

func TestAnnotationWaitsForAnEngineThatIsDown(t *testing.T) {
	t.Parallel()
	owner, tenant := newTenant(t)
	id := owner.victims()["of-host"]
	own := tenant.boot("own")
	owner.engine.SetDown("no route to host")
	tenant.restored("thief", id, v1alpha1.StateDeleting, nil)
	tenant.restored("honest", own, v1alpha1.StateAvailable, nil)
	for _, name := range []string{"thief", "honest"} {
		tenant.hasCondition(name, v1alpha1.ManageableCondition, metav1.ConditionUnknown, v1alpha1.EngineUnreachableReason)
		if h := tenant.host(name); h.Status.Provisioning.ID != "" || h.Annotations[v1alpha1.StatusAnnotation] == "" {
			t.Errorf("host %s has node %q and annotations %v before the engine was asked", name, h.Status.Provisioning.ID, h.Annotations)
		}
	}
	owner.engine.SetDown("")
	tenant.isRefused("thief", id)
	if h := tenant.inState("honest", v1alpha1.StateAvailable); h.Status.Provisioning.ID != own {
		t.Errorf("host has node %q, want %q", h.Status.Provisioning.ID, own)
	}
}
