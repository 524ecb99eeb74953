package bmc

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Endpoint says which machine is behind the address of a BMC. Addresses with the same meaning have
// equal endpoints, however they are spelled.
type Endpoint struct {
	// Family is the protocol: ipmi or redfish.
	Family string
	// Host is the DNS name in lower case, or the IP address in its shortest form.
	Host string
	Port uint16
	// System is the path of the system behind a BMC with Redfish, or the domain of a libvirt
	// address. "" means the BMC's only system.
	System string
}

// BMC identifies the BMC without the system, such as "redfish 192.0.2.7:443".
func (e Endpoint) BMC() string {
	return e.Family + " " + net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}

// Addr returns the IP address of the BMC, or the zero Addr if the endpoint has a DNS name.
func (e Endpoint) Addr() netip.Addr {
	addr, err := netip.ParseAddr(e.Host)
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

// String names the endpoint for people.
func (e Endpoint) String() string {
	if e.System == "" {
		return e.BMC()
	}
	return fmt.Sprintf("%s, system %s", e.BMC(), e.System)
}

// endpointOf normalises an address.
func endpointOf(u *url.URL, s scheme, transport string) (Endpoint, error) {
	e := Endpoint{Family: s.family.name, Host: strings.ToLower(u.Hostname())}
	if ip, err := netip.ParseAddr(e.Host); err == nil {
		e.Host = ip.Unmap().String()
	}
	var err error
	if e.Port, err = portOf(u); err != nil {
		return Endpoint{}, err
	}
	if e.Port == 0 {
		e.Port = s.family.ports[transport]
	}
	switch {
	case s.family == redfishFamily:
		e.System, err = systemOf(u)
	case s.name == "libvirt":
		e.System = domainOf(u)
	}
	return e, err
}

// domainOf returns the domain of a libvirt address, which is in the query or is the path.
func domainOf(u *url.URL) string {
	if domain := u.Query().Get("domain"); domain != "" {
		return domain
	}
	return strings.Trim(u.Path, "/")
}
