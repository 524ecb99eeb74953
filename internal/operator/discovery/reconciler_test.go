package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestIdleDiscoveryWritesEveryTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakeNodes(ids(100, "n")...), nil)
		b.reconcile()
		if b.api.creates != 100 {
			t.Fatalf("%d hosts were created, want 100", b.api.creates)
		}
		b.runFor(time.Minute)
		b.api.patches, b.events.notes = nil, nil
		ports := b.engine.portReads
		b.runFor(time.Hour)
		if n := len(b.api.patches); n < 5 || n > 6 {
			t.Errorf("%d writes in an idle hour, want one each ten minutes:\n%s", n, strings.Join(b.api.patches, "\n"))
		}
		for _, patch := range b.api.patches {
			if !strings.HasPrefix(patch, `{"status":{"lastPollTime":`) || strings.Count(patch, ":") > 4 {
				t.Errorf("write %s, want the time alone", patch)
			}
		}
		if b.api.creates != 100 || len(b.events.notes) != 0 || b.engine.portReads != ports {
			t.Errorf("an idle hour led to %d hosts, events %v, %d readings of ports", b.api.creates-100, b.events.notes, b.engine.portReads-ports)
		}
	})
}

func TestBatchOfHostsCostsOneWriteEachAndOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakeNodes(ids(40, "n")...), nil)
		b.reconcile()
		if b.api.creates != 40 || len(b.api.patches) != 1 {
			t.Errorf("%d hosts and %d writes of the status, want 40 and 1", b.api.creates, len(b.api.patches))
		}
		want := "HostDiscovered: Created 40 hosts: n-0000, n-0001, n-0002, n-0003, n-0004, n-0005, n-0006, n-0007, n-0008, n-0009 and 30 more"
		if len(b.events.notes) != 1 || b.events.notes[0] != want {
			t.Errorf("events %q, want one: %q", b.events.notes, want)
		}
		for id, n := range b.engine.reads {
			if n != 1 {
				t.Errorf("the inventory of node %s was read %d times, want once", id, n)
			}
		}
		if b.engine.portReads != 40 {
			t.Errorf("ports were read %d times, want once per node", b.engine.portReads)
		}
		b.engine.nodes["late"] = provisioner.Node{ID: "late", State: "enroll"}
		b.engine.macs["late"] = []string{"00:1b:21:00:ff:01"}
		b.engine.generation++
		b.runFor(time.Minute)
		if len(b.events.notes) != 2 || !strings.Contains(b.events.notes[1], "host late for node late with boot MAC address 00:1b:21:00:ff:01") {
			t.Errorf("events %q, want another one for another host", b.events.notes)
		}
	})
}

func TestNewHostLacksNothingThatTheHostControllerWouldAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakeNodes("n1"), func(d *discoveryv1.BareMetalHostDiscovery) {
			d.Spec.HostTemplate.Labels = map[string]string{"rack": "1"}
			d.Spec.HostTemplate.Annotations = map[string]string{"note": "new"}
		})
		b.reconcile()
		h := b.api.hosts[types.NamespacedName{Namespace: "metal", Name: "n1"}]
		if h == nil {
			t.Fatalf("hosts %v, want n1", b.api.hosts)
		}
		if len(h.Finalizers) != 1 || h.Finalizers[0] != v1alpha1.HostFinalizer {
			t.Errorf("finalizers %v, want the host controller's", h.Finalizers)
		}
		if h.Labels[v1alpha1.PowerManagementLabel] != v1alpha1.PowerManagementNone || h.Labels["rack"] != "1" || h.Annotations["note"] != "new" {
			t.Errorf("labels %v, annotations %v; want the template's and the host controller's", h.Labels, h.Annotations)
		}
		if status := h.Annotations[v1alpha1.StatusAnnotation]; !strings.Contains(status, `"ID":"n1"`) || !strings.Contains(status, `"operationalStatus":"discovered"`) {
			t.Errorf("status annotation %s, want the link to the node", status)
		}
	})
}

func TestSkippedNodesBeyondTheListAreToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 3 * maxSkipped
		b := newBench(t, newFakeNodes(ids(nodes, "n")...), func(d *discoveryv1.BareMetalHostDiscovery) {
			d.Spec.ResourceNameTemplate.HardwareDetails = discoveryv1.DetailSerialNumber
			d.Spec.ResourceNameTemplate.Fallback = discoveryv1.FallbackNone
		})
		b.reconcile()
		for range 5 { // each poll decides again
			b.engine.generation++
			<-time.After(time.Minute)
			b.reconcile()
		}
		if got := b.skippedTotal(); got != nodes {
			t.Errorf("the metric counts %v nodes, want %d", got, nodes)
		}
		if len(b.events.notes) != 1 || !strings.Contains(b.events.notes[0], "node n-0000 and 149 others, MissingDetail") {
			t.Errorf("events %q, want one for all", b.events.notes)
		}
		if got := b.api.resource.Status; got.Counts.Skipped != nodes || len(got.Skipped) != maxSkipped {
			t.Errorf("%d nodes are counted and %d listed, want %d and %d", got.Counts.Skipped, len(got.Skipped), nodes, maxSkipped)
		}
		b.restart()
		b.reconcile()
		if len(b.events.notes) != 1 {
			t.Errorf("events %q, want no other one after a restart", b.events.notes)
		}
	})
}

func TestUnreadableInventoryIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newFakeNodes("good", "bad")
		engine.inventories["bad"] = errors.New("decode inventory: unexpected end of JSON input")
		b := newBench(t, engine, nil)
		b.reconcile()
		status := b.api.resource.Status
		if len(status.Skipped) != 1 || status.Skipped[0].NodeID != "bad" || status.Skipped[0].Reason != discoveryv1.SkipNoInventory ||
			!strings.Contains(status.Skipped[0].Message, "unexpected end of JSON input") {
			t.Errorf("skipped %+v, want the node with the reason", status.Skipped)
		}
		if ready := b.condition(discoveryv1.ReadyCondition); ready.Status != metav1.ConditionTrue || !strings.Contains(ready.Message, "1 got none") {
			t.Errorf("Ready = %s, %q; want it to tell of the node", ready.Status, ready.Message)
		}
		delete(engine.inventories, "bad")
		b.runFor(time.Minute)
		if b.api.creates != 2 || len(b.api.resource.Status.Skipped) != 0 {
			t.Errorf("%d hosts, skipped %+v; want both hosts once it can be read", b.api.creates, b.api.resource.Status.Skipped)
		}
	})
}

func TestFailedInspectionIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enrolled := true
		engine := newFakeNodes("failed", "unreadable")
		engine.nodes["failed"] = provisioner.Node{ID: "failed", State: node.Enroll, AutoDiscovered: &enrolled, LastError: "No NIC."}
		engine.inventories["failed"] = provisioner.ErrNoInventory
		engine.inventories["unreadable"] = errors.New("connection reset")
		b := newBench(t, engine, nil)
		b.runFor(time.Minute)
		want := "HostSkipped: No host was created for node failed, NoInventory: inspection failed: No NIC; delete the node from the engine, and boot the machine into the ramdisk"
		if len(b.events.notes) != 1 || b.events.notes[0] != want {
			t.Errorf("events %q, want one: %q", b.events.notes, want)
		}
	})
}

func TestInventoryThatIsReadSlowlyIsNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newFakeNodes("n1")
		busy := engine.nodes["n1"]
		busy.Busy = true
		engine.nodes["n1"], engine.inventories["n1"] = busy, provisioner.ErrNoInventory
		b := newBench(t, engine, nil)
		b.reconcile()
		inspected := busy
		inspected.Busy, inspected.InspectedAt = false, time.Now()
		engine.nodes["n1"], engine.inventories["n1"] = inspected, nil
		engine.generation++
		engine.onInventory = func() { <-time.After(2 * slowAfter) }
		b.runFor(time.Minute)
		if b.api.creates != 1 || len(b.events.notes) != 1 || !strings.HasPrefix(b.events.notes[0], eventHostDiscovered) {
			t.Errorf("%d hosts, events %q; want the host, and no word of a missing inventory", b.api.creates, b.events.notes)
		}
	})
}

func TestEngineThatGoesAwayWhileNodesAreReadIsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := fmt.Errorf("%w: connection refused", provisioner.ErrUnreachable)
		engine := newFakeNodes(ids(20, "n")...)
		for id := range engine.nodes {
			engine.inventories[id] = away
		}
		b := newBench(t, engine, nil)
		b.reconcile() // a single node may be broken: the engine itself answers
		if got := len(b.api.resource.Status.Skipped); got != 20 {
			t.Errorf("%d nodes are listed, want all", got)
		}
		b.restart()
		b.api.resource.Status = discoveryv1.BareMetalHostDiscoveryStatus{}
		engine.down = away
		b.reconcile()
		if c := b.condition(discoveryv1.EngineReachableCondition); c.Status != metav1.ConditionFalse || c.Message != away.Error() {
			t.Errorf("EngineReachable = %s, %q; want false with the error", c.Status, c.Message)
		}
		if got := len(b.api.resource.Status.Skipped); got != 0 {
			t.Errorf("%d nodes are listed, want none", got)
		}
		b.api.patches = nil
		b.runFor(5 * time.Minute)
		if len(b.api.patches) != 0 {
			t.Errorf("an engine that stays away leads to writes: %v", b.api.patches)
		}
		engine.down = nil
		clear(engine.inventories)
		b.runFor(time.Minute)
		if b.api.creates != 20 || b.condition(discoveryv1.ReadyCondition).Status != metav1.ConditionTrue {
			t.Errorf("%d hosts, Ready %s; want all hosts soon after the engine is back", b.api.creates, b.condition(discoveryv1.ReadyCondition).Status)
		}
	})
}

func TestHostsThatCannotBeCreatedShowInReadyAndAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakeNodes("n1"), nil)
		b.api.refusal = apierrors.NewInternalError(errors.New("failed calling webhook"))
		b.reconcile()
		if ready := b.condition(discoveryv1.ReadyCondition); ready.Reason != discoveryv1.CreateFailedReason || !strings.Contains(ready.Message, "failed calling webhook") {
			t.Errorf("Ready = %s, %q; want the error", ready.Reason, ready.Message)
		}
		b.api.refusal = nil
		b.runFor(10 * time.Second)
		if b.api.creates != 1 || b.condition(discoveryv1.ReadyCondition).Status != metav1.ConditionTrue {
			t.Errorf("%d hosts, Ready %+v; want the host", b.api.creates, b.condition(discoveryv1.ReadyCondition))
		}
	})
}

func TestHostThatIsRefusedLeavesItsPlaceToTheNextMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakeNodes("n0", "n1", "n2", "n3", "n4"), func(d *discoveryv1.BareMetalHostDiscovery) { d.Spec.MaxHosts = 2 })
		b.api.refusals = map[string]error{}
		for _, name := range []string{"n0", "n1", "n3"} {
			b.api.refusals[name] = apierrors.NewForbidden(schema.GroupResource{}, name, errors.New("denied by a webhook"))
		}
		b.reconcile()
		status := b.api.resource.Status
		reasons := map[string]discoveryv1.SkipReason{}
		for _, s := range status.Skipped {
			reasons[s.NodeID] = s.Reason
		}
		want := map[string]discoveryv1.SkipReason{
			"n0": discoveryv1.SkipCreateForbidden, "n1": discoveryv1.SkipCreateForbidden, "n3": discoveryv1.SkipCreateForbidden,
		}
		if diff := cmp.Diff(want, reasons); diff != "" {
			t.Errorf("skipped nodes differ (-want +got):\n%s", diff)
		}
		if got := status.Counts; b.api.creates != 2 || got.Created != 2 || got.Matched != 2 || got.Skipped != 3 {
			t.Errorf("%d hosts, counts %+v; want n2 and n4", b.api.creates, got)
		}
		if len(b.events.notes) == 0 || b.events.notes[0] != "HostDiscovered: Created 2 hosts: n2, n4" {
			t.Errorf("events %q, want both hosts", b.events.notes)
		}
		b.engine.nodes["n5"] = provisioner.Node{ID: "n5", State: node.Enroll, CreatedAt: testStart.Add(time.Hour)}
		b.engine.macs["n5"] = []string{"00:1b:21:00:ff:01"}
		b.engine.generation++
		b.runFor(time.Minute)
		if b.api.creates != 2 {
			t.Errorf("%d hosts, want no more than spec.maxHosts", b.api.creates)
		}
	})
}

func TestHostThatCannotBeCreatedForTheMomentKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakeNodes("n0", "n1", "n2"), func(d *discoveryv1.BareMetalHostDiscovery) { d.Spec.MaxHosts = 2 })
		b.api.refusals = map[string]error{
			"n0": apierrors.NewForbidden(schema.GroupResource{}, "n0", errors.New("denied by a webhook")),
			"n1": apierrors.NewTimeoutError("no answer", 1),
		}
		b.reconcile()
		if b.api.creates != 0 {
			t.Errorf("%d hosts, want none while it is open whether n1 became one", b.api.creates)
		}
		delete(b.api.refusals, "n1")
		b.runFor(time.Minute)
		if b.api.creates != 2 {
			t.Errorf("%d hosts, want n1 and n2", b.api.creates)
		}
	})
}

func TestHostOfAMachineThatMayHaveAnotherNamesThat(t *testing.T) {
	acme := v1alpha1.HardwareSystemVendor{Manufacturer: "ACME", SerialNumber: "SN42"}
	for name, tt := range map[string]struct {
		older  func(*v1alpha1.BareMetalHost)
		vendor inventory.SystemVendor
		told   bool
	}{
		"same vendor and serial number": {nil, inventory.SystemVendor{Manufacturer: "ACME", SerialNumber: "SN42 "}, true},
		"another serial number":         {nil, inventory.SystemVendor{Manufacturer: "ACME", SerialNumber: "SN43"}, false},
		"another vendor":                {nil, inventory.SystemVendor{Manufacturer: "Bolt", SerialNumber: "SN42"}, false},
		"placeholder": {
			func(h *v1alpha1.BareMetalHost) { h.Status.HardwareDetails.SystemVendor.SerialNumber = "Default string" },
			inventory.SystemVendor{Manufacturer: "ACME", SerialNumber: "Default string"},
			false,
		},
		"host with a BMC": {
			func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = "ipmi://192.0.2.1" },
			inventory.SystemVendor{Manufacturer: "ACME", SerialNumber: "SN42"},
			false,
		},
		"host that is being deleted": {
			func(h *v1alpha1.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: testStart} },
			inventory.SystemVendor{Manufacturer: "ACME", SerialNumber: "SN42"},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := newFakeNodes("n1")
				engine.vendor = tt.vendor
				b := newBench(t, engine, nil)
				older := existingHost("old", func(h *v1alpha1.BareMetalHost) {
					h.Spec.BootMACAddress, h.Status.Provisioning.ID = "00:1b:21:00:ff:01", "n0"
					h.Status.HardwareDetails = &v1alpha1.HardwareDetails{SystemVendor: acme}
					if tt.older != nil {
						tt.older(h)
					}
				})
				b.r.index.put(&older)
				b.reconcile()
				if b.api.creates != 1 {
					t.Fatalf("%d hosts were created, want one", b.api.creates)
				}
				told := slices.ContainsFunc(b.events.notes, func(note string) bool {
					return strings.HasPrefix(note, eventDuplicateSerialNumber) && strings.Contains(note, "metal/old") && strings.Contains(note, "delete that host")
				})
				if told != tt.told || len(b.events.notes) > 2 {
					t.Errorf("events %q; want the older host named: %v", b.events.notes, tt.told)
				}
			})
		})
	}
}

func TestHostThatAPersonRegistersMeanwhileGetsNoTwin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newFakeNodes("n1")
		engine.macs["n1"] = append(engine.macs["n1"], "00:1b:21:00:ff:01")
		b := newBench(t, engine, nil)
		engine.onRefresh = func(n int) {
			if n == 2 { // just before the host would be created
				h := existingHost("mine", func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00:1b:21:00:ff:01" })
				b.r.index.put(&h)
			}
		}
		b.reconcile()
		if b.api.creates != 0 || b.api.resource.Status.Counts.Matched != 1 {
			t.Errorf("%d hosts were created, %d matched; want the registered host matched", b.api.creates, b.api.resource.Status.Counts.Matched)
		}
	})
}

func TestNodeThatIsTakenMeanwhileGetsNoHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newFakeNodes("n1")
		b := newBench(t, engine, nil)
		engine.onRefresh = func(n int) {
			if n == 2 {
				taken := engine.nodes["n1"]
				taken.InstanceID = "1f1c"
				engine.nodes["n1"] = taken
			}
		}
		b.reconcile()
		if b.api.creates != 0 {
			t.Error("a host was created for a node in use")
		}
	})
}

func TestChangedNodesArePolledForSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newFakeNodes()
		b := newBench(t, engine, func(d *discoveryv1.BareMetalHostDiscovery) {
			d.Spec.PollInterval = metav1.Duration{Duration: time.Hour}
		})
		b.reconcile()
		engine.nodes["n1"] = provisioner.Node{ID: "n1", State: "enroll"}
		engine.macs["n1"] = []string{"00:1b:21:00:ff:01"}
		engine.generation++
		b.r.markChanged(client.ObjectKeyFromObject(b.api.resource))
		if wait := b.reconcile(); wait != minPollInterval {
			t.Errorf("the next poll is after %s, want %s", wait, minPollInterval)
		}
		<-time.After(minPollInterval)
		b.reconcile()
		if b.api.creates != 1 {
			t.Error("no host was created")
		}
	})
}

func TestTombstoneThatAnotherProcessWroteCountsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newFakeNodes("n1")
		b := newBench(t, engine, func(d *discoveryv1.BareMetalHostDiscovery) { d.Spec.Rediscovery = discoveryv1.RediscoveryDeny })
		stale := b.api.resource.DeepCopy()
		b.r.Client = &staleCache{fakeAPI: b.api, resource: stale}
		gone := existingHost("gone", func(h *v1alpha1.BareMetalHost) {
			h.Spec.BootMACAddress = engine.macs["n1"][0]
			h.Annotations = map[string]string{v1alpha1.DiscoverySourceAnnotation: "metal/racks/n0"}
		})
		if err := RecordDeletion(t.Context(), b.api, b.api, &gone, time.Now()); err != nil {
			t.Fatal(err)
		}
		b.reconcile()
		if got := b.api.resource.Status; b.api.creates != 0 || len(got.Skipped) != 1 || got.Skipped[0].Reason != discoveryv1.SkipTombstone || len(got.Tombstones) != 1 {
			t.Errorf("%d hosts, status %+v; want the machine kept away", b.api.creates, got)
		}
	})
}

func TestHostThatGoesWhileNodesAreReadKeepsItsMachineAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newFakeNodes("n2")
		b := newBench(t, engine, func(d *discoveryv1.BareMetalHostDiscovery) { d.Spec.Rediscovery = discoveryv1.RediscoveryDeny })
		h := existingHost("leaving", func(h *v1alpha1.BareMetalHost) {
			h.Spec.BootMACAddress = engine.macs["n2"][0]
			h.Annotations = map[string]string{v1alpha1.DiscoverySourceAnnotation: "metal/racks/n1"}
		})
		b.r.index.put(&h)
		engine.onInventory = func() {
			if err := RecordDeletion(t.Context(), b.api, b.api, &h, time.Now()); err != nil {
				t.Error(err)
			}
			b.r.index.remove(h.UID)
		}
		b.reconcile()
		if got := b.api.resource.Status; b.api.creates != 0 || len(got.Skipped) != 1 || got.Skipped[0].Reason != discoveryv1.SkipTombstone {
			t.Errorf("%d hosts, skipped %+v; want the machine kept away", b.api.creates, got.Skipped)
		}
	})
}

// staleCache shows an older version of the resource.
type staleCache struct {
	*fakeAPI
	resource *discoveryv1.BareMetalHostDiscovery
}

func (c *staleCache) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if into, ok := obj.(*discoveryv1.BareMetalHostDiscovery); ok {
		c.resource.DeepCopyInto(into)
	}
	return nil
}

func TestDeletionThatDiscoverySeesIsKeptBeforeNodesAreDecidedAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newFakeNodes("n1")
		b := newBench(t, engine, func(d *discoveryv1.BareMetalHostDiscovery) { d.Spec.Rediscovery = discoveryv1.RediscoveryDeny })
		gone := existingHost("gone", func(h *v1alpha1.BareMetalHost) {
			h.Spec.BootMACAddress = engine.macs["n1"][0]
			h.Annotations = map[string]string{v1alpha1.DiscoverySourceAnnotation: "metal/racks/n0"}
		})
		if _, ok := b.r.deletionSeen(&gone); !ok {
			t.Fatal("the deletion is nobody's")
		}
		b.reconcile()
		if b.api.creates != 0 || len(b.api.resource.Status.Tombstones) != 1 {
			t.Errorf("%d hosts, tombstones %v; want the machine kept away", b.api.creates, b.api.resource.Status.Tombstones)
		}
	})
}

func TestMetricsOfADeletedResourceGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newFakeNodes("n1", "n2")
		engine.inventories["n2"] = provisioner.ErrNoInventory
		b := newBench(t, engine, nil)
		b.reconcile()
		name := client.ObjectKeyFromObject(b.api.resource)
		b.api.resource = nil
		if _, err := b.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: name}); err != nil {
			t.Fatal(err)
		}
		families, err := b.reg.Gather()
		if err != nil || len(families) != 0 {
			t.Errorf("metrics %v, %v; want none", families, err)
		}
	})
}

// added are the requests that were put into a queue.
type added struct {
	requests
	all map[types.NamespacedName]bool
}

func (a added) Add(request ctrl.Request) { a.all[request.NamespacedName] = true }

func TestNodesAreTakenOverSoonFromAResourceThatIsSuspendedOrDeleted(t *testing.T) {
	for name, end := range map[string]func(b *bench, queue requests){
		"suspended": func(b *bench, queue requests) {
			before := b.api.older.DeepCopy()
			b.api.older.Spec.Suspend = true
			b.r.resourceChanges().Update(b.Context(), event.TypedUpdateEvent[*discoveryv1.BareMetalHostDiscovery]{ObjectOld: before, ObjectNew: b.api.older}, queue)
		},
		"deleted": func(b *bench, queue requests) {
			before := b.api.older
			b.api.older = nil
			b.r.resourceChanges().Delete(b.Context(), event.TypedDeleteEvent[*discoveryv1.BareMetalHostDiscovery]{Object: before}, queue)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, newFakeNodes("n1"), func(d *discoveryv1.BareMetalHostDiscovery) {
					d.CreationTimestamp = metav1.Now()
					d.Spec.PollInterval = metav1.Duration{Duration: time.Hour}
				})
				b.api.older = b.api.resource.DeepCopy()
				b.api.older.Name, b.api.older.UID, b.api.older.CreationTimestamp = "first", "first", metav1.Time{}
				if b.reconcile(); b.api.creates != 0 {
					t.Fatal("a host was created, though an older resource takes all nodes")
				}
				queue := added{all: map[types.NamespacedName]bool{}}
				end(b, queue)
				<-time.After(b.reconcile())
				b.reconcile()
				if key := client.ObjectKeyFromObject(b.api.resource); !queue.all[key] || b.api.creates != 1 {
					t.Errorf("asked for passes over %v, and %d hosts were created; want one of %s", queue.all, b.api.creates, key)
				}
				if waited := time.Since(b.api.resource.CreationTimestamp.Time); waited > minPollInterval {
					t.Errorf("it took %s", waited)
				}
			})
		})
	}
}
