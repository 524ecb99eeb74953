package host

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// TestHostWhoseStatusIsNotStoredYetReleasesItsNode pauses a host that restoring has given its node
// before any pass over it was written. It also pauses a host whose annotation names a node by
// another name than its ID.
func TestHostWhoseStatusIsNotStoredYetReleasesItsNode(t *testing.T) {
	l := newLife(t, nil)
	l.engine = demo.New(demo.Options{
		Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbProvide: time.Hour},
	})
	l.restart()
	id := l.engine.Discover(demo.Machine{Inventory: demo.SampleInventory("found")})
	marked := func() provisioner.Node {
		n, err := l.engine.Node(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	status := statusOf("preparing", id)
	l.addPlain("web", func(h *v1alpha1.BareMetalHost) {
		h.Annotations, h.Finalizers = map[string]string{v1alpha1.StatusAnnotation: status}, []string{v1alpha1.HostFinalizer}
		h.Labels = map[string]string{v1alpha1.PowerManagementLabel: v1alpha1.PowerManagementNone}
	})
	h := l.until("web", "the owner of the node", func(*v1alpha1.BareMetalHost) bool { return marked().Mark != "" })
	if h.Status.LastUpdated != nil {
		t.Fatal("the host was written already")
	}
	l.annotate("web", v1alpha1.PausedAnnotation, v1alpha1.PausedByClusterAPI)
	l.pass("web")
	want := v1alpha1.ReleaseOf(status)
	if got, h := marked().Released, l.host("web"); got != want || h.Annotations[v1alpha1.ReleasedAnnotation] != want {
		t.Errorf("the node has the release %q, the host tells of %q; want %q", got, h.Annotations[v1alpha1.ReleasedAnnotation], want)
	}
	named := testHost(func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.StatusAnnotation: statusOf("", "metal~web")}
	})
	if id, release := decideRelease(named); release != "" {
		t.Errorf("node %s would be released, which is named by its name", id)
	}
}

// TestHostThatWasMovedIsDeletedWithoutItsNode deletes a host as clusterctl does: it first removes
// all annotations, including that of the pause, and removes the finalizers last.
func TestHostThatWasMovedIsDeletedWithoutItsNode(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = testImage("a") })
	h := l.rests("web", v1alpha1.StateProvisioned)
	status, err := json.Marshal(h.Status)
	if err != nil {
		t.Fatal(err)
	}
	l.edit("web", func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.PausedAnnotation: v1alpha1.PausedByClusterAPI, v1alpha1.StatusAnnotation: string(status)}
	})
	l.pass("web")
	released := l.nodeOf("web").Released
	if released == "" {
		t.Fatal("the node is not released")
	}
	done := len(l.effects("web"))

	rest := func() {
		t.Helper()
		for range 5 {
			l.pass("web")
			l.now = l.now.Add(time.Minute)
		}
	}
	l.edit("web", func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.DeletedForMoveAnnotation: ""}
	})
	rest()
	l.remove(l.host("web"))
	rest()
	if l.host("web") == nil {
		t.Fatal("the host is gone before its finalizers are removed")
	}
	l.does("web", done)
	if got := l.nodeOf("web").Released; got != released {
		t.Errorf("the node has the release %q, want %q, with which the other cluster takes it", got, released)
	}
}

func TestHostWhoseNodeHasNoMarkTellsWhichOneToWrite(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) {
		l.inNode(h, node.Active)
		id := h.Status.Provisioning.ID
		l.engine.Change(id, func(n *provisioner.Node) { n.Mark, n.InstanceID = "", "the UID of the host in the former cluster" })
		h.Status = v1alpha1.BareMetalHostStatus{}
		h.Annotations = map[string]string{v1alpha1.StatusAnnotation: statusOf("provisioned", id)}
	})
	h := l.until("web", "refused", func(h *v1alpha1.BareMetalHost) bool { return h.Status.ErrorType == v1alpha1.ErrorRegistration })
	for _, want := range []string{"extra." + v1alpha1.NodeMarkKey, string(provisioner.MarkOf("c1", "metal", "web"))} {
		if !strings.Contains(h.Status.ErrorMessage, want) {
			t.Errorf("message %q, want %s in it", h.Status.ErrorMessage, want)
		}
	}
}
