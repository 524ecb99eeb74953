package operator_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// movedStatus returns the status annotation of a provisioned host on that node.
func (b *bench) movedStatus(id string) string {
	b.Helper()
	status, err := json.Marshal(map[string]any{
		"operationalStatus": "OK", "poweredOn": true, "hardwareProfile": "unknown", "futureField": 1,
		"provisioning": map[string]any{"state": "provisioned", "ID": id, "image": map[string]any{"url": "https://images/os.qcow2"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return string(status)
}

// elsewhere creates a node in use that belongs to the host of that name in another cluster.
func (b *bench) elsewhere(name string) string {
	b.Helper()
	return b.engine.Discover(demo.Machine{Inventory: demo.SampleInventory(name), Change: func(n *provisioner.Node) {
		n.Name, n.Mark = provisioner.NodeName(b.namespace, name), provisioner.MarkOf("former-cluster", b.namespace, name)
		n.State, n.Driver, n.InstanceID, n.Power = node.Active, "redfish", "i1", node.PowerOn
	}})
}

// arrives creates a host and its Secret, as tools do that move objects between clusters.
func (b *bench) arrives(name, annotation string) *v1alpha1.BareMetalHost {
	b.Helper()
	return b.bmcHost(name, func(h *v1alpha1.BareMetalHost) {
		h.Spec.Image = image("https://images/os.qcow2")
		h.Annotations = map[string]string{v1alpha1.StatusAnnotation: annotation}
	})
}

func TestPausedHostWithItsStatusReleasesItsNodeUntilItIsResumed(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.bmcHost("web", nil)
	got := b.poweredOn("web")
	done := len(b.asked("web"))
	status, err := json.Marshal(got.Status)
	if err != nil {
		t.Fatal(err)
	}
	b.update(h, func() {
		h.Annotations = map[string]string{v1alpha1.PausedAnnotation: v1alpha1.PausedByClusterAPI, v1alpha1.StatusAnnotation: string(status)}
	})
	id := got.Status.Provisioning.ID
	b.eventually("release of the node", func() string {
		if n := b.node(id); n.Released != digest(string(status)) {
			return n.Released
		}
		return ""
	})
	b.eventually("record of the release", func() string {
		if got := b.host("web").Annotations[v1alpha1.ReleasedAnnotation]; got != digest(string(status)) {
			return got + " is not the release"
		}
		return ""
	})
	b.update(h, func() {
		delete(h.Annotations, v1alpha1.PausedAnnotation)
		h.Spec.Online = false
	})
	b.eventually("end of the release", func() string { return b.node(id).Released })
	b.eventually("end of its record", func() string { return b.host("web").Annotations[v1alpha1.ReleasedAnnotation] })
	b.eventually("power off", func() string {
		if b.node(id).Power != node.PowerOff {
			return "it is on"
		}
		return ""
	})
	if got := b.without(b.asked("web")[done:], "update"); !slices.Equal(got, []string{"release", "claim", "soft power off"}) {
		t.Errorf("asked of the machine: %q", got)
	}
}

func TestMovedHostTakesTheNodeThatItsFormerClusterHasReleased(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.elsewhere("web")
	annotation := b.movedStatus(id)
	b.arrives("web", annotation)
	c := b.hasCondition("web", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.NotProgressingReason)
	for _, part := range []string{id, "another cluster", v1alpha1.PausedAnnotation} {
		if !strings.Contains(c.Message, part) {
			t.Errorf("message %q does not tell %s", c.Message, part)
		}
	}
	if h := b.host("web"); h.Annotations[v1alpha1.StatusAnnotation] != annotation || h.Status.Provisioning.ID != "" || b.effectsOn(id) != nil {
		t.Errorf("host %+v, asked of the machine: %v; want it to wait", h.Status, b.effectsOn(id))
	}

	b.engine.Change(id, func(n *provisioner.Node) { n.Released = digest(annotation) })
	h := b.inState("web", v1alpha1.StateProvisioned)
	if n := b.node(id); n.Mark != provisioner.MarkOf(b.cluster(), b.namespace, "web") || n.Released != "" || h.Status.Provisioning.ID != id {
		t.Errorf("host has node %s with mark %s, release %q", h.Status.Provisioning.ID, n.Mark, n.Released)
	}
	b.eventually("host without an error", func() string { return b.host("web").Status.ErrorMessage })
	for _, verb := range b.effectsOn(id) {
		if verb != demo.VerbClaim && verb != demo.VerbUpdate {
			t.Errorf("%q was asked of the machine", verb)
		}
	}
}

func TestReleasedNodeIsOnlyForTheHostThatMoves(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.elsewhere("web")
	annotation := b.movedStatus(id)
	b.engine.Change(id, func(n *provisioner.Node) { n.Released = digest(annotation) })
	before := b.node(id)
	b.arrives("other", annotation)
	b.hasEvent("other", "RegistrationError", id, "does not belong to this host")
	b.eventually("a node of its own for the other host", func() string {
		if got := b.host("other").Status.Provisioning.ID; got == "" || got == id {
			return "it has node " + strconv.Quote(got)
		}
		return ""
	})
	b.arrives("web", annotation+" ")
	b.hasCondition("web", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.NotProgressingReason)
	if after := b.node(id); after != before {
		t.Errorf("node was %+v and is %+v", before, after)
	}
}

func TestEmptyStatusAnnotationIsNone(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.bmcHost("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{v1alpha1.StatusAnnotation: ""} })
	h := b.inState("web", v1alpha1.StateAvailable)
	if _, there := h.Annotations[v1alpha1.StatusAnnotation]; there || b.events("web", "InvalidAnnotationValue") != 0 {
		t.Errorf("annotations %v, want no status and no event about it", h.Annotations)
	}
}

func TestStatusWithServicingAndErrorsIsRestored(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for name, status := range map[string]string{
		"servicing": `{"operationalStatus":"servicing"}`, "detach-error": `{"operationalStatus":"error","errorType":"detach error"}`,
		"servicing-error": `{"operationalStatus":"error","errorType":"servicing error"}`,
	} {
		b.bmcHost(name, func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{v1alpha1.StatusAnnotation: status} })
		b.inState(name, v1alpha1.StateAvailable)
		if n := b.events(name, "InvalidAnnotationValue"); n != 0 {
			t.Errorf("%s: the annotation was refused", name)
		}
	}
}

// events counts the events on the named object with that reason.
func (b *bench) events(name, reason string) (n int) {
	b.Helper()
	var list eventsv1.EventList
	if err := b.client.List(b.Context(), &list, client.InNamespace(b.namespace)); err != nil {
		b.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Regarding.Name == name && e.Reason == reason {
			n++
		}
	}
	return n
}
