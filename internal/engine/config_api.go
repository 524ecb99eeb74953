package engine

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Values of api.auth.
const (
	authNone      = "none"
	authHTTPBasic = "http_basic"
)

// tls reports whether the API is served over TLS.
func (a APIConfig) tls() bool { return a.TLSCertificate != "" && a.TLSKey != "" }

// problems returns what is wrong with the settings of who may reach the API, and how.
func (a APIConfig) problems() []error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(a.MaxConnections >= 2, "api.max_connections: want at least 2, got %d", a.MaxConnections)
	check(a.Auth == authNone || a.Auth == authHTTPBasic, "api.auth: want none or http_basic, got %q", a.Auth)
	check(a.Auth != authHTTPBasic || a.HtpasswdFile != "", "api.htpasswd_file: is required when api.auth is http_basic")
	check(a.Auth == authHTTPBasic || a.HtpasswdFile == "", "api.htpasswd_file: does nothing while api.auth is %s: set it to http_basic", a.Auth)
	check(a.Auth == authHTTPBasic || a.RoleFile == "", "api.role_file: does nothing while api.auth is %s: set it to http_basic", a.Auth)
	check((a.TLSCertificate == "") == (a.TLSKey == ""), "api.tls_certificate, api.tls_key: want both or none of them")
	if err := a.addressProblem("api.listen", a.Listen); err != nil {
		errs = append(errs, err)
	}
	check(a.MetricsListen != "" || !a.Profiles, "api.profiles: does nothing without api.metrics_listen: set the address on which profiles are served")
	if a.MetricsListen != "" {
		if err := a.addressProblem("api.metrics_listen", a.MetricsListen); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// addressProblem refuses an address that other machines can reach, unless every client needs a
// password and TLS protects it on the way. Settings can lift either condition.
func (a APIConfig) addressProblem(key, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: want host:port with a port from 0 to 65535, got %q", key, address)
	case isLoopback(host):
		return nil
	case a.Auth != authHTTPBasic && !a.AllowUnauthenticated:
		return fmt.Errorf("%s: %s is not a loopback address, and without authentication everybody who reaches it is an administrator: "+
			"listen on 127.0.0.1, set api.auth to http_basic, or set api.allow_unauthenticated if the network is trusted", key, address)
	case a.Auth == authHTTPBasic && !a.tls() && !a.AllowPlainHTTP:
		return fmt.Errorf("%s: %s is not a loopback address, and without TLS passwords cross the network in plain text: "+
			"set api.tls_certificate and api.tls_key, or set api.allow_plain_http if TLS ends before the engine", key, address)
	}
	return nil
}

// hostCheck returns a function that refuses requests for foreign host names. It returns nil, which
// allows every name, unless the address is a loopback address without passwords. There a web page
// would otherwise reach the API: its author can have the page's own host name resolve to a loopback
// address, so that the API is of the same origin as the page.
func (a APIConfig) hostCheck(address string) func(host string) error {
	if a.Auth == authHTTPBasic || isOpen(address) {
		return nil
	}
	var public string
	if u, err := url.Parse(a.PublicURL); err == nil {
		public = u.Hostname()
	}
	return func(host string) error {
		name := hostName(host)
		_, err := netip.ParseAddr(name)
		if err == nil || name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") || strings.EqualFold(name, public) {
			return nil
		}
		return &node.ForbiddenError{Reason: fmt.Sprintf("The host name %q is refused: without passwords, this address answers to localhost, to IP addresses and to the host of the setting api.public_url.", node.CutText(name))}
	}
}

// hostName returns the host of a Host header, in lower case.
func hostName(header string) string {
	host, _, err := net.SplitHostPort(header)
	if err != nil { // it has no port
		host = strings.Trim(header, "[]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isOpen reports whether other machines can reach an address.
func isOpen(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && !isLoopback(host)
}
