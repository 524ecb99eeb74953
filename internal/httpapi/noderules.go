package httpapi

import (
	"bytes"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// openForPatch are the states besides the quiet ones in which clients may
// change a node although a target provision state is set.
var openForPatch = []node.State{
	node.DeployFailed, node.InspectFailed, node.InspectWait, node.CleanFailed, node.ErrorState, node.Verifying,
	node.AdoptFailed, node.RescueFailed, node.UnrescueFailed, node.ServiceHold, node.ServiceFailed,
}

// rewiredIn are the states in which a node's driver, interfaces, resource class
// and chassis may change without maintenance.
var rewiredIn = []node.State{node.Enroll, node.Inspecting, node.InspectWait, node.Manageable, node.Available}

// strictInspectingSince is when changing a node during inspection became a
// conflict.
const strictInspectingSince = 39

// checkPatch decides whether clients may change these fields of n now. Its
// errors are *node.ConflictError.
func checkPatch(n *node.Node, edits []edit[node.Node], version int) error {
	if !patchOpen(n, version) && (!n.Maintenance || !onlyRemovesInstance(edits)) {
		return node.Conflict("Node %s cannot be changed while it is in state %q; wait until it is done, or abort.", n.UUID, n.ProvisionState)
	}
	if n.Maintenance || slices.Contains(rewiredIn, n.ProvisionState) {
		return nil
	}
	for _, e := range edits {
		if rewires(e.field.name, n) {
			return node.Conflict("The field %q of node %s cannot be changed in state %q; allowed are %s, or any state in maintenance.",
				e.field.name, n.UUID, n.ProvisionState, node.Choices(rewiredIn))
		}
	}
	return nil
}

func patchOpen(n *node.Node, version int) bool {
	if n.ProvisionState == node.Inspecting {
		return version < strictInspectingSince
	}
	return n.TargetProvisionState == "" || slices.Contains(openForPatch, n.ProvisionState)
}

func onlyRemovesInstance(edits []edit[node.Node]) bool {
	for _, e := range edits {
		if e.field.name != "instance_uuid" || e.op.Op != "remove" {
			return false
		}
	}
	return len(edits) > 0
}

// rewires reports whether a field decides which machine a node is and how it
// is driven.
func rewires(name string, n *node.Node) bool {
	if _, ok := node.InterfaceKindOf(name); ok {
		return true
	}
	return name == "driver" || name == "chassis_uuid" || name == "resource_class" && n.ResourceClass != ""
}

// checkConsistent holds the rules between the fields of a node after a client
// changed it; old is how it was before, nil at creation.
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
		return node.Invalid("A new node cannot be protected; only active nodes and those in rescue can.")
	case old == nil:
		return nil
	case n.Protected && !old.Protected && n.ProvisionState != node.Active && n.ProvisionState != node.Rescue:
		return node.Conflict("Node %s can be protected only in the states active and rescue, it is in %q.", n.UUID, n.ProvisionState)
	case n.Retired && !old.Retired && n.ProvisionState == node.Available:
		return node.Conflict("Node %s cannot be retired in state %q; move it to manageable first.", n.UUID, n.ProvisionState)
	case n.InstanceUUID != "" && old.InstanceUUID != "" && n.InstanceUUID != old.InstanceUUID:
		return node.Conflict("Node %s is associated with instance %s.", n.UUID, old.InstanceUUID)
	case n.Driver != old.Driver && old.ConsoleEnabled:
		return node.Conflict("The driver of node %s cannot be changed while its console is enabled.", n.UUID)
	}
	return nil
}

// canonicalCapabilities reports whether the capabilities in properties, if there
// are any, have the form that clients read: one text. In instance_info an object
// will do.
func canonicalCapabilities(properties node.Object) bool {
	if !bytes.Contains(properties, []byte(`"capabilities"`)) {
		return true
	}
	stated := properties.Fields()["capabilities"]
	return len(stated) == 0 || stated[0] == '"' || string(stated) == "null"
}

// textOrAbsent reports whether a key of an object is a string, null or not there.
func textOrAbsent(o node.Object, key string) bool {
	switch o.Values()[key].(type) {
	case nil, string:
		return true
	}
	return false
}

// dropReasons ends the reasons of what the change ended, so that a client need
// not remove them itself.
func dropReasons(old, n *node.Node) {
	if old.Protected && !n.Protected {
		n.ProtectedReason = ""
	}
	if old.Retired && !n.Retired {
		n.RetiredReason = ""
	}
}

// displayName is the key of instance_info that instance_name is the same as.
const displayName = "display_name"

// mirrorInstanceName keeps instance_name and its key in instance_info the same,
// whichever of the two a client changed.
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

// keepSecrets puts stored secrets back where a client wrote their mask.
func keepSecrets(old, n *node.Node) error {
	for _, part := range []struct {
		field   string
		stored  node.Object
		changed *node.Object
	}{
		{"driver_info", old.DriverInfo, &n.DriverInfo},
		{"instance_info", old.InstanceInfo, &n.InstanceInfo},
	} {
		kept, err := keepMasked(part.field, part.stored, *part.changed)
		if err != nil {
			return err
		}
		*part.changed = kept
	}
	return nil
}
