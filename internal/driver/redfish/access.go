package redfish

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Keys of driver_info, as the Bare Metal API names them.
const (
	addressKey  = "redfish_address"
	systemKey   = "redfish_system_id"
	usernameKey = "redfish_username"
	passwordKey = "redfish_password"
	verifyKey   = "redfish_verify_ca"
	authKey     = "redfish_auth_type"
)

// authType is how the engine proves to a BMC who it is.
type authType string

// Values of redfish_auth_type.
const (
	authBasic   authType = "basic"
	authSession authType = "session"
	// authAuto is a session where the BMC grants one, else basic authentication.
	authAuto authType = "auto"
)

// access says how a BMC is reached. Nodes whose driver_info says the same share its
// connections and its session.
type access struct {
	endpoint string // scheme, host and port, without a path
	username string // empty means that the BMC asks for no credentials
	password string
	auth     authType
	verify   verification
}

// verification says how the certificate of a BMC is checked. The zero value means
// against the certificate authorities of the system.
type verification struct {
	off  bool
	file string // PEM file of certificate authorities
}

// accessOf reads how the node's BMC is reached from driver_info. The error is a
// *node.ValidationError.
func accessOf(n *node.Node) (access, error) {
	a := access{username: n.DriverInfo.Text(usernameKey), password: n.DriverInfo.Text(passwordKey)}
	var err error
	if a.endpoint, err = endpointOf(n); err != nil {
		return access{}, err
	}
	if a.verify, err = verificationOf(n); err != nil {
		return access{}, err
	}
	switch a.auth = authType(n.DriverInfo.Text(authKey)); a.auth {
	case "":
		a.auth = authAuto
	case authBasic, authSession, authAuto:
	default:
		return access{}, invalid(n, authKey, "must be basic, session or auto")
	}
	if (a.username == "") != (a.password == "") {
		return access{}, invalid(n, usernameKey, "and redfish_password must be set together or not at all")
	}
	return a, nil
}

// invalid returns the error for a key of driver_info. It does not show the value.
func invalid(n *node.Node, key, what string) error {
	return node.Invalid("driver_info.%s of node %s %s.", key, n.UUID, what)
}

// endpointOf reads the address: a host, an IP address or a URL, whose path may be that of
// the service root.
func endpointOf(n *node.Node) (string, error) {
	text := n.DriverInfo.Text(addressKey)
	if text == "" {
		return "", invalid(n, addressKey, "is missing; set it to the address of the BMC, such as https://192.0.2.7")
	}
	if ip, err := netip.ParseAddr(text); err == nil && ip.Is6() {
		text = "[" + text + "]"
	}
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Hostname() == "", u.Scheme != "https" && u.Scheme != "http":
		return "", invalid(n, addressKey, "must be a host or an http or https URL")
	case u.User != nil:
		return "", invalid(n, addressKey, "must not hold credentials; set redfish_username and redfish_password")
	case strings.Trim(u.Path, "/") != "" && strings.Trim(u.Path, "/") != "redfish/v1", u.RawQuery != "", u.Fragment != "":
		return "", invalid(n, addressKey, "must be a URL without a path; the path of the system is redfish_system_id")
	}
	return u.Scheme + "://" + strings.TrimSuffix(u.Host, ":"), nil // as requests have it
}

// verificationOf reads redfish_verify_ca: true, false or a file.
func verificationOf(n *node.Node) (verification, error) {
	raw, ok := n.DriverInfo.Fields()[verifyKey]
	if !ok || string(raw) == "null" {
		return verification{}, nil
	}
	var on bool
	if n.DriverInfo.Get(verifyKey, &on) {
		return verification{off: !on}, nil
	}
	text := n.DriverInfo.Text(verifyKey)
	if on, err := strconv.ParseBool(text); err == nil {
		return verification{off: !on}, nil
	}
	if !strings.HasPrefix(text, "/") {
		return verification{}, invalid(n, verifyKey, "must be true, false or the absolute path of a file of certificate authorities")
	}
	return verification{file: text}, nil
}

// systemPathOf reads redfish_system_id, which is empty for a BMC with one system.
func systemPathOf(n *node.Node) (string, error) {
	text := n.DriverInfo.Text(systemKey)
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.RawQuery != "" || u.Fragment != "" || !strings.HasPrefix(u.Path, "/") || strings.Contains(u.Path, "..") {
		return "", invalid(n, systemKey, "must be the path of a system, such as /redfish/v1/Systems/1")
	}
	return text, nil
}
