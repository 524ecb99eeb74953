package redact

import (
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Forms of secrets that are searched for in any text.
var (
	// pairs matches MAC addresses, EUI-64 and WWNs.
	pairs       = regexp.MustCompile(`(?i)\b[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5,19}|(?:-[0-9a-f]{2}){5,19})\b`)
	uuids       = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	bareAddress = regexp.MustCompile(`(?i)^(?:[0-9a-f]{12}|[0-9a-f]{16})$`)
	ipv4        = regexp.MustCompile(`\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b`)
	ipv6        = regexp.MustCompile(`(?i)\b[0-9a-f]{0,4}:[0-9a-f:]*:[0-9a-f:.]*[0-9a-f]`)
	mails       = regexp.MustCompile(`(?i)\b[a-z0-9._%+-]+@[a-z0-9-]+\.[a-z0-9.-]*[a-z]\b`)
	// names matches iSCSI and NVMe qualified names (RFC 3720, NVMe).
	names = regexp.MustCompile(`(?i)\biqn\.[0-9]{4}-[0-9]{2}\.[a-z0-9.:-]+|\bnqn\.[0-9]{4}-[0-9]{2}\.[a-z0-9.:-]+`)
	links = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>]+`)
)

// pemBegin begins certificates and keys as text (RFC 7468).
const pemBegin = "-----BEGIN"

// forms adds the secrets in a text that are recognized by their form.
func (s *secrets) forms(value string) {
	for _, found := range pairs.FindAllString(value, -1) {
		s.add(address, found)
	}
	for _, found := range uuids.FindAllString(value, -1) {
		s.add(identity, found)
	}
	for _, found := range names.FindAllString(value, -1) {
		s.add(identity, found)
	}
	for _, found := range mails.FindAllString(value, -1) {
		if !strings.Contains(found, "@odata.") && !strings.Contains(found, "@Redfish.") && !strings.Contains(found, "@Message.") {
			s.add(name, found)
		}
	}
	for _, found := range ipv4.FindAllString(value, -1) {
		if ip, err := netip.ParseAddr(found); err == nil && !s.versions[found] {
			s.addIP(found, ip)
		}
	}
	for _, found := range ipv6.FindAllString(value, -1) {
		if ip, err := netip.ParseAddr(found); err == nil && !pairs.MatchString(found) {
			s.addIP(found, ip)
		}
	}
}

// Networks from which replacements are taken. They are reserved for benchmarks and documentation
// (RFC 2544, RFC 3849).
var (
	documentation4 = netip.MustParsePrefix("198.18.0.0/15")
	documentation6 = netip.MustParsePrefix("2001:db8::/32")
)

// isCommon reports whether an IP address is the same on many computers, or is a network mask.
func isCommon(ip netip.Addr) bool {
	return ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.Is4() && ip.As4()[0] == 255
}

// addIP adds an IP address, unless it is a common one.
func (s *secrets) addIP(text string, ip netip.Addr) {
	if isCommon(ip) {
		return
	}
	invented := s.once("ip "+ip.String(), func(random []byte) string {
		if ip.Is4() {
			base := documentation4.Addr().As4()
			return netip.AddrFrom4([4]byte{base[0], base[1] | random[0]&1, random[1], random[2]}).String()
		}
		bytes := documentation6.Addr().As16()
		if ip.IsLinkLocalUnicast() {
			bytes = netip.MustParseAddr("fe80::").As16()
		}
		copy(bytes[8:], random[:8])
		return netip.AddrFrom16(bytes).String()
	})
	s.finder.add(text, invented, len(text) < anywhere)
}

// publicHosts serve schemas and standards.
var publicHosts = []string{"dmtf.org", "oasis-open.org", "odata.org", "json-schema.org", "w3.org"}

// link replaces a URL by one with the same scheme and the same kind of file. It keeps the URLs of
// public hosts.
func (s *secrets) link(text string) string {
	u, err := url.Parse(text)
	if err == nil && u.User == nil && u.RawQuery == "" {
		for _, public := range publicHosts {
			if u.Host == public || strings.HasSuffix(u.Host, "."+public) {
				return text
			}
		}
	}
	scheme, rest, _ := strings.Cut(text, "://")
	extension := ""
	if err == nil && extensions.MatchString(path.Ext(u.Path)) {
		extension = path.Ext(u.Path)
	}
	if strings.ContainsAny(scheme, "0123456789") || len(scheme) > 8 {
		scheme = "https"
	}
	return s.once("url "+text, func(random []byte) string {
		out := scheme + "://host-" + letters(random[:6]) + ".example"
		if strings.Contains(rest, "/") {
			out += "/" + letters(random[6:14]) + extension
		}
		return out
	})
}

// extensions matches the extensions of files that a BMC distinguishes.
var extensions = regexp.MustCompile(`(?i)^\.(?:iso|img|bin|exe|fwpkg|json|xml|gz)$`)

// letters returns bytes as lower-case letters.
func letters(random []byte) string {
	var b strings.Builder
	for _, one := range random {
		b.WriteByte('a' + one%26)
	}
	return b.String()
}
