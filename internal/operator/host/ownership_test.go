package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

func TestNodeOfAHostThatIsGoneNamesTheCommandsThatFreeIt(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		state  v1alpha1.ProvisioningState
		// want are the words of what is named, and free does it.
		want string
		free func(l *life, id string)
	}{
		"free": {nil, v1alpha1.StateAvailable, "ingot node unset %s --name --extra ingot_host", func(l *life, id string) {
			l.engine.Change(id, func(n *provisioner.Node) { n.Mark = "" })
			l.pass("new")
			if h := l.fails("new", v1alpha1.ErrorRegistration); !strings.Contains(h.Status.ErrorMessage, "has the name") {
				l.Errorf("error %q with the name of the node, want it refused", h.Status.ErrorMessage)
			}
			l.engine.Change(id, func(n *provisioner.Node) { n.Name = "" })
		}},
		"deployed": {withImage, v1alpha1.StateProvisioned, "ingot node delete %s", func(l *life, id string) { l.engine.Forget(id) }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("old", tt.change)
			l.rests("old", tt.state)
			id, mac := l.nodeOf("old").ID, l.host("old").Spec.BootMACAddress
			h := l.host("old")
			h.Finalizers = nil
			if err := l.api.Update(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			l.remove(h)
			l.add("new", func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress, h.Spec.BMC.Address = mac, testAddress+"old" })
			message := l.fails("new", v1alpha1.ErrorRegistration).Status.ErrorMessage
			if !strings.Contains(message, fmt.Sprintf(tt.want, id)) {
				t.Errorf("error %q, want how to free the node", message)
			}
			tt.free(l, id)
			l.rests("new", v1alpha1.StateAvailable)
		})
	}
}

// TestOperatorsOfTwoClustersNeverShareANode lets both make a host of one machine, as their
// discoveries do, with the first passes in every order.
func TestOperatorsOfTwoClustersNeverShareANode(t *testing.T) {
	const orders, passes = 1 << 6, 60
	for order := range orders {
		a := newLife(t, nil)
		b := &life{TB: t, api: newAPI(t), events: &recordedEvents{}, engine: a.engine, now: a.now, change: func(c *Config) { c.Cluster = "c2" }}
		b.restart()
		clusters := map[provisioner.Mark]*life{provisioner.MarkOf("c1", "metal", "web"): a, provisioner.MarkOf("c2", "metal", "web"): b}
		id := a.engine.Discover(demo.Machine{Inventory: demo.SampleInventory("found")})
		for _, l := range clusters {
			l.addPlain("web", func(h *v1alpha1.BareMetalHost) {
				h.Annotations = map[string]string{v1alpha1.StatusAnnotation: statusOf("", id)}
			})
		}
		for i := range passes {
			turn := i % 2
			if 1<<i < orders {
				turn = order >> i & 1
			}
			[]*life{a, b}[turn].pass("web")
			a.now = a.now.Add(time.Second)
			b.now = a.now
		}
		n, err := a.engine.Node(t.Context(), id)
		owner := clusters[n.Mark]
		if err != nil || owner == nil {
			t.Fatalf("order %06b: the node has the mark %q, %v", order, n.Mark, err)
		}
		other := a
		if owner == a {
			other = b
		}
		if h := owner.host("web"); h.Status.Provisioning.ID != id || h.Status.Provisioning.State != v1alpha1.StateAvailable {
			t.Errorf("order %06b: the owner has node %q in state %q", order, h.Status.Provisioning.ID, h.Status.Provisioning.State)
		}
		if h := other.host("web"); h.Status.Provisioning.ID != "" || h.Status.Provisioning.State == v1alpha1.StateAvailable {
			t.Errorf("order %06b: the other one has node %q in state %q", order, h.Status.Provisioning.ID, h.Status.Provisioning.State)
		}
		other.remove(other.host("web"))
		other.gone("web")
		if kept, err := a.engine.Node(t.Context(), id); err != nil || kept.Mark != n.Mark {
			t.Errorf("order %06b: the deletion of the other host left the mark %q, %v", order, kept.Mark, err)
		}
	}
}
