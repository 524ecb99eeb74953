package explain

import (
	"strings"
	"testing"
	"time"

	discovery "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

func TestEverySkipReasonHasAdvice(t *testing.T) {
	for _, reason := range []discovery.SkipReason{
		discovery.SkipMissingDetail, discovery.SkipMissingMAC, discovery.SkipNoInventory, discovery.SkipDuplicateMAC,
		discovery.SkipNameConflict, discovery.SkipNameInvalid, discovery.SkipIgnored, discovery.SkipTombstone,
		discovery.SkipLimitReached, discovery.SkipCreateForbidden, discovery.SkipNodeBusy,
	} {
		f := Facts{Node: aNode(node.Enroll), Discoveries: []Discovery{{Skipped: &Skipped{Reason: string(reason)}}}}
		if text := discoveryAdvice(f); strings.HasPrefix(text, "Fix what the reason names") || strings.Contains(text, "%") {
			t.Errorf("%s: %q", reason, text)
		}
	}
}

func TestMachineWithoutInventoryGetsOneInAWayThatItsNodeAllows(t *testing.T) {
	never := func(n *Node) { n.InspectionStarted, n.InspectionFinished = time.Time{}, time.Time{} }
	for name, tc := range map[string]struct {
		node *Node
		want string
	}{
		"the engine enrolled it": {aNode(node.Enroll), "Delete the node with: ingot node delete u1, and boot the machine into the ramdisk, which enrols it again."},
		"a person registered it": {aNode(node.Enroll, never), "Inspect it with: ingot node manage --wait u1; then ingot node inspect --wait u1"},
		"it can be inspected":    {aNode(node.Manageable), "Inspect it with: ingot node inspect --wait u1"},
		"it is available":        {aNode(node.Available, never), "Inspect it with: ingot node manage --wait u1; then ingot node inspect --wait u1"},
	} {
		f := Facts{Node: tc.node, Discoveries: []Discovery{{Skipped: &Skipped{Reason: string(discovery.SkipNoInventory)}}}}
		if got := discoveryAdvice(f); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestNodeIsUsedByItsStateInstanceOrOwner(t *testing.T) {
	for name, tt := range map[string]struct {
		state, instance, owner string
		want                   bool
	}{
		"free":          {"available", "", "", false},
		"deployed":      {"active", "", "", true},
		"with instance": {"available", "i1", "", true},
		"with owner":    {"available", "", "somebody", true},
	} {
		var n engineNode
		n.ProvisionState, n.InstanceUUID, n.Owner = tt.state, tt.instance, tt.owner
		if got := n.facts().Used; got != tt.want {
			t.Errorf("%s: used %t, want %t", name, got, tt.want)
		}
	}
}

func TestFailureOfAHostWithABMCIsMendedInTheHost(t *testing.T) {
	refused := func(n *Node) {
		n.LastError = "the BMC refuses the user name or password: check redfish_username and redfish_password"
	}
	withBMC := func(h *Host) { h.HasBMC, h.Secret = true, "web-1-bmc" }
	for name, tt := range map[string]struct {
		host    *Host
		node    *Node
		retries bool
	}{
		"registering": {aHost(v1alpha1.StateRegistering, withBMC), aNode(node.Enroll, refused), true},
		"inspecting":  {aHost(v1alpha1.StateInspecting, withBMC), aNode(node.InspectFailed, refused), true},
		"deploying":   {aHost(v1alpha1.StateProvisioning, withBMC, func(h *Host) { h.ErrorMessage = "no" }), aNode(node.DeployFailed, refused), true},
		"in use":      {aHost(v1alpha1.StateProvisioned, withBMC), aNode(node.Active, refused), false},
	} {
		got := advice(Facts{Now: now, Host: tt.host, Node: tt.node})[0]
		if !strings.Contains(got, "spec.bmc and the Secret web-1-bmc of the host, not in the node") || strings.Contains(got, "ingot node") {
			t.Errorf("%s: %q, want it to lead to the host and not to the node", name, got)
		}
		if strings.Contains(got, "the operator retries by itself") != tt.retries {
			t.Errorf("%s: %q, want retries %t", name, got, tt.retries)
		}
	}
	if got := hostFacts(&v1alpha1.BareMetalHost{Spec: v1alpha1.BareMetalHostSpec{BMC: v1alpha1.BMCDetails{Address: "a", CredentialsName: "web-1-bmc"}}}).Secret; got != "web-1-bmc" {
		t.Errorf("Secret %q, want that of the host", got)
	}
}
