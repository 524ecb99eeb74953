package ipmi

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Keys of driver_info, as the Bare Metal API names them.
const (
	addressKey   = "ipmi_address"
	portKey      = "ipmi_port"
	usernameKey  = "ipmi_username"
	passwordKey  = "ipmi_password"
	privilegeKey = "ipmi_priv_level"
	protocolKey  = "ipmi_protocol_version"
	suiteKey     = "ipmi_cipher_suite"
	bmcKeyKey    = "ipmi_hex_kg_key"
	bridgingKey  = "ipmi_bridging"
	keepFlagsKey = "ipmi_disable_boot_timeout"
)

// defaultPort is that of RMCP (section 13.1.2).
const defaultPort = 623

// Lengths of names and passwords, in bytes (sections 13.20 and 22.30).
const (
	maxUsername = 16
	maxPassword = 20
)

// privileges are the levels that a session may have (section 6.8).
var privileges = map[string]byte{"USER": 2, "OPERATOR": 3, "ADMINISTRATOR": 4}

// access says how a BMC is reached. Calls with the same access share what is known of the
// credentials.
type access struct {
	address   string // host and port
	username  string
	password  string
	privilege byte
	suite     int // 0 means the best that the BMC has
}

// accessOf reads how the node's BMC is reached from driver_info. The error is a
// *node.ValidationError.
func accessOf(n *node.Node) (access, error) {
	a := access{username: n.DriverInfo.Text(usernameKey), password: n.DriverInfo.Text(passwordKey)}
	if len(a.username) > maxUsername {
		return access{}, invalid(n, usernameKey, "is longer than the 16 bytes that IPMI allows")
	}
	if len(a.password) > maxPassword {
		return access{}, invalid(n, passwordKey, "is longer than the 20 bytes that IPMI allows")
	}
	if err := checkUnsupported(n); err != nil {
		return access{}, err
	}
	var err error
	if a.address, err = addressOf(n); err != nil {
		return access{}, err
	}
	level := strings.ToUpper(text(n, privilegeKey, "ADMINISTRATOR"))
	if a.privilege = privileges[level]; a.privilege == 0 {
		return access{}, invalid(n, privilegeKey, "must be ADMINISTRATOR, OPERATOR or USER")
	}
	if wanted := text(n, suiteKey, ""); wanted != "" {
		i := slices.IndexFunc(suites, func(s suite) bool { return strconv.Itoa(s.id) == wanted })
		if i < 0 {
			return access{}, invalid(n, suiteKey, "must be 17 or 3, the suites that authenticate and encrypt; without the key the engine uses the best that the BMC has")
		}
		a.suite = suites[i].id
	}
	_, err = keepsFlags(n)
	return a, err
}

// checkUnsupported refuses settings that the driver would have to ignore.
func checkUnsupported(n *node.Node) error {
	if version := text(n, protocolKey, "2.0"); version != "2.0" && version != "2" {
		return invalid(n, protocolKey, "must be 2.0: this engine does not speak IPMI 1.5, which does not encrypt. Remove the key, or use another driver")
	}
	if text(n, bmcKeyKey, "") != "" {
		return invalid(n, bmcKeyKey, "is not supported: remove the key K_g from the BMC and from the node")
	}
	if bridging := text(n, bridgingKey, "no"); bridging != "no" {
		return invalid(n, bridgingKey, "must be no: this engine does not bridge requests to other controllers. Set ipmi_address to the machine's own BMC")
	}
	for _, key := range []string{"ipmi_transit_channel", "ipmi_transit_address", "ipmi_target_channel", "ipmi_target_address", "ipmi_local_address"} {
		if text(n, key, "") != "" {
			return invalid(n, key, "is for bridging, which this engine does not support. Remove it, and set ipmi_address to the machine's own BMC")
		}
	}
	return nil
}

// addressOf reads the host, without scheme or port, and the port.
func addressOf(n *node.Node) (string, error) {
	host := strings.Trim(n.DriverInfo.Text(addressKey), "[]")
	if host == "" {
		return "", invalid(n, addressKey, "is missing; set it to the address of the BMC, such as 192.0.2.7")
	}
	if _, err := netip.ParseAddr(host); err != nil && strings.ContainsAny(host, ":/@ ") {
		return "", invalid(n, addressKey, "must be a host or an IP address; the port is ipmi_port")
	}
	port, err := strconv.ParseUint(text(n, portKey, strconv.Itoa(defaultPort)), 10, 16)
	if err != nil || port == 0 {
		return "", invalid(n, portKey, "must be a number from 1 to 65535")
	}
	return net.JoinHostPort(host, strconv.FormatUint(port, 10)), nil
}

// keepsFlags reads whether boot flags outlive the minute after which a BMC may clear
// them.
func keepsFlags(n *node.Node) (bool, error) {
	keeps, err := strconv.ParseBool(text(n, keepFlagsKey, "true"))
	if err != nil {
		return false, invalid(n, keepFlagsKey, "must be true or false")
	}
	return keeps, nil
}

// text returns a key of driver_info that may be a text, a number or a boolean, or unset when the
// node does not have the key.
func text(n *node.Node, key, unset string) string {
	raw := strings.TrimSpace(strings.Trim(string(n.DriverInfo.Fields()[key]), `"`))
	if raw == "" || raw == "null" {
		return unset
	}
	return raw
}

// invalid returns the error for a key of driver_info. It does not show the value.
func invalid(n *node.Node, key, what string) error {
	return node.Invalid("driver_info.%s of node %s %s.", key, n.UUID, what)
}
