package explain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
)

// now is the time of all situations.
var now = time.Date(2026, 3, 4, 10, 14, 11, 0, time.UTC)

func before(d time.Duration) time.Time { return now.Add(-d) }

// aHost is an idle host without a BMC; change makes the situation of it.
func aHost(state v1alpha1.ProvisioningState, change ...func(*Host)) *Host {
	h := &Host{
		Namespace: "metal3", Name: "web-1", State: string(state), NodeID: "u1", MAC: "52:54:00:00:00:01",
		Created: before(time.Hour), Finalizers: []string{v1alpha1.HostFinalizer},
		Conditions: map[string]Condition{
			v1alpha1.ManageableCondition:  {True: true, Since: before(12 * time.Minute)},
			v1alpha1.ProgressingCondition: {Since: before(40 * time.Second)},
		},
	}
	for _, c := range change {
		c(h)
	}
	return h
}

// aNode is a node whose ramdisk lives.
func aNode(state node.State, change ...func(*Node)) *Node {
	n := &Node{
		UUID: "u1", State: state, StateSince: before(12 * time.Minute), Heartbeat: before(20 * time.Second),
		InspectionStarted: before(14 * time.Minute), InspectionFinished: before(13 * time.Minute),
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func TestWorkInTheRamdiskNamesItsStepAndWhatItWaitsFor(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Node)
		want   string
	}{
		"step":    {func(n *Node) { n.Step = "deploy.write_image" }, "It runs the step deploy.write_image."},
		"ramdisk": {func(n *Node) { n.AwaitsRamdisk = true }, "images or the first heartbeat of the ramdisk"},
	} {
		got := strings.Join(Sentences(Facts{Now: now, Asked: "u1", Node: aNode(node.DeployWait, tc.change)}), " ")
		if !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q lacks %q", name, got, tc.want)
		}
	}
}

func TestEverySituationIsExplained(t *testing.T) {
	for name, test := range map[string]struct {
		facts Facts
		want  []string
	}{
		"nobody knows it": {
			Facts{Asked: "web-9", Where: "metal3"},
			[]string{
				`Kubernetes has no host "web-9" in namespace metal3.`,
				`The engine has no node "web-9".`,
				"See the hosts with: kubectl get baremetalhosts -A. See the nodes with: ingot node list.",
			},
		},
		"no operator saw the host": {
			Facts{Host: aHost(v1alpha1.StateNone, func(h *Host) { h.NodeID, h.Conditions = "", nil })},
			[]string{
				"Host metal3/web-1 has not been processed by an operator yet (for 60 minutes, since 09:14:11).",
				"If that lasts, start an operator for this cluster with: ingot operator.",
			},
		},
		"not supported by the operator": {
			Facts{Host: aHost(v1alpha1.StateNone, func(h *Host) {
				const message = "Registration over a BMC is not available"
				h.NodeID, h.HasBMC = "", true
				h.Conditions = map[string]Condition{v1alpha1.ManageableCondition: {Message: message, Since: h.Created}}
				h.Warning = &Event{Reason: v1alpha1.RegistrationFailedReason, Message: message, At: h.Created}
			})},
			[]string{
				"Host metal3/web-1 is waiting to be registered (for 60 minutes, since 09:14:11).",
				"The operator says: Registration over a BMC is not available.",
			},
		},
		"unknown to the engine": {
			Facts{Host: aHost(v1alpha1.StateUnmanaged, func(h *Host) { h.NodeID = "" })},
			[]string{
				"Host metal3/web-1 is unmanaged: nothing is known about its machine (for 12 minutes, since 10:02:11).",
				"It waits for its machine to boot the ramdisk, which posts an inventory to the engine (52:54:00:00:00:01).",
				"Power the machine on and let it boot the ramdisk from the network, or fill in spec.bmc.",
			},
		},
		"importing without details": {
			Facts{
				Host: aHost(v1alpha1.StateImporting, func(h *Host) {
					h.Conditions[v1alpha1.ProgressingCondition] = Condition{True: true, Since: before(40 * time.Second), Reason: v1alpha1.ImportingReason}
				}),
				Node: aNode(node.Enroll, func(n *Node) { n.InspectionFinished = time.Time{} }),
			},
			[]string{
				"Host metal3/web-1 is importing the inventory of its node (for 40 seconds, since 10:13:31).",
				"It waits for the inventory of its node.",
				`The engine's node u1 is in state "enroll" (for 12 minutes, since 10:02:11).`,
				"Its inspection is running (for 14 minutes, since 10:00:11).",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"There is nothing to do; the work continues by itself.",
			},
		},
		"preparing for long": {
			Facts{
				Host: aHost(v1alpha1.StatePreparing, func(h *Host) {
					h.Conditions[v1alpha1.ProgressingCondition] = Condition{True: true, Since: before(30 * time.Minute), Message: "The engine verifies the node."}
				}),
				Node: aNode(node.Verifying, func(n *Node) { n.Target, n.Reservation = node.Manageable, "engine-1" }),
			},
			[]string{
				"Host metal3/web-1 is being prepared for use (for 30 minutes, since 09:44:11).",
				"The operator says: The engine verifies the node.",
				`The engine's node u1 is in state "verifying", target "manageable" (for 12 minutes, since 10:02:11).`,
				"The engine is working on it (reserved by engine-1).",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"The work continues by itself, but takes longer than usual: check that the engine, the operator and the machine's ramdisk run.",
			},
		},
		"suspended": {
			Facts{
				HostProblem: "no cluster",
				Node: aNode(node.Cleaning, func(n *Node) {
					n.Target, n.Reservation, n.Maintenance = node.Available, node.SuspendedHolder, true
				}),
			},
			[]string{
				`The engine's node u1 is in state "cleaning", target "available" (for 12 minutes, since 10:02:11).`,
				"Its work is suspended, because the engine's database was restored from an older state, or because many machines differ from what it has stored.",
				"It is in maintenance, so the engine starts no work on it; no reason is given.",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"Kubernetes cannot be reached: no cluster.",
				"See the reason with: ingot suspension show. Look at the machine; then let the work go on with: ingot suspension resume u1, or give it up with: ingot suspension drop u1.",
			},
		},
		"available and alive": {
			Facts{Host: aHost(v1alpha1.StateAvailable), Node: aNode(node.Available)},
			[]string{
				"Host metal3/web-1 is available (for 12 minutes, since 10:02:11).",
				`The engine's node u1 is in state "available" (for 12 minutes, since 10:02:11).`,
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"It is free to use: set spec.image, or let a machine of Cluster API choose it.",
			},
		},
		"available and claimed": {
			Facts{Host: aHost(v1alpha1.StateAvailable, func(h *Host) { h.Consumer = "Metal3Machine default/m1" }), Node: aNode(node.Available)},
			[]string{
				"Host metal3/web-1 is available (for 12 minutes, since 10:02:11).",
				"It is used by Metal3Machine default/m1.",
				`The engine's node u1 is in state "available" (for 12 minutes, since 10:02:11).`,
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
			},
		},
		"available but its agent is silent": {
			Facts{
				Host: aHost(v1alpha1.StateAvailable, func(h *Host) {
					h.Conditions[v1alpha1.AvailableForProvisioningCondition] = Condition{
						Reason: v1alpha1.AgentNotConnectedReason, Message: "The ramdisk agent is not connected",
					}
				}),
				Node: aNode(node.Available, func(n *Node) { n.Heartbeat = before(26 * time.Hour) }),
			},
			[]string{
				"Host metal3/web-1 is available (for 12 minutes, since 10:02:11).",
				"The operator says: The ramdisk agent is not connected.",
				`The engine's node u1 is in state "available" (for 12 minutes, since 10:02:11).`,
				"Its ramdisk sent the last heartbeat 26 hours ago, at 2026-03-03 08:14:11. Without a running ramdisk nothing can be deployed, because the host has no BMC.",
				"Boot the machine into the ramdisk again.",
			},
		},
		"available but the operator misses its agent": {
			Facts{
				Host: aHost(v1alpha1.StateAvailable, func(h *Host) {
					h.Conditions[v1alpha1.AvailableForProvisioningCondition] = Condition{
						Reason: v1alpha1.AgentNotConnectedReason, Message: "The ramdisk agent is not connected",
					}
				}),
				Node: aNode(node.Available),
			},
			[]string{
				"Host metal3/web-1 is available (for 12 minutes, since 10:02:11).",
				"The operator says: The ramdisk agent is not connected.",
				`The engine's node u1 is in state "available" (for 12 minutes, since 10:02:11).`,
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"Boot the machine into the ramdisk again.",
			},
		},
		"node in maintenance": {
			Facts{
				Host: aHost(v1alpha1.StateAvailable),
				Node: aNode(node.Available, func(n *Node) { n.Maintenance, n.MaintenanceReason = true, "new disks" }),
			},
			[]string{
				"Host metal3/web-1 is available (for 12 minutes, since 10:02:11).",
				`The engine's node u1 is in state "available" (for 12 minutes, since 10:02:11).`,
				"It is in maintenance, so the engine starts no work on it: new disks.",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"When the reason for the maintenance is gone, end it with: ingot node maintenance unset u1",
			},
		},
		"node in maintenance without a reason": {
			Facts{Node: aNode(node.Manageable, func(n *Node) { n.Maintenance = true }), HostProblem: "connection refused"},
			[]string{
				`The engine's node u1 is in state "manageable" (for 12 minutes, since 10:02:11).`,
				"It is in maintenance, so the engine starts no work on it; no reason is given.",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"Kubernetes cannot be reached: connection refused.",
				"When the reason for the maintenance is gone, end it with: ingot node maintenance unset u1",
			},
		},
		"engine's work failed": {
			Facts{
				Host: aHost(v1alpha1.StatePreparing, func(h *Host) {
					h.ErrorType, h.ErrorMessage, h.ErrorCount = "preparation error", "The node cannot be prepared: disk sda is gone.", 3
				}),
				Node: aNode(node.CleanFailed, func(n *Node) { n.Target, n.LastError = node.Available, "disk sda is gone" }),
			},
			[]string{
				"Host metal3/web-1 is being prepared for use (for 40 seconds, since 10:13:31).",
				"Preparation error: The node cannot be prepared: disk sda is gone (3 times in a row).",
				"It waits for the engine to make its node available.",
				`The engine's node u1 is in state "clean failed", target "available" (for 12 minutes, since 10:02:11).`,
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"Fix what the error names, and try again with: ingot node manage --wait u1; then ingot node provide --wait u1",
			},
		},
		"inspection waits for the object store": {
			Facts{Node: aNode(node.Inspecting, func(n *Node) {
				n.InspectionStarted, n.InspectionFinished = n.StateSince, time.Time{}
				n.LastError = node.StoreWait(n.StateSince, 10*time.Minute, errors.New("it does not answer"))
			})},
			[]string{
				`The engine's node u1 is in state "inspecting" (for 12 minutes, since 10:02:11).`,
				"Its inspection is running (for 12 minutes, since 10:02:11).",
				"Inspection waits for the object store with the inventories since 2026-03-04T10:02:11Z, for at most 10m0s: it does not answer.",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"It has no BareMetalHost.",
				"There is no BareMetalHostDiscovery that would create one.",
				"Repair the object store; the reason is above. The inspection then continues by itself.",
			},
		},
		"a registered node has taken addresses": {
			Facts{Node: aNode(node.Enroll, func(n *Node) { n.LastError = node.AddressesTaken("u2", []string{"02:00:00:00:00:01"}, 3) })},
			[]string{
				`The engine's node u1 is in state "enroll" (for 12 minutes, since 10:02:11).`,
				"Its inspection ended 13 minutes ago, at 10:01:11.",
				"A registered node has taken MAC addresses of this discovered node, because nobody has accepted it: node u2 has 02:00:00:00:00:01 now. It keeps 3: if they belong to the same machine, delete this node.",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"It has no BareMetalHost.",
				"There is no BareMetalHostDiscovery that would create one.",
				"Compare the machine with the registered node. If they are the same, delete this node with: ingot node delete u1",
			},
		},
		"more addresses than an unregistered machine may have": {
			Facts{Node: aNode(node.Enroll, func(n *Node) { n.AddressesLeftOut = 4032 })},
			[]string{
				`The engine's node u1 is in state "enroll" (for 12 minutes, since 10:02:11).`,
				"Its inspection ended 13 minutes ago, at 10:01:11.",
				"It has no ports for 4032 of its machine's MAC addresses, because no person had accepted it when they were posted (auto_discovery.max_ports); its inventory has all of them. A change of the node, such as a name, accepts it; the next inspection then makes the ports.",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"It has no BareMetalHost.",
				"There is no BareMetalHostDiscovery that would create one.",
				"Create a BareMetalHostDiscovery, or a BareMetalHost with one of the machine's MAC addresses.",
			},
		},
		"inspection failed": {
			Facts{Node: aNode(node.InspectFailed, func(n *Node) { n.Target, n.LastError = node.Manageable, "No disk matches." })},
			[]string{
				`The engine's node u1 is in state "inspect failed", target "manageable" (for 12 minutes, since 10:02:11).`,
				"The engine's last work on it failed: No disk matches.",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"It has no BareMetalHost.",
				"There is no BareMetalHostDiscovery that would create one.",
				"Fix what the error names, and try again with: ingot node inspect --wait u1",
			},
		},
		"inspection of a discovered machine failed": {
			Facts{Node: aNode(node.Enroll, func(n *Node) { n.InspectionFinished, n.LastError = time.Time{}, "The ramdisk broke." })},
			[]string{
				`The engine's node u1 is in state "enroll" (for 12 minutes, since 10:02:11).`,
				"The engine's last work on it failed: The ramdisk broke.",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"It has no BareMetalHost.",
				"There is no BareMetalHostDiscovery that would create one.",
				"Fix what the error names, delete the node with: ingot node delete u1, and boot the machine into the ramdisk, which enrols it again.",
			},
		},
		"verification failed": {
			Facts{
				Host: aHost(v1alpha1.StatePreparing),
				Node: aNode(node.Enroll, func(n *Node) { n.LastError = "The agent does not answer." }),
			},
			[]string{
				"Host metal3/web-1 is being prepared for use (for 40 seconds, since 10:13:31).",
				"It waits for the engine to make its node available.",
				`The engine's node u1 is in state "enroll" (for 12 minutes, since 10:02:11).`,
				"Its inspection ended 13 minutes ago, at 10:01:11.",
				"The engine's last work on it failed: The agent does not answer.",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"Fix what the error names, and try again with: ingot node manage --wait u1",
			},
		},
		"paused": {
			Facts{Host: aHost(v1alpha1.StateAvailable, func(h *Host) { h.Paused, h.PausedBy = true, "ops" }), Node: aNode(node.Available)},
			[]string{
				"Host metal3/web-1 is available (for 12 minutes, since 10:02:11).",
				"It is paused, so the operator neither changes nor deletes it (by ops).",
				`The engine's node u1 is in state "available" (for 12 minutes, since 10:02:11).`,
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"To end the pause: kubectl annotate -n metal3 bmh web-1 baremetalhost.metal3.io/paused-",
			},
		},
		"deletion is stuck at the engine": {
			Facts{
				Host: aHost(v1alpha1.StateDeleting, func(h *Host) { h.Deleted = before(15 * time.Minute) }),
				Node: aNode(node.Cleaning, func(n *Node) { n.Target, n.Reservation = node.Available, "engine-1" }),
			},
			[]string{
				"Host metal3/web-1 is being deleted (for 15 minutes, since 09:59:11).",
				"It waits until its node is deleted.",
				`The engine's node u1 is in state "cleaning", target "available" (for 12 minutes, since 10:02:11).`,
				"The engine is working on it (reserved by engine-1).",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"This takes longer than usual: check that an operator runs, or delete the node with: ingot node delete u1",
			},
		},
		"deletion is held by somebody else": {
			Facts{Host: aHost(v1alpha1.StateDeleting, func(h *Host) {
				h.NodeID, h.Deleted, h.Finalizers = "", before(15*time.Minute), []string{"example.com/backup"}
			})},
			[]string{
				"Host metal3/web-1 is being deleted (for 15 minutes, since 09:59:11).",
				"It waits for others to remove their finalizers: example.com/backup.",
				"Find out why the owners of these finalizers do not remove them.",
			},
		},
		"deletion is fresh": {
			Facts{Host: aHost(v1alpha1.StateAvailable, func(h *Host) { h.NodeID, h.Deleted = "", before(5*time.Second) })},
			[]string{
				"Host metal3/web-1 is being deleted (for 5 seconds, since 10:14:06).",
				"Its node is deleted; it waits for the operator to remove its finalizer.",
				"There is nothing to do; the deletion continues by itself.",
			},
		},
		"engine lost the node": {
			Facts{Host: aHost(v1alpha1.StateAvailable)},
			[]string{
				"Host metal3/web-1 is available (for 12 minutes, since 10:02:11).",
				"The engine no longer has its node u1.",
				"Power the machine on and let it boot the ramdisk, so that the engine enrols it again.",
			},
		},
		"discovery skipped the node": {
			Facts{
				Node: aNode(node.Enroll),
				Discoveries: []Discovery{{Namespace: "metal3", Name: "rack", Skipped: &Skipped{
					Reason: "DuplicateMAC", Message: "Node u7 has the MAC address 52:54:00:00:00:01, too.", Since: before(3 * time.Minute),
				}}},
			},
			[]string{
				`The engine's node u1 is in state "enroll" (for 12 minutes, since 10:02:11).`,
				"Its inspection ended 13 minutes ago, at 10:01:11.",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"It has no BareMetalHost.",
				"Discovery metal3/rack skips it, DuplicateMAC: Node u7 has the MAC address 52:54:00:00:00:01, too (for 3 minutes, since 10:11:11).",
				"Find the other node with this MAC address, and delete the one that is stale with: ingot node delete.",
			},
		},
		"discovery is suspended": {
			Facts{Node: aNode(node.Enroll), Discoveries: []Discovery{{Namespace: "metal3", Name: "rack", Suspended: true}}},
			[]string{
				`The engine's node u1 is in state "enroll" (for 12 minutes, since 10:02:11).`,
				"Its inspection ended 13 minutes ago, at 10:01:11.",
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"It has no BareMetalHost.",
				"Discovery metal3/rack is suspended.",
				`Resume discovery with: kubectl patch -n metal3 baremetalhostdiscovery rack --type merge -p '{"spec":{"suspend":false}}'`,
			},
		},
		"nobody discovers": {
			Facts{Node: aNode(node.InspectWait, func(n *Node) {
				n.InspectionFinished, n.Heartbeat, n.Target = time.Time{}, time.Time{}, node.Manageable
			})},
			[]string{
				`The engine's node u1 is in state "inspect wait", target "manageable" (for 12 minutes, since 10:02:11).`,
				"Its inspection waits for the machine's ramdisk, which a person has to start if the engine cannot (for 14 minutes, since 10:00:11).",
				"Its ramdisk has sent no heartbeat yet.",
				"It has no BareMetalHost.",
				"There is no BareMetalHostDiscovery that would create one.",
				"Create a BareMetalHostDiscovery, or a BareMetalHost with one of the machine's MAC addresses.",
			},
		},
		"heartbeats are refused": {
			Facts{Node: aNode(node.Enroll, func(n *Node) {
				n.Heartbeat = time.Time{}
				n.Refusals = []node.HeartbeatRefusal{
					{Reason: node.RefusedNetwork, URL: "https://192.0.2.7:9999", At: before(time.Hour)},
					{Reason: node.RefusedNoToken, URL: "https://192.0.2.8:9999", At: before(time.Minute)},
				}
			})},
			[]string{
				`The engine's node u1 is in state "enroll" (for 12 minutes, since 10:02:11).`,
				"Its inspection ended 13 minutes ago, at 10:01:11.",
				"The engine has accepted no heartbeat of its ramdisk yet.",
				`The engine refused a heartbeat with the callback URL "https://192.0.2.7:9999": its callback URL is outside of the permitted networks (outside-networks, 60 minutes ago, at 09:14:11).`,
				`The engine refused a heartbeat with the callback URL "https://192.0.2.8:9999": it has no agent token (no-token, 60 seconds ago, at 10:13:11).`,
				"It has no BareMetalHost.",
				"There is no BareMetalHostDiscovery that would create one.",
				node.RefusedNoToken.Advice() + ".",
			},
		},
		"heartbeats were refused long ago": {
			Facts{Node: aNode(node.Manageable, func(n *Node) {
				n.Refusals = []node.HeartbeatRefusal{{Reason: node.RefusedPlainHTTP, URL: "http://192.0.2.7:9999", At: before(6 * time.Minute)}}
			}), HostProblem: "no cluster"},
			[]string{
				`The engine's node u1 is in state "manageable" (for 12 minutes, since 10:02:11).`,
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				`The engine refused a heartbeat with the callback URL "http://192.0.2.7:9999": its callback URL is plain http (plain-http, 6 minutes ago, at 10:08:11).`,
				"Kubernetes cannot be reached: no cluster.",
				"Make it available with: ingot node provide --wait u1",
			},
		},
		"node belongs to somebody": {
			Facts{Node: aNode(node.Active, func(n *Node) { n.Name, n.User = "db-1", "it has the name db-1" })},
			[]string{
				`The engine's node u1 (db-1) is in state "active" (for 12 minutes, since 10:02:11).`,
				"It has no BareMetalHost.",
				"Discovery creates no host for it because it is in use: it has the name db-1.",
				"Create a BareMetalHost for it if Kubernetes should manage it.",
			},
		},
		"node in use carries the mark of a host that is not here": {
			Facts{Node: aNode(node.Active, func(n *Node) {
				n.User, n.Marked, n.Used = "extra.ingot_host names the host c1/metal/web", true, true
			})},
			[]string{
				`The engine's node u1 is in state "active" (for 12 minutes, since 10:02:11).`,
				"It has no BareMetalHost.",
				"Discovery creates no host for it because it is in use: extra.ingot_host names the host c1/metal/web.",
				"If that host is gone for good, delete the node in maintenance, which leaves the machine as it is: ingot node maintenance set u1; then ingot node delete u1",
			},
		},
		"node carries the mark and the name of a host that is not here": {
			Facts{Node: aNode(node.Available, func(n *Node) {
				n.Name, n.User, n.Marked = "metal~web", "extra.ingot_host names the host c1/metal/web", true
			})},
			[]string{
				`The engine's node u1 (metal~web) is in state "available" (for 12 minutes, since 10:02:11).`,
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"It has no BareMetalHost.",
				"Discovery creates no host for it because it is in use: extra.ingot_host names the host c1/metal/web.",
				"If that host is gone for good, free the node with: ingot node unset u1 --name --extra ingot_host",
			},
		},
		"engine unreachable": {
			Facts{
				Host: aHost(v1alpha1.StateImporting, func(h *Host) {
					h.Warning = &Event{Reason: "EngineUnreachable", Message: "no answer", At: before(3 * time.Minute)}
				}),
				NodeProblem: "http://h:6385: connection refused", NodeError: ironic.ErrUnreachable, NodeAdvice: "Start it.",
			},
			[]string{
				"Host metal3/web-1 is importing the inventory of its node (for 40 seconds, since 10:13:31).",
				"Its last warning is EngineUnreachable: no answer (3 minutes ago, at 10:11:11).",
				"It waits for the inventory of its node.",
				"The engine cannot be reached: http://h:6385: connection refused.",
				"Start it.",
			},
		},
		"engine that fails": {
			Facts{Host: aHost(v1alpha1.StateAvailable), NodeProblem: "out of memory", NodeError: ironic.ErrServer},
			[]string{
				"Host metal3/web-1 is available (for 12 minutes, since 10:02:11).",
				"The engine does not show the node: out of memory.",
			},
		},
		"Kubernetes unreachable": {
			Facts{Node: aNode(node.Cleaning, func(n *Node) { n.Target = node.Available }), HostProblem: "connection refused"},
			[]string{
				`The engine's node u1 is in state "cleaning", target "available" (for 12 minutes, since 10:02:11).`,
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"Kubernetes cannot be reached: connection refused.",
				"The work continues by itself, but takes longer than usual: check that the engine, the operator and the machine's ramdisk run.",
			},
		},
		"free node, Kubernetes unreachable": {
			Facts{Node: aNode(node.Manageable), HostProblem: "connection refused"},
			[]string{
				`The engine's node u1 is in state "manageable" (for 12 minutes, since 10:02:11).`,
				"Its ramdisk sent the last heartbeat 20 seconds ago, at 10:13:51.",
				"Kubernetes cannot be reached: connection refused.",
				"Make it available with: ingot node provide --wait u1",
			},
		},
		"neither can be asked": {
			Facts{Asked: "web-1", NodeProblem: "connection refused", NodeError: ironic.ErrUnreachable, NodeAdvice: "Start it.", HostProblem: "no kubeconfig was found"},
			[]string{
				"The engine cannot be reached: connection refused.",
				"Kubernetes cannot be reached: no kubeconfig was found.",
				"Start it.",
			},
		},
		"node unknown, Kubernetes unreachable": {
			Facts{Asked: "web-1", HostProblem: "no kubeconfig was found"},
			[]string{
				`The engine has no node "web-1".`,
				"Kubernetes cannot be reached: no kubeconfig was found.",
				"Name the cluster with --kubeconfig or KUBECONFIG to include its hosts.",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.facts.Now = now
			if diff := cmp.Diff(test.want, Sentences(test.facts)); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheMostSpecificConditionIsShown(t *testing.T) {
	all := map[string]Condition{
		v1alpha1.ManageableCondition:               {Message: "no BMC driver"},
		v1alpha1.ProgressingCondition:              {Message: "nothing to do"},
		v1alpha1.AvailableForProvisioningCondition: {Message: "not available"},
	}
	h := aHost(v1alpha1.StateRegistering, func(h *Host) { h.Conditions = all })
	for _, step := range []struct{ silence, want string }{
		{"", "no BMC driver"},
		{v1alpha1.ManageableCondition, "not available"},
		{v1alpha1.AvailableForProvisioningCondition, "nothing to do"},
		{v1alpha1.ProgressingCondition, ""},
	} {
		delete(h.Conditions, step.silence)
		if got := h.operatorMessage(); got != step.want {
			t.Errorf("without %s: got %q, want %q", step.silence, got, step.want)
		}
	}
	h.Conditions[v1alpha1.ProgressingCondition] = Condition{True: true, Message: "preparing"}
	h.Conditions[v1alpha1.AvailableForProvisioningCondition] = Condition{Message: "not available"}
	if got := h.operatorMessage(); got != "preparing" {
		t.Errorf("got %q, want what is being done", got)
	}
	h.Conditions[v1alpha1.ProgressingCondition] = Condition{Message: "kept powered off"}
	h.Conditions[v1alpha1.AvailableForProvisioningCondition] = Condition{Reason: v1alpha1.NotAvailableReason, Message: "in state provisioned"}
	if got := h.operatorMessage(); got != "kept powered off" {
		t.Errorf("got %q, want what a deployed host does, and not its state once more", got)
	}
	h.Conditions[v1alpha1.AvailableForProvisioningCondition] = Condition{True: true}
	if got := h.operatorMessage(); got != "" {
		t.Errorf("got %q of an available host", got)
	}
}

func TestEveryStateOfAHostHasADescription(t *testing.T) {
	for _, state := range []v1alpha1.ProvisioningState{
		v1alpha1.StateNone, v1alpha1.StateUnmanaged, v1alpha1.StateImporting, v1alpha1.StateRegistering, v1alpha1.StateMatchProfile,
		v1alpha1.StateInspecting, v1alpha1.StatePreparing, v1alpha1.StateReady, v1alpha1.StateAvailable, v1alpha1.StateProvisioning,
		v1alpha1.StateProvisioned, v1alpha1.StateExternallyProvisioned, v1alpha1.StateDeprovisioning,
		v1alpha1.StatePoweringOffBeforeDelete, v1alpha1.StateDeleting,
	} {
		if hostClauses[state] == "" {
			t.Errorf("state %q has no words", state)
		}
	}
}

func TestDurationsAreWrittenForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "a moment", -time.Hour: "a moment", 1500 * time.Millisecond: "1 second", 90 * time.Second: "90 seconds",
		12 * time.Minute: "12 minutes", 119 * time.Minute: "119 minutes", 2 * time.Hour: "2 hours", 50 * time.Hour: "2 days",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
