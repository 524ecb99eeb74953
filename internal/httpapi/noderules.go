package httpapi

import (
	"bytes"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// patchStates are the states in which clients may change a node although it has a
// target provision state.
var patchStates = []node.State{
	node.DeployFailed, node.InspectFailed, node.InspectWait, node.CleanFailed, node.ErrorState, node.Verifying,
	node.AdoptFailed, node.RescueFailed, node.UnrescueFailed, node.ServiceHold, node.ServiceFailed,
}

// hardwareChangeStates are the states in which the resource class of a node may change. The driver
// and the interfaces may change in these states and in maintenance. In the same cases, removing the
// instance_uuid may end an allocation.
var hardwareChangeStates = []node.State{node.Enroll, node.Inspecting, node.InspectWait, node.Manageable, node.Available}

// strictInspectingSince is the first microversion 1.N in which a patch of a node during
// inspection is a conflict.
const strictInspectingSince = 39

// checkPatch checks whether the state of n allows the edits. Its errors are
// *node.ConflictError.
func checkPatch(n *node.Node, edits []edit[node.Node], version int) error {
	if !allowsPatch(n, version) && (!n.Maintenance || !onlyRemovesInstance(edits)) {
		return node.Conflict("Node %s cannot be changed while it is in state %q; wait until the work ends, or abort it.", n.UUID, n.ProvisionState)
	}
	return nil
}

// checkHardware checks whether the state of old allows the changes of its hardware. A field that a
// client set to its present value is no change. Even maintenance does not allow changing the
// resource class of a node in use, because whoever placed the instance relies on it.
func checkHardware(old, n *node.Node) error {
	if slices.Contains(hardwareChangeStates, old.ProvisionState) {
		return nil
	}
	if n.ResourceClass != old.ResourceClass && old.ResourceClass != "" {
		return node.Conflict("The field %q of node %s cannot be changed in state %q; allowed are %s.",
			"resource_class", n.UUID, n.ProvisionState, node.Choices(hardwareChangeStates))
	}
	if field := changedHardware(old, n); field != "" && !old.Maintenance {
		return node.Conflict("The field %q of node %s cannot be changed in state %q; allowed are %s, or any state in maintenance.",
			field, n.UUID, n.ProvisionState, node.Choices(hardwareChangeStates))
	}
	return nil
}

// changedHardware returns the first changed field among driver and interfaces, or "".
func changedHardware(old, n *node.Node) string {
	if n.Driver != old.Driver {
		return "driver"
	}
	for kind, name := range n.Interfaces {
		if name != old.Interfaces[kind] {
			return node.InterfaceKind(kind).Field()
		}
	}
	return ""
}

func allowsPatch(n *node.Node, version int) bool {
	if n.ProvisionState == node.Inspecting {
		return version < strictInspectingSince
	}
	return n.TargetProvisionState == "" || slices.Contains(patchStates, n.ProvisionState)
}

func onlyRemovesInstance(edits []edit[node.Node]) bool {
	for _, e := range edits {
		if e.field.name != "instance_uuid" || e.op.Op != "remove" {
			return false
		}
	}
	return len(edits) > 0
}

// checkConsistent checks the rules that involve several fields of a node that a client
// created or changed. old is the node before the change, nil for a new node.
func checkConsistent(old, n *node.Node) error {
	switch {
	case (old == nil || !bytes.Equal(old.Properties, n.Properties)) && !textOrAbsent(n.Properties, "capabilities"):
		return node.Invalid(`properties.capabilities must be a text like "boot_mode:uefi,cpu_vt:true".`)
	case n.ProtectedReason != "" && !n.Protected:
		return node.Invalid("protected_reason needs protected to be true.")
	case n.RetiredReason != "" && !n.Retired:
		return node.Invalid("retired_reason needs retired to be true.")
	case n.ParentNode != "" && n.ParentNode == n.UUID:
		return node.Invalid("Node %s cannot be its own parent.", n.UUID)
	case (old == nil || !bytes.Equal(n.Properties, old.Properties)) && !canonicalCapabilities(n.Properties):
		return node.Invalid("The capabilities in properties must be one text of the form \"key:value,key:value\".")
	case old == nil && n.Protected:
		return node.Invalid("A new node cannot be protected; only a node in state active or rescue can.")
	case old == nil:
		return nil
	case n.Protected && !old.Protected && n.ProvisionState != node.Active && n.ProvisionState != node.Rescue:
		return node.Conflict("Node %s can be protected only in the states active and rescue; its state is %q.", n.UUID, n.ProvisionState)
	case n.Retired && !old.Retired && n.ProvisionState == node.Available:
		return node.Conflict("Node %s cannot be retired in state %q; move it to manageable first.", n.UUID, n.ProvisionState)
	case n.InstanceUUID != "" && old.InstanceUUID != "" && n.InstanceUUID != old.InstanceUUID:
		return node.Conflict("Node %s is associated with instance %s.", n.UUID, old.InstanceUUID)
	case n.InstanceUUID == "" && old.InstanceUUID != "" && old.AllocationUUID != "" && !old.Maintenance && !slices.Contains(hardwareChangeStates, old.ProvisionState):
		return node.Conflict("The instance_uuid of node %s cannot be removed in state %q, because allocation %s holds the node; undeploy the node, or set maintenance first.",
			n.UUID, old.ProvisionState, old.AllocationUUID)
	case n.Driver != old.Driver && old.ConsoleEnabled:
		return node.Conflict("The driver of node %s cannot be changed while its console is enabled.", n.UUID)
	}
	return nil
}

// canonicalCapabilities reports whether the capabilities in properties are missing or one string,
// which is the form that clients read. In instance_info they may also be an object.
func canonicalCapabilities(properties node.Object) bool {
	if !bytes.Contains(properties, []byte(`"capabilities"`)) {
		return true
	}
	stated := properties.Fields()["capabilities"]
	return len(stated) == 0 || stated[0] == '"' || string(stated) == "null"
}

// textOrAbsent reports whether the value of a key is a string, null or missing.
func textOrAbsent(o node.Object, key string) bool {
	switch o.Values()[key].(type) {
	case nil, string:
		return true
	}
	return false
}

// dropReasons clears protected_reason and retired_reason when a change ends protection
// or retirement.
func dropReasons(old, n *node.Node) {
	if old.Protected && !n.Protected {
		n.ProtectedReason = ""
	}
	if old.Retired && !n.Retired {
		n.RetiredReason = ""
	}
}

// displayName is the key of instance_info that mirrors instance_name.
const displayName = "display_name"

// mirrorInstanceName copies a change of instance_name to its key in instance_info, or
// the other way round.
func mirrorInstanceName(old, n *node.Node) {
	named := n.InstanceInfo.Text(displayName)
	switch {
	case n.InstanceName != old.InstanceName && n.InstanceName == "":
		n.InstanceInfo = n.InstanceInfo.Without(displayName)
	case n.InstanceName != old.InstanceName:
		n.InstanceInfo = n.InstanceInfo.With(map[string]any{displayName: n.InstanceName})
	case named != old.InstanceInfo.Text(displayName):
		n.InstanceName = named
	}
}

// restoreSecrets replaces the masks in a client's request with the stored secrets. It refuses to do
// so when the address of the BMC changes: a client that does not know the secrets could otherwise
// have them sent to an address of its choice.
func restoreSecrets(old, n *node.Node) error {
	for _, part := range []struct {
		field   string
		stored  node.Object
		changed *node.Object
	}{
		{"driver_info", old.DriverInfo, &n.DriverInfo},
		{"instance_info", old.InstanceInfo, &n.InstanceInfo},
	} {
		kept, err := restoreMasked(part.field, part.stored, *part.changed)
		if err != nil {
			return err
		}
		restored := !bytes.Equal(kept, *part.changed) && !sameValue(kept, *part.changed)
		if restored && part.changed == &n.DriverInfo && !driver.SameAddress(old.DriverInfo, kept) {
			return node.Invalid("driver_info has %s in place of a secret. Give the secrets again when the address of the BMC changes.", mask)
		}
		*part.changed = kept
	}
	return nil
}
