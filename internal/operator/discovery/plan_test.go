package discovery

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func testResource(change func(*discoveryv1.BareMetalHostDiscovery)) *discoveryv1.BareMetalHostDiscovery {
	d := &discoveryv1.BareMetalHostDiscovery{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "racks"},
		Spec: discoveryv1.BareMetalHostDiscoverySpec{
			ResourceNameTemplate: discoveryv1.ResourceNameTemplate{HardwareDetails: discoveryv1.DetailHostname},
		},
	}
	if change != nil {
		change(d)
	}
	return d
}

// machine returns the candidate of a machine. mac is the end of its MAC addresses.
func machine(id, hostname, mac string, change func(*candidate)) candidate {
	macs := []string{"00:1b:21:00:00:" + mac, "00:1b:21:00:01:" + mac}
	c := candidate{
		node: provisioner.Node{ID: id, State: node.Enroll},
		macs: macs,
		facts: &facts{
			nameFacts: nameFacts{NodeID: id, BootMAC: macs[0], Hostname: hostname},
			MACs:      macs, Architecture: "x86_64", AutoDiscovered: true,
		},
	}
	if change != nil {
		change(&c)
	}
	return c
}

func existingHost(name string, change func(*v1alpha1.BareMetalHost)) v1alpha1.BareMetalHost {
	h := v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: name, UID: types.UID("uid of " + name)}}
	if change != nil {
		change(&h)
	}
	return h
}

var testStart = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func indexOf(hosts ...v1alpha1.BareMetalHost) *hostIndex {
	x := newHostIndex(func() time.Time { return testStart })
	for i := range hosts {
		x.put(&hosts[i])
	}
	return x
}

func TestPlan(t *testing.T) {
	type skips = map[string]discoveryv1.SkipReason
	one := machine("n1", "web", "01", nil)
	behindBMC := machine("n1", "web", "01", func(c *candidate) { c.facts.BMCAddresses = []netip.Addr{netip.MustParseAddr("192.0.2.201")} })
	noFacts := func(change func(*candidate)) candidate {
		return machine("n1", "web", "01", func(c *candidate) {
			c.facts = nil
			if change != nil {
				change(c)
			}
		})
	}
	for _, tt := range []struct {
		name        string
		resource    func(*discoveryv1.BareMetalHostDiscovery)
		hosts       []v1alpha1.BareMetalHost
		candidates  []candidate
		wantNames   map[string]string // node ID → first name
		wantSkipped skips
		wantMatched int
	}{
		{name: "new machine", candidates: []candidate{one}, wantNames: map[string]string{"n1": "web"}},
		{
			name: "BMC of a host without a node", candidates: []candidate{behindBMC}, wantMatched: 1,
			hosts: []v1alpha1.BareMetalHost{existingHost("other", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = "ipmi://[::ffff:192.0.2.201]:6230" })},
		},
		{
			name: "BMC of a host with a node", candidates: []candidate{behindBMC}, wantNames: map[string]string{"n1": "web"},
			hosts: []v1alpha1.BareMetalHost{existingHost("other", func(h *v1alpha1.BareMetalHost) {
				h.Spec.BMC.Address, h.Status.Provisioning.ID = "ipmi://192.0.2.201", "n8"
			})},
		},
		{
			name: "boot MAC of a host, in other letters", candidates: []candidate{one}, wantMatched: 1,
			hosts: []v1alpha1.BareMetalHost{existingHost("other", func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00:1B:21:00:00:01" })},
		},
		{
			name: "second MAC is a host's boot MAC", candidates: []candidate{one}, wantMatched: 1,
			hosts: []v1alpha1.BareMetalHost{existingHost("other", func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00:1b:21:00:01:01" })},
		},
		{
			name: "MAC is a NIC of a host with another node", candidates: []candidate{one}, wantMatched: 1,
			hosts: []v1alpha1.BareMetalHost{existingHost("other", func(h *v1alpha1.BareMetalHost) {
				h.Status.Provisioning.ID = "n9"
				h.Status.HardwareDetails = &v1alpha1.HardwareDetails{NICs: []v1alpha1.NIC{{MAC: "00:1b:21:00:01:01"}}}
			})},
		},
		{
			name: "MAC is a NIC of a host whose other node exists", candidates: []candidate{one},
			wantSkipped: skips{"n1": discoveryv1.SkipDuplicateMAC},
			hosts: []v1alpha1.BareMetalHost{existingHost("other", func(h *v1alpha1.BareMetalHost) {
				h.Status.Provisioning.ID = "n8"
				h.Status.HardwareDetails = &v1alpha1.HardwareDetails{NICs: []v1alpha1.NIC{{MAC: "00:1b:21:00:01:01"}}}
			})},
		},
		{
			name: "MAC that the node of a host does not have", candidates: []candidate{one}, wantNames: map[string]string{"n1": "web"},
			hosts: []v1alpha1.BareMetalHost{existingHost("other", func(h *v1alpha1.BareMetalHost) {
				h.Status.Provisioning.ID = "n7"
				h.Status.HardwareDetails = &v1alpha1.HardwareDetails{NICs: []v1alpha1.NIC{{MAC: "00:1b:21:00:01:01"}}}
			})},
		},
		{
			name: "host without a node goes before one with another node", candidates: []candidate{one}, wantMatched: 1,
			hosts: []v1alpha1.BareMetalHost{
				existingHost("other", func(h *v1alpha1.BareMetalHost) {
					h.Spec.BootMACAddress, h.Status.Provisioning.ID = "00:1b:21:00:00:01", "n8"
				}),
				existingHost("waiting", func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00:1b:21:00:01:01" }),
			},
		},
		{
			name: "MACs of another host's NICs that machines share do not match",
			candidates: []candidate{machine("n1", "web", "01", func(c *candidate) {
				c.macs = append(c.macs, "42:00:00:00:00:01", "b0:3a:f2:b6:05:9f")
			})},
			hosts: []v1alpha1.BareMetalHost{existingHost("other", func(h *v1alpha1.BareMetalHost) {
				h.Status.Provisioning.ID = "n9"
				h.Status.HardwareDetails = &v1alpha1.HardwareDetails{NICs: []v1alpha1.NIC{{MAC: "42:00:00:00:00:01"}, {MAC: "B0:3A:F2:B6:05:9F"}}}
			})},
			wantNames: map[string]string{"n1": "web"},
		},
		{
			name: "matched without inventory", candidates: []candidate{noFacts(nil)}, wantMatched: 1,
			hosts: []v1alpha1.BareMetalHost{existingHost("other", func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00:1b:21:00:00:01" })},
		},
		{name: "no inventory", candidates: []candidate{noFacts(nil)}, wantSkipped: skips{"n1": discoveryv1.SkipNoInventory}},
		{
			name: "hooks at work", wantSkipped: skips{"n1": discoveryv1.SkipNodeBusy},
			candidates: []candidate{noFacts(func(c *candidate) { c.node.Busy = true })},
		},
		{
			name: "object store of the engine away", wantSkipped: skips{"n1": discoveryv1.SkipNodeBusy},
			candidates: []candidate{noFacts(func(c *candidate) {
				c.node.LastError = node.StoreWait(time.Unix(0, 0), time.Minute, errors.New("it does not answer"))
			})},
		},
		{
			name: "inspecting", wantSkipped: skips{"n1": discoveryv1.SkipNodeBusy},
			candidates: []candidate{machine("n1", "web", "01", func(c *candidate) { c.node.State = node.InspectWait })},
		},
		{
			name: "no usable NIC", wantSkipped: skips{"n1": discoveryv1.SkipMissingMAC},
			candidates: []candidate{machine("n1", "web", "01", func(c *candidate) { c.facts.BootMAC = "" })},
		},
		{
			name: "ignored by second MAC, in other letters", candidates: []candidate{one}, wantSkipped: skips{"n1": discoveryv1.SkipIgnored},
			resource: func(d *discoveryv1.BareMetalHostDiscovery) {
				d.Spec.IgnoredMACAddresses = []string{"00:1B:21:00:01:01"}
			},
		},
		{
			name: "tombstone", candidates: []candidate{one}, wantSkipped: skips{"n1": discoveryv1.SkipTombstone},
			resource: func(d *discoveryv1.BareMetalHostDiscovery) {
				d.Spec.Rediscovery = discoveryv1.RediscoveryDeny
				d.Status.Tombstones = []discoveryv1.Tombstone{{MAC: "00:1b:21:00:00:01"}}
			},
		},
		{
			name: "tombstone has no effect when rediscovery is allowed", candidates: []candidate{one}, wantNames: map[string]string{"n1": "web"},
			resource: func(d *discoveryv1.BareMetalHostDiscovery) {
				d.Spec.Rediscovery = discoveryv1.RediscoveryAllow
				d.Status.Tombstones = []discoveryv1.Tombstone{{MAC: "00:1b:21:00:00:01"}}
			},
		},
		{
			name:       "limit counts hosts that exist",
			candidates: []candidate{one, machine("n2", "db", "02", nil)},
			hosts: []v1alpha1.BareMetalHost{existingHost("old", func(h *v1alpha1.BareMetalHost) {
				h.Annotations = map[string]string{v1alpha1.DiscoverySourceAnnotation: "metal/racks/n0"}
			})},
			resource:    func(d *discoveryv1.BareMetalHostDiscovery) { d.Spec.MaxHosts = 2 },
			wantNames:   map[string]string{"n1": "web"},
			wantSkipped: skips{"n2": discoveryv1.SkipLimitReached},
		},
		{
			name: "only auto-discovered ones", wantNames: map[string]string{"n2": "db"},
			candidates: []candidate{
				machine("n1", "web", "01", func(c *candidate) { c.facts.AutoDiscovered = false }),
				machine("n2", "db", "02", nil),
			},
			resource: func(d *discoveryv1.BareMetalHostDiscovery) { d.Spec.OnlyAutoDiscovered = true },
		},
		{
			name: "same boot MAC twice", candidates: []candidate{one, machine("n2", "web2", "01", nil)},
			wantNames: map[string]string{"n1": "web"}, wantSkipped: skips{"n2": discoveryv1.SkipDuplicateMAC},
		},
		{
			name: "same name twice", candidates: []candidate{one, machine("n2", "web", "02", nil)},
			wantNames: map[string]string{"n1": "web", "n2": "web-000002"},
		},
		{
			name: "name of a host without MAC", candidates: []candidate{one}, wantNames: map[string]string{"n1": "web-000001"},
			hosts: []v1alpha1.BareMetalHost{existingHost("web", nil)},
		},
		{
			name: "name of a host in another namespace is free", candidates: []candidate{one}, wantNames: map[string]string{"n1": "web"},
			hosts: []v1alpha1.BareMetalHost{existingHost("web", func(h *v1alpha1.BareMetalHost) { h.Namespace = "elsewhere" })},
		},
		{
			name: "name and all variants taken", candidates: []candidate{one}, wantSkipped: skips{"n1": discoveryv1.SkipNameConflict},
			hosts: []v1alpha1.BareMetalHost{existingHost("web", nil), existingHost("web-000001", nil), existingHost("web-"+hashOf("n1"), nil)},
		},
		{
			name: "missing detail", wantSkipped: skips{"n1": discoveryv1.SkipMissingDetail},
			candidates: []candidate{machine("n1", "localhost", "01", nil)},
			resource: func(d *discoveryv1.BareMetalHostDiscovery) {
				d.Spec.ResourceNameTemplate.Fallback = discoveryv1.FallbackNone
			},
		},
		{
			name: "unreadable node", wantSkipped: skips{"n1": discoveryv1.SkipNoInventory},
			candidates: []candidate{noFacts(func(c *candidate) { c.err = errors.New("connection reset") })},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := makePlan(testResource(tt.resource), indexOf(tt.hosts...), tt.candidates,
				func(id string) bool { return id == "n7" || id == "n8" }, func(id, _ string) bool { return id != "n7" })
			names := map[string]string{}
			for _, c := range got.create {
				names[c.node.ID] = c.names[0]
			}
			if tt.wantNames == nil {
				tt.wantNames = map[string]string{}
			}
			if diff := cmp.Diff(tt.wantNames, names); diff != "" {
				t.Errorf("created hosts differ (-want +got):\n%s", diff)
			}
			skipped := skips{}
			for _, s := range got.skipped {
				skipped[s.NodeID] = s.Reason
				if s.Message == "" {
					t.Errorf("node %s is skipped without a message", s.NodeID)
				}
			}
			if tt.wantSkipped == nil {
				tt.wantSkipped = skips{}
			}
			if diff := cmp.Diff(tt.wantSkipped, skipped); diff != "" {
				t.Errorf("skipped nodes differ (-want +got):\n%s", diff)
			}
			if got.matched != tt.wantMatched {
				t.Errorf("matched %d, want %d", got.matched, tt.wantMatched)
			}
		})
	}
}

func TestMachineWithoutInventoryGetsOneInAWayThatItsNodeAllows(t *testing.T) {
	yes, no := true, false
	const anew, again = "delete the node from the engine, and boot the machine into the ramdisk", "inspect the node"
	for name, tt := range map[string]struct {
		node provisioner.Node
		want string
	}{
		"the engine enrolled it":                {provisioner.Node{State: node.Enroll, AutoDiscovered: &yes}, "inspection has left no inventory; " + anew},
		"the engine enrolled it, and failed":    {provisioner.Node{State: node.Enroll, AutoDiscovered: &yes, LastError: "No NIC."}, "inspection failed: No NIC; " + anew},
		"a person registered it":                {provisioner.Node{State: node.Enroll, AutoDiscovered: &no}, "inspection has left no inventory; " + again},
		"a person registered it, and it failed": {provisioner.Node{State: node.Manageable, AutoDiscovered: &no, LastError: "No NIC."}, "inspection failed: No NIC; " + again},
		"it can be inspected":                   {provisioner.Node{State: node.Manageable, AutoDiscovered: &yes}, "inspection has left no inventory; " + again},
		"nobody knows who registered it":        {provisioner.Node{State: node.Enroll}, "inspection has left no inventory; " + again},
	} {
		p := &planner{resource: testResource(nil)}
		if reason, text := p.obstacle(candidate{node: tt.node}); reason != discoveryv1.SkipNoInventory || text != tt.want {
			t.Errorf("%s: %s, %q; want %q", name, reason, text, tt.want)
		}
	}
}

func TestTombstonesAreUniqueAndTheOldestGoFirst(t *testing.T) {
	d := testResource(nil)
	start := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for i := range maxTombstones + 5 {
		mac := "00:1b:21:00:" + hex2(i/256) + ":" + hex2(i%256)
		addTombstone(d, discoveryv1.Tombstone{MAC: mac, DeletedAt: metav1.NewTime(start.Add(time.Duration(i) * time.Second))})
		addTombstone(d, discoveryv1.Tombstone{MAC: mac, DeletedAt: metav1.NewTime(start)})
	}
	if got := len(d.Status.Tombstones); got != maxTombstones {
		t.Fatalf("%d tombstones, want %d", got, maxTombstones)
	}
	if got := d.Status.Tombstones[0].MAC; got != "00:1b:21:00:00:05" {
		t.Errorf("oldest = %s, want the sixth", got)
	}
}

func hex2(n int) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[n/16], digits[n%16]})
}

func TestIdlePollsAreWrittenNowAndThen(t *testing.T) {
	at := func(d time.Duration) *discoveryv1.BareMetalHostDiscoveryStatus {
		t := metav1.NewTime(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).Add(d))
		return &discoveryv1.BareMetalHostDiscoveryStatus{LastPollTime: &t}
	}
	changed := at(5 * time.Second)
	changed.Counts.Matched = 1
	for _, tt := range []struct {
		name          string
		before, after *discoveryv1.BareMetalHostDiscoveryStatus
		want          bool
	}{
		{"first poll", &discoveryv1.BareMetalHostDiscoveryStatus{}, at(0), true},
		{"a moment later", at(0), at(5 * time.Second), false},
		{"nine minutes later", at(0), at(9 * time.Minute), false},
		{"ten minutes later", at(0), at(10 * time.Minute), true},
		{"something changed", at(0), changed, true},
		{"no poll", at(0), at(0), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := worthWriting(tt.before, tt.after); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestOwnerIsTheOldestActiveResource(t *testing.T) {
	at := func(name string, seconds int64, change func(*discoveryv1.BareMetalHostDiscovery)) discoveryv1.BareMetalHostDiscovery {
		return *testResource(func(d *discoveryv1.BareMetalHostDiscovery) {
			d.Name, d.CreationTimestamp = name, metav1.Unix(seconds, 0)
			if change != nil {
				change(d)
			}
		})
	}
	suspended := func(d *discoveryv1.BareMetalHostDiscovery) { d.Spec.Suspend = true }
	leaving := func(d *discoveryv1.BareMetalHostDiscovery) { d.DeletionTimestamp = &d.CreationTimestamp }
	for _, tt := range []struct {
		name      string
		resources []discoveryv1.BareMetalHostDiscovery
		want      string
	}{
		{"oldest", []discoveryv1.BareMetalHostDiscovery{at("b", 2, nil), at("a", 3, nil), at("c", 1, nil)}, "c"},
		{"same age goes by name", []discoveryv1.BareMetalHostDiscovery{at("b", 1, nil), at("a", 1, nil)}, "a"},
		{"suspended and leaving ones do not count", []discoveryv1.BareMetalHostDiscovery{at("a", 1, suspended), at("b", 2, leaving), at("c", 3, nil)}, "c"},
		{"none", []discoveryv1.BareMetalHostDiscovery{at("a", 1, suspended)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if owner := ownerOf(tt.resources); owner != nil {
				got = owner.Name
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
