package driver

import (
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// bmcKey says which keys of driver_info hold the address of a BMC.
type bmcKey struct {
	address string // host, host:port or URL
	portKey string // key of the port, when it has one of its own
	port    string // default port; empty leaves the port out
	system  string // key of the system behind the BMC, when there may be several
}

// BMC identifies the BMC that calls to the node's machine go to, such as
// "192.0.2.7:443". Nodes behind the same BMC have the same key; a node without a BMC
// has a key of its own.
func (r *Registry) BMC(n *node.Node) string {
	row, _ := rowOf(n.Driver)
	for _, key := range row.bmc {
		if text := n.DriverInfo.Text(key.address); text != "" {
			return key.hostPort(text, n.DriverInfo)
		}
	}
	return "node " + n.UUID
}

// SameMachine reports whether calls for a node go to the same machine before and after a change of
// its driver_info: to the same system behind the same BMC, as far as driver_info says.
func (r *Registry) SameMachine(before, after *node.Node) bool {
	return r.BMC(before) == r.BMC(after) && systemOf(before) == systemOf(after)
}

// SameAddress reports whether all keys that say where a BMC is are the same in two driver_infos. It
// includes the keys of other hardware types, because the type may change later. Another spelling of
// an address counts as another address.
func SameAddress(before, after node.Object) bool {
	old, changed := before.Values(), after.Values()
	for _, row := range hardwareTypes {
		for _, key := range row.bmc {
			for _, name := range []string{key.address, key.portKey} {
				if name != "" && !reflect.DeepEqual(old[name], changed[name]) {
					return false
				}
			}
		}
	}
	return true
}

func systemOf(n *node.Node) string {
	row, _ := rowOf(n.Driver)
	for _, key := range row.bmc {
		if key.system != "" {
			return n.DriverInfo.Text(key.system)
		}
	}
	return ""
}

// hostPort returns an address, in any of its spellings, as host:port.
func (k bmcKey) hostPort(text string, info node.Object) string {
	if address, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return join(address.String(), k.portOf(info))
	}
	if !strings.Contains(text, "://") {
		text = "//" + text
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Hostname() == "" {
		return strings.ToLower(text)
	}
	port := parsed.Port()
	if port == "" && k.portKey == "" && parsed.Scheme != "" {
		port = schemePorts[parsed.Scheme]
	}
	if port == "" {
		port = k.portOf(info)
	}
	return join(strings.ToLower(parsed.Hostname()), port)
}

var schemePorts = map[string]string{"http": "80", "https": "443"}

// portOf reads the port, which may be a number or a text.
func (k bmcKey) portOf(info node.Object) string {
	if k.portKey == "" {
		return k.port
	}
	raw := strings.Trim(string(info.Fields()[k.portKey]), `"`)
	if raw == "" || raw == "null" {
		return k.port
	}
	return raw
}

func join(host, port string) string {
	if port == "" {
		return host
	}
	return net.JoinHostPort(host, port)
}
