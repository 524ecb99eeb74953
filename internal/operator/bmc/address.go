package bmc

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

const (
	// maxAddress and maxName bound the length of addresses and of host names, in bytes. That of
	// names is from RFC 1035, section 2.3.4.
	maxAddress, maxName = 2048, 253
	ipmiPort            = 623 // IPMI 2.0, section 13.1.2
)

var errNoAddress = errors.New("the address is empty; write, for example, redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1")

var errNoBrackets = errors.New("an IPv6 address stands in brackets, as in ipmi://[2001:db8::7]:623")

// parseURL splits an address. The returned URL has a scheme, a host that is an IP address or a DNS
// name, and a port that is empty or valid.
func parseURL(address string) (*url.URL, error) {
	switch {
	case address == "":
		return nil, errNoAddress
	case len(address) > maxAddress:
		return nil, errors.New("the address is longer than 2048 bytes")
	case strings.ContainsFunc(address, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return nil, errors.New("the address contains white space or control characters; remove them")
	}
	full, err := withScheme(address)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(full)
	if err != nil { // the text of err might repeat a password
		return nil, errors.New("the address is not of the form scheme://host:port/path; IPv6 addresses stand in brackets, as in ipmi://[2001:db8::7]:623")
	}
	if u.User != nil {
		return nil, errors.New("the address contains a user name or password; remove it, and put it into the Secret that credentialsName refers to")
	}
	if u.Fragment != "" {
		return nil, errors.New("the address contains #, which has no meaning there; remove it and what follows")
	}
	if strings.Count(u.Host, ":") > 1 && !strings.HasPrefix(u.Host, "[") {
		return nil, errNoBrackets
	}
	if err := checkHost(u.Hostname()); err != nil {
		return nil, err
	}
	if _, err := portOf(u); err != nil {
		return nil, err
	}
	return u, nil
}

// withScheme completes the short forms host, host:port and scheme:host.
func withScheme(address string) (string, error) {
	if strings.Contains(address, "://") {
		return address, nil
	}
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		return "", errNoBrackets
	}
	before, after, colon := strings.Cut(address, ":")
	switch {
	case colon && isScheme(before):
		return before + "://" + after, nil
	case colon && !strings.HasPrefix(address, "[") && !startsWithDigit(after):
		return "", unknownScheme(before)
	}
	return "ipmi://" + address, nil
}

func startsWithDigit(text string) bool { return text != "" && text[0] >= '0' && text[0] <= '9' }

// dnsName matches names whose labels consist of letters, digits and hyphens (RFC 1123, section
// 2.1).
var dnsName = regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)

// fourNumbers matches everything that looks like an IPv4 address.
var fourNumbers = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+$`)

func checkHost(host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return errors.New("the IPv6 address has a zone, which means something on one computer only; use an address without")
		}
		return nil
	}
	switch {
	case host == "":
		return errors.New("the address has no host; write, for example, redfish://192.0.2.7")
	case fourNumbers.MatchString(host), strings.Contains(host, ":"):
		return errors.New("the host is not a valid IP address")
	case len(host) > maxName || !dnsName.MatchString(host):
		return errors.New("the host is neither an IP address nor a DNS name, whose labels have letters, digits and inner hyphens")
	}
	return nil
}

// portOf returns the port of an address, or 0 for none.
func portOf(u *url.URL) (uint16, error) {
	text := u.Port()
	if text == "" {
		return 0, nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, errors.New("the port is not between 1 and 65535")
	}
	return uint16(port), nil
}
