package operator_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/discovery"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// deletedHost is a host that a discovery resource created, at the end of its life.
func (b *bench) deletedHost(hostname, source string) *v1alpha1.BareMetalHost {
	now := metav1.Now()
	h := &v1alpha1.BareMetalHost{ObjectMeta: b.meta(hostname)}
	h.DeletionTimestamp = &now
	h.Annotations = map[string]string{v1alpha1.DiscoverySourceAnnotation: b.namespace + "/" + source + "/0d9ad9fc-5b6f-4b57-9f0c-3c9bfb1c6c2b"}
	h.Spec.BootMACAddress = demo.SampleInventory(hostname).Hardware.Interfaces[0].MACAddress
	return h
}

func TestMachinesDeletedWhileDiscoveryIsDownStayAway(t *testing.T) {
	t.Parallel()
	const machines = 24 // more than are deleted at a time
	b := newBench(t, func(o *operator.Options) { o.Controllers = []string{operator.GroupHost} })
	d := b.discover("down", func(s *discoveryv1.BareMetalHostDiscoverySpec) { s.Rediscovery = discoveryv1.RediscoveryDeny })
	var all sync.WaitGroup
	for i := range machines {
		h := b.deletedHost(fmt.Sprintf("gone-%02d", i), d.Name)
		all.Go(func() {
			for range 2 { // a pass may be repeated
				if err := discovery.RecordDeletion(t.Context(), b.client, b.client, h, time.Now()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i := range machines {
		b.boot(fmt.Sprintf("gone-%02d", i))
	}
	b.boot("new")
	b.start(operator.Options{
		Config: plane.Config(t), Engine: b.engine, Namespaces: []string{b.namespace},
		Controllers: []string{operator.GroupDiscovery}, PollInterval: 100 * time.Millisecond,
	})
	b.inState("new", v1alpha1.StateAvailable)
	b.awaitDiscovery(d, "keeping the machines away", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool {
		tombstones := 0
		for _, skipped := range s.Skipped {
			if skipped.Reason == discoveryv1.SkipTombstone {
				tombstones++
			}
		}
		return tombstones == machines && len(s.Tombstones) == machines
	})
	if got := len(b.hosts()); got != 1 {
		t.Errorf("%d hosts, want only the new one", got)
	}
}

// TestHostDeletedWhileDiscoveryIsDownLeavesItsMachineAway has the host's own controller keep
// what discovery, which is not running, will need.
func TestHostDeletedWhileDiscoveryIsDownLeavesItsMachineAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	d := b.discover("denying", func(s *discoveryv1.BareMetalHostDiscoverySpec) { s.Rediscovery = discoveryv1.RediscoveryDeny })
	b.boot("web")
	h := b.inState("web", v1alpha1.StateAvailable)
	b.stop()
	only := func(group string) {
		b.startWith(plane.Config(t), func(o *operator.Options) { o.Controllers = []string{group} })
	}
	only(operator.GroupHost)
	b.remove(h)
	b.gone("web")
	b.stop()
	b.boot("web")
	b.boot("new")
	only(operator.GroupDiscovery)
	b.awaitDiscovery(d, "keeping the machine away", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool {
		return len(s.Skipped) == 1 && s.Skipped[0].Reason == discoveryv1.SkipTombstone
	})
	if got := b.hosts(); len(got) != 1 || got[0].Name != "new" {
		t.Errorf("hosts %v, want only the new one", got)
	}
}

func TestDeletionIsRecordedOnlyWhereRediscoveryIsDenied(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) { o.Controllers = []string{operator.GroupHost} })
	d := b.discover("allowing", nil)
	registered := b.deletedHost("web", d.Name)
	registered.Annotations = nil
	for what, h := range map[string]*v1alpha1.BareMetalHost{
		"rediscovery is allowed": b.deletedHost("web", d.Name),
		"the resource is gone":   b.deletedHost("web", "none"),
		"a person registered it": registered,
	} {
		if err := discovery.RecordDeletion(t.Context(), b.client, b.client, h, time.Now()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	if len(d.Status.Tombstones) != 0 {
		t.Errorf("tombstones %v, want none", d.Status.Tombstones)
	}
}
