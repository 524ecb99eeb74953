package operator_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// awaitDiscovery waits until the discovery resource's status passes a check.
func (b *bench) awaitDiscovery(d *discoveryv1.BareMetalHostDiscovery, what string, check func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool) {
	b.Helper()
	b.eventually("discovery "+d.Name+" "+what, func() string {
		if err := b.client.Get(b.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			return err.Error()
		}
		if !check(&d.Status) {
			return fmt.Sprintf("counts %+v, skipped %+v, tombstones %+v, conditions %s",
				d.Status.Counts, d.Status.Skipped, d.Status.Tombstones, conditionText(d.Status.Conditions))
		}
		return ""
	})
}

func isTrue(kind string) func(*discoveryv1.BareMetalHostDiscoveryStatus) bool {
	return func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool {
		return meta.IsStatusConditionTrue(s.Conditions, kind)
	}
}

func TestUnknownMachineBecomesAnAvailableHost(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.boot("rack1-node7.example.org")
	d := b.discover("racks", func(s *discoveryv1.BareMetalHostDiscoverySpec) {
		s.HostTemplate.Labels = map[string]string{"rack": "1"}
		s.HostTemplate.BootMode = v1alpha1.BootModeLegacy
	})
	h := b.inState("rack1-node7", v1alpha1.StateAvailable)

	if h.Status.Provisioning.ID != id {
		t.Errorf("node = %s, want %s", h.Status.Provisioning.ID, id)
	}
	sample := demo.SampleInventory("rack1-node7.example.org")
	if want := sample.Hardware.Interfaces[0].MACAddress; h.Spec.BootMACAddress != want {
		t.Errorf("boot MAC = %s, want %s", h.Spec.BootMACAddress, want)
	}
	if !h.Spec.Online || h.Spec.BootMode != v1alpha1.BootModeLegacy || h.Labels["rack"] != "1" {
		t.Errorf("spec = %+v, labels = %v; want the template's", h.Spec, h.Labels)
	}
	if h.Spec.AutomatedCleaningMode != v1alpha1.CleaningModeMetadata {
		t.Errorf("cleaning mode = %q, want the schema's default", h.Spec.AutomatedCleaningMode)
	}
	if want := b.namespace + "/racks/" + id; h.Annotations[v1alpha1.DiscoverySourceAnnotation] != want {
		t.Errorf("source = %q, want %q", h.Annotations[v1alpha1.DiscoverySourceAnnotation], want)
	}
	b.eventually("removal of the status annotation, which follows the status", func() string {
		return b.host(h.Name).Annotations[v1alpha1.StatusAnnotation]
	})
	b.awaitDiscovery(d, "ready", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool {
		return s.Counts.Created == 1 && s.Counts.Matched == 1 && s.Counts.EngineNodes == 1 && isTrue(discoveryv1.ReadyCondition)(s)
	})
	b.hasEvent("racks", "HostDiscovered")
}

func TestMachinesThatBootAtOnceBecomeHostsFastAndOnce(t *testing.T) {
	t.Parallel()
	const machines = 40
	b := newBench(t, nil)
	b.discover("storm", nil)
	for i := range machines {
		b.boot(fmt.Sprintf("storm-%02d", i))
	}
	b.eventually("all hosts available", func() string {
		ready := 0
		for _, h := range b.hosts() {
			if h.Status.Provisioning.State == v1alpha1.StateAvailable {
				ready++
			}
		}
		if ready != machines {
			return fmt.Sprintf("%d of %d hosts are available", ready, machines)
		}
		return ""
	})
	nodes := map[string]bool{}
	for _, h := range b.hosts() {
		nodes[h.Status.Provisioning.ID] = true
	}
	if len(nodes) != machines || len(b.hosts()) != machines {
		t.Errorf("%d hosts with %d nodes, want %d of each", len(b.hosts()), len(nodes), machines)
	}
}

func TestNodesInUseAreNotDiscovered(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for what, change := range map[string]func(*provisioner.Node){
		"named":    func(n *provisioner.Node) { n.Name = "db-1" },
		"instance": func(n *provisioner.Node) { n.InstanceID = "1f1c" },
		"owned":    func(n *provisioner.Node) { n.Owner = "team-a" },
		"active":   func(n *provisioner.Node) { n.State = "active" },
		"cleaning": func(n *provisioner.Node) { n.State = "clean wait" },
	} {
		b.engine.Discover(demo.Machine{Inventory: demo.SampleInventory(what), Change: change})
	}
	b.boot("free")
	d := b.discover("others", nil)
	b.inState("free", v1alpha1.StateAvailable)
	b.awaitDiscovery(d, "counted", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool {
		return s.Counts.EngineNodes == 6 && s.Counts.Created == 1 && s.Counts.Skipped == 0
	})
	if got := len(b.hosts()); got != 1 {
		t.Errorf("%d hosts, want 1", got)
	}
}

func TestMachineOfAnExistingHostIsMatchedByAnyMAC(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	inv := demo.SampleInventory("known")
	b.plainHost("mine", func(h *v1alpha1.BareMetalHost) {
		h.Spec.BootMACAddress = inv.Hardware.Interfaces[1].MACAddress
		h.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""}
	})
	b.boot("known")
	d := b.discover("second-mac", nil)
	b.awaitDiscovery(d, "matched", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool { return s.Counts.Matched == 1 })
	if got := len(b.hosts()); got != 1 {
		t.Errorf("%d hosts, want only the one that was there", got)
	}
}

func TestNameOfAnotherMachineIsNeverTakenOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.plainHost("twin", func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00:00:5e:00:53:01" })
	b.boot("twin")
	b.discover("names", nil)
	b.eventually("second host", func() string {
		if len(b.hosts()) != 2 {
			return fmt.Sprintf("%d hosts", len(b.hosts()))
		}
		return ""
	})
	mac := demo.SampleInventory("twin").Hardware.Interfaces[0].MACAddress
	want := "twin-" + mac[9:11] + mac[12:14] + mac[15:17]
	b.inState(want, v1alpha1.StateAvailable)
	if h := b.host("twin"); h.Status.Provisioning.ID != "" {
		t.Errorf("host of another machine got node %s", h.Status.Provisioning.ID)
	}
}

func TestTemplateChangeLeavesExistingHostsAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.boot("first")
	d := b.discover("template", nil)
	before := b.inState("first", v1alpha1.StateAvailable)
	b.update(d, func() {
		d.Spec.ResourceNameTemplate.Prefix = "new-"
		d.Spec.HostTemplate.Labels = map[string]string{"new": "yes"}
	})
	b.boot("second")
	b.inState("new-second", v1alpha1.StateAvailable)
	after := b.host("first")
	if after.UID != before.UID || after.Labels["new"] != "" || len(b.hosts()) != 2 {
		t.Errorf("hosts = %d, labels of the first = %v; want it unchanged", len(b.hosts()), after.Labels)
	}
}

func TestOldestResourceTakesTheNodes(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.discover("a-oldest", nil)
	younger := b.discover("b-younger", func(s *discoveryv1.BareMetalHostDiscoverySpec) { s.ResourceNameTemplate.Prefix = "y-" })
	b.boot("shared")
	b.inState("shared", v1alpha1.StateAvailable)
	b.awaitDiscovery(younger, "in conflict", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool {
		return isTrue(discoveryv1.ConflictCondition)(s) && meta.IsStatusConditionFalse(s.Conditions, discoveryv1.ReadyCondition)
	})
	b.hasEvent("b-younger", "DiscoveryConflict")
	if got := len(b.hosts()); got != 1 {
		t.Errorf("%d hosts, want 1", got)
	}
}

func TestDeletedHostIsRediscoveredWhenItsMachineBootsAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.boot("again")
	b.discover("allow", nil)
	first := b.inState("again", v1alpha1.StateAvailable)
	b.remove(first)
	b.gone("again")
	b.boot("again")
	if second := b.inState("again", v1alpha1.StateAvailable); second.UID == first.UID {
		t.Error("host is the same object")
	}
}

func TestDeletedHostStaysAwayWhenRediscoveryIsDenied(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.boot("away")
	d := b.discover("deny", func(s *discoveryv1.BareMetalHostDiscoverySpec) { s.Rediscovery = discoveryv1.RediscoveryDeny })
	h := b.inState("away", v1alpha1.StateAvailable)
	b.remove(h)
	b.gone("away")
	b.awaitDiscovery(d, "with a tombstone", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool {
		return len(s.Tombstones) == 1 && s.Tombstones[0].MAC == h.Spec.BootMACAddress
	})
	b.boot("away")
	b.awaitDiscovery(d, "skipping", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool {
		return len(s.Skipped) == 1 && s.Skipped[0].Reason == discoveryv1.SkipTombstone
	})
	if b.host("away") != nil {
		t.Error("host is back")
	}
	// A person removes the tombstone.
	before := d.DeepCopy()
	d.Status.Tombstones = nil
	if err := b.client.Status().Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	b.inState("away", v1alpha1.StateAvailable)
}

func TestDiscoveryIsBoundedAndHonoursIgnoredMachines(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, name := range []string{"one", "two", "ignored"} {
		b.boot(name)
	}
	d := b.discover("bounded", func(s *discoveryv1.BareMetalHostDiscoverySpec) {
		s.MaxHosts = 1
		s.IgnoredMACAddresses = []string{demo.SampleInventory("ignored").Hardware.Interfaces[1].MACAddress}
	})
	b.awaitDiscovery(d, "bounded", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool {
		reasons := map[discoveryv1.SkipReason]int{}
		for _, skipped := range s.Skipped {
			reasons[skipped.Reason]++
		}
		return s.Counts.Created == 1 && reasons[discoveryv1.SkipLimitReached] == 1 && reasons[discoveryv1.SkipIgnored] == 1
	})
	b.hasEvent("bounded", "HostSkipped")
}

func TestSuspendedDiscoveryMakesNoHosts(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.boot("sleeper")
	d := b.discover("suspended", func(s *discoveryv1.BareMetalHostDiscoverySpec) { s.Suspend = true })
	b.awaitDiscovery(d, "suspended", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, discoveryv1.ReadyCondition)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == discoveryv1.SuspendedReason
	})
	if len(b.hosts()) != 0 {
		t.Fatal("a host was made")
	}
	b.update(d, func() { d.Spec.Suspend = false })
	b.inState("sleeper", v1alpha1.StateAvailable)
}

func TestEngineDownIsShownOnTheDiscovery(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.engine.SetDown("no route to host")
	d := b.discover("down", nil)
	b.awaitDiscovery(d, "unreachable", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, discoveryv1.EngineReachableCondition)
		return c != nil && c.Status == metav1.ConditionFalse && c.Message == "engine is unreachable: no route to host" &&
			meta.IsStatusConditionFalse(s.Conditions, discoveryv1.ReadyCondition)
	})
	b.hasEvent("down", "EngineUnreachable")
	b.engine.SetDown("")
	b.boot("late")
	b.inState("late", v1alpha1.StateAvailable)
	b.awaitDiscovery(d, "ready", isTrue(discoveryv1.ReadyCondition))
}

func TestDiscoveryResourceCanGoAndHostsStay(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.boot("orphan")
	d := b.discover("short-lived", nil)
	b.inState("orphan", v1alpha1.StateAvailable)
	b.remove(d)
	b.forAWhile("host of a deleted discovery", func() string {
		if b.host("orphan") == nil {
			return "it is gone"
		}
		return ""
	})
}

func TestSchemaRefusesUnusableTemplates(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for name, template := range map[string]discoveryv1.ResourceNameTemplate{
		"upper-case-prefix":   {Prefix: "Rack", HardwareDetails: discoveryv1.DetailHostname},
		"dash-first":          {Prefix: "-a", HardwareDetails: discoveryv1.DetailHostname},
		"dash-last":           {Suffix: "a-", HardwareDetails: discoveryv1.DetailHostname},
		"too-long":            {Prefix: "a2345678901234567890123456", Suffix: "a2345678901234567890123456", HardwareDetails: discoveryv1.DetailHostname},
		"bare-uuid":           {HardwareDetails: discoveryv1.DetailProvisioningID},
		"unknown-detail":      {HardwareDetails: "colour"},
		"no-detail":           {},
		"unknown-fallback":    {HardwareDetails: discoveryv1.DetailHostname, Fallback: "guess"},
		"prefix-over-maximum": {Prefix: "a2345678901234567890123456789012345678901", HardwareDetails: discoveryv1.DetailHostname},
	} {
		d := &discoveryv1.BareMetalHostDiscovery{ObjectMeta: b.meta(name), Spec: discoveryv1.BareMetalHostDiscoverySpec{ResourceNameTemplate: template}}
		if err := b.client.Create(t.Context(), d); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	short := &discoveryv1.BareMetalHostDiscovery{ObjectMeta: b.meta("short"), Spec: discoveryv1.BareMetalHostDiscoverySpec{
		ResourceNameTemplate: discoveryv1.ResourceNameTemplate{HardwareDetails: discoveryv1.DetailHostname},
		PollInterval:         metav1.Duration{Duration: time.Second},
	}}
	if err := b.client.Create(t.Context(), short); err == nil {
		t.Error("a poll interval of 1s was accepted")
	}
}

func TestSamplesAreAccepted(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		for _, obj := range b.decode(file) {
			obj.SetNamespace(b.namespace)
			b.create(obj)
		}
	}
}

func TestNodeThatWentIsNotReportedAsSkipped(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) { o.PollInterval = time.Hour })
	for i := range 120 { // so many that a deleted node stays in the cache for a while
		b.engine.Discover(demo.Machine{Inventory: demo.SampleInventory(fmt.Sprint("other-", i)), Change: func(n *provisioner.Node) { n.Owner = "team" }})
	}
	b.boot("leaving")
	d := b.discover("ghosts", nil)
	h := b.inState("leaving", v1alpha1.StateAvailable)
	b.remove(h)
	b.gone("leaving")
	b.update(d, func() { d.Spec.HostTemplate.Architecture = "x86_64" }) // polls at once
	b.awaitDiscovery(d, "polled again", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool {
		return s.ObservedGeneration == 2 && s.Counts.EngineNodes == 120 && len(s.Skipped) == 0
	})
}

func TestHostWithTheAddressOfAnotherHostsMachineSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.boot("first")
	b.discover("twins", nil)
	b.inState("first", v1alpha1.StateAvailable)
	b.plainHost("second", func(h *v1alpha1.BareMetalHost) {
		h.Spec.BootMACAddress = demo.SampleInventory("first").Hardware.Interfaces[1].MACAddress
	})
	want := "node " + id + ", which has this address, belongs to host " + b.namespace + "/first"
	b.eventually("condition Progressing with the reason", func() string {
		h := b.host("second")
		c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ProgressingCondition)
		if c == nil || !strings.Contains(c.Message, want) {
			return conditionText(h.Status.Conditions)
		}
		return ""
	})
	b.hasEvent("second", "ImportConflict")
}
