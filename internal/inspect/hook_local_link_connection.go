package inspect

import (
	"strings"
	"unicode"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// localLinkConnectionHook records on each port the switch port that it is connected to, as the
// switch announced it over LLDP. It only adds missing keys, and only if the Bare Metal API accepts
// the resulting connection.
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
		connection, reason := connect(port.LocalLinkConnection, announcedLink(neighbour))
		if reason != "" {
			ctx.Skip("The local_link_connection of port %s stays as it is: %s on interface %s", port.Address, reason, inventory.Quote(nic.Name))
			continue
		}
		port.LocalLinkConnection = connection
	}
	return nil
}

// announcedLink returns the connection that LLDP describes. It leaves out keys that the switch did
// not send or whose value is not printable.
func announcedLink(neighbour *inventory.LLDP) map[string]string {
	announced := map[string]string{
		switchIDKey:   neighbour.ChassisMAC,
		portIDKey:     neighbour.PortID,
		switchInfoKey: neighbour.SystemName,
	}
	for key, value := range announced {
		unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
		if value == "" || strings.ContainsFunc(value, unprintable) {
			delete(announced, key)
		}
	}
	return announced
}

// connect adds the announced keys to a recorded connection, or returns why the connection stays
// unchanged. A person has set a connection that differs, so connect does not complete it: a mixture
// of both would name a wrong switch port.
func connect(recorded node.Object, announced map[string]string) (connection node.Object, reason string) {
	values := recorded.Values()
	for key, value := range values {
		text, _ := value.(string)
		expected, ours := announced[key], key == switchIDKey || key == portIDKey || key == switchInfoKey
		switch {
		case value == nil:
		case !ours:
			return nil, "it is of another kind than what LLDP says"
		case expected != "" && !strings.EqualFold(text, expected):
			return nil, "it differs from what LLDP says"
		}
	}
	complete := true
	for key, value := range announced {
		if values[key] == nil {
			values[key], complete = value, false
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
