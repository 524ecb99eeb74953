package inspect

import (
	"strings"
	"unicode"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// localLinkConnectionHook records on each port which switch port its cable is
// in, as the switch told with LLDP. It only adds keys that are missing, and only
// where the result is a connection that the Bare Metal API accepts.
var localLinkConnectionHook = Hook{Name: "local-link-connection", Requires: []string{validateInterfacesHook.Name}, Process: connectPorts}

// Keys of a local_link_connection to a switch.
const (
	switchIDKey   = "switch_id"   // MAC address of the switch
	portIDKey     = "port_id"     // what the switch calls its port
	switchInfoKey = "switch_info" // name of the switch
)

func connectPorts(ctx *Context) error {
	neighbours := ctx.neighbours()
	for i := range ctx.interfaces {
		nic := &ctx.interfaces[i]
		neighbour, port := neighbours[nic.Name], ctx.Ports.Find(nic.MACAddress)
		if neighbour == nil || port == nil {
			continue
		}
		connection, reason := connect(port.LocalLinkConnection, heardLink(neighbour))
		if reason != "" {
			ctx.Skip("The local_link_connection of port %s stays as it is: %s on interface %s", port.Address, reason, inventory.Quote(nic.Name))
			continue
		}
		port.LocalLinkConnection = connection
	}
	return nil
}

// heardLink returns the connection that LLDP describes, without the keys that the
// switch did not send or that are no printable text.
func heardLink(neighbour *inventory.LLDP) map[string]string {
	heard := map[string]string{
		switchIDKey:   neighbour.ChassisMAC,
		portIDKey:     neighbour.PortID,
		switchInfoKey: neighbour.SystemName,
	}
	for key, value := range heard {
		unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
		if value == "" || strings.ContainsFunc(value, unprintable) {
			delete(heard, key)
		}
	}
	return heard
}

// connect adds to a recorded connection what was heard, or says why it stays as
// it is. A connection that a person made differently is never completed from
// LLDP: half of each would lead to a wrong switch port.
func connect(recorded node.Object, heard map[string]string) (connection node.Object, reason string) {
	values := recorded.Values()
	for key, value := range values {
		text, _ := value.(string)
		said, ours := heard[key], key == switchIDKey || key == portIDKey || key == switchInfoKey
		switch {
		case value == nil:
		case !ours:
			return nil, "it is of another kind than what LLDP says"
		case said != "" && !strings.EqualFold(text, said):
			return nil, "it differs from what LLDP says"
		}
	}
	complete := true
	for key, said := range heard {
		if values[key] == nil {
			values[key], complete = said, false
		}
	}
	switch {
	case complete:
		return recorded, ""
	case values[switchIDKey] == nil, values[portIDKey] == nil:
		return nil, "LLDP does not name both the switch by a MAC address and the port"
	}
	return node.ObjectOf(values), ""
}
