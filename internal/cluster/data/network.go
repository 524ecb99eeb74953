package data

import (
	"cmp"
	"encoding/json"
	"net"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/node"
)

// family is one version of IP.
type family struct {
	name string
	bits int // of an address
}

var ipv4, ipv6 = family{"IPv4", 32}, family{"IPv6", 128}

func (f family) has(a netip.Addr) bool { return a.IsValid() && a.BitLen() == f.bits }

// mask returns the netmask of a prefix, as network_data.json has it.
func (f family) mask(prefix int) string {
	return net.IP(net.CIDRMask(prefix, f.bits)).String()
}

// networkData renders OpenStack's network_data.json.
func (r *renderer) networkData(path *field.Path, n *v1beta2.NetworkData) map[string]any {
	links := r.links(path.Child("links"), &n.Links)
	return map[string]any{
		"links":    links,
		"networks": r.networks(path.Child("networks"), &n.Networks, linkIDs(links)),
		"services": r.services(path.Child("services"), dns[v1beta2.IPAddress](n.Services.DNS), n.Services.DNSFromIPPool),
	}
}

// linkIDs returns the IDs of rendered links.
func linkIDs(links []map[string]any) map[any]bool {
	ids := map[any]bool{}
	for _, link := range links {
		ids[link["id"]] = true
	}
	return ids
}

// links renders the links: bonds, bridges, network cards and VLANs.
func (r *renderer) links(path *field.Path, n *v1beta2.NetworkLinks) []map[string]any {
	all := []map[string]any{}
	places := map[any]*field.Path{}
	var uses []use
	add := func(path *field.Path, link *v1beta2.NetworkLink, kind, macKey string, more map[string]any) map[string]any {
		rendered := r.link(path, link, kind, macKey)
		for key, value := range more {
			if value != "" {
				rendered[key] = value
			}
		}
		if other := places[link.ID]; other != nil {
			r.fail(path.Child("id"), "%q is the ID of %s, too", link.ID, other)
		}
		places[link.ID] = path
		all = append(all, rendered)
		return rendered
	}
	for i := range n.Bonds {
		p, b := path.Child("bonds").Index(i), &n.Bonds[i]
		rendered := add(p, &b.NetworkLink, "bond", "ethernet_mac_address", map[string]any{
			"bond_mode": b.BondMode, "bond_xmit_hash_policy": b.BondXmitHashPolicy, "bond_links": nonNil(b.BondLinks),
		})
		r.parameters(p.Child("parameters"), rendered, "bond_", b.Parameters)
		uses = append(uses, usesOf(p.Child("bondLinks"), b.BondLinks)...)
	}
	for i := range n.Bridges {
		p, b := path.Child("bridges").Index(i), &n.Bridges[i]
		rendered := add(p, &b.NetworkLink, "bridge", "ethernet_mac_address", map[string]any{"bridge_links": nonNil(b.BridgeLinks)})
		if b.AcceptRA != nil {
			rendered["accept_ra"] = *b.AcceptRA
		}
		r.parameters(p.Child("parameters"), rendered, "bridge_", b.Parameters)
		uses = append(uses, usesOf(p.Child("bridgeLinks"), b.BridgeLinks)...)
	}
	for i := range n.Ethernets {
		p, e := path.Child("ethernets").Index(i), &n.Ethernets[i]
		if e.MACAddress == nil && e.Name == "" {
			r.fail(p, "has neither macAddress nor name")
		}
		add(p, &e.NetworkLink, e.Type, "ethernet_mac_address", nil)
	}
	for i := range n.VLANs {
		p, v := path.Child("vlans").Index(i), &n.VLANs[i]
		add(p, &v.NetworkLink, "vlan", "vlan_mac_address", map[string]any{"vlan_id": v.VLANID, "vlan_link": v.VLANLink})
		uses = append(uses, use{p.Child("vlanLink"), v.VLANLink})
	}
	for _, u := range uses {
		if places[u.link] == nil {
			r.fail(u.path, "there is no link with ID %q", u.link)
		}
	}
	return all
}

// use is where a link is named.
type use struct {
	path *field.Path
	link string
}

func usesOf(path *field.Path, links []string) []use {
	var all []use
	for i, link := range links {
		all = append(all, use{path.Index(i), link})
	}
	return all
}

// nonNil returns a copy of a list, which is empty instead of nil.
func nonNil[T any](list []T) []T { return append([]T{}, list...) }

// link renders the fields that all links have.
func (r *renderer) link(path *field.Path, link *v1beta2.NetworkLink, kind, macKey string) map[string]any {
	rendered := map[string]any{"id": link.ID, "type": kind}
	if link.Name != "" {
		rendered["name"] = link.Name
	}
	if link.MTU != 0 {
		rendered["mtu"] = link.MTU
	}
	if link.MACAddress != nil {
		rendered[macKey] = r.mac(path.Child("macAddress"), link.MACAddress)
	}
	return rendered
}

// mac returns the MAC address from the first source that is set.
func (r *renderer) mac(path *field.Path, source *v1beta2.LinkMACAddress) string {
	var mac string
	switch {
	case source.String != nil:
		path, mac = path.Child("string"), *source.String
	case source.FromHostInterface != nil:
		path = path.Child("fromHostInterface")
		if mac = r.interfaceMAC(path, *source.FromHostInterface); mac == "" {
			return "" // the problem is noted already
		}
	case source.FromAnnotation != nil:
		path = path.Child("fromAnnotation")
		mac = r.annotation(path, source.FromAnnotation)
	default:
		r.fail(path, "says no source: set string, fromHostInterface or fromAnnotation")
		return ""
	}
	normal, ok := node.ParseMAC(mac)
	if !ok {
		r.fail(path, "%.64q is not a MAC address", mac)
	}
	return normal
}

// annotation returns the value of an annotation, which is empty when it is missing.
func (r *renderer) annotation(path *field.Path, source *v1beta2.AnnotationSource) string {
	return r.object(path.Child("object"), source.Object).GetAnnotations()[source.Annotation]
}

// parameters adds parameters to a rendered link. A parameter that the link has a field for is a
// problem.
func (r *renderer) parameters(path *field.Path, rendered map[string]any, prefix string, all []v1beta2.LinkParameter) {
	for _, p := range all {
		key := prefix + p.Name
		if _, taken := rendered[key]; taken {
			r.fail(path.Key(p.Name), "has a field of its own; set that")
			continue
		}
		rendered[key] = json.RawMessage(cmp.Or(string(p.Value.Raw), "null"))
	}
}

// networks renders the networks in the order of their lists.
func (r *renderer) networks(path *field.Path, n *v1beta2.Networks, links map[any]bool) []map[string]any {
	all := []map[string]any{}
	add := func(path *field.Path, base v1beta2.NetworkBase, kind string, routes []map[string]any) map[string]any {
		if !links[base.Link] {
			r.fail(path.Child("link"), "there is no link with ID %q", base.Link)
		}
		rendered := map[string]any{"id": base.ID, "link": base.Link, "type": kind, "routes": routes}
		all = append(all, rendered)
		return rendered
	}
	for i := range n.IPv4 {
		p, e := path.Child("ipv4").Index(i), &n.IPv4[i]
		r.address(p, add(p, e.NetworkBase, "ipv4", r.routesIPv4(p, e.Routes)), &e.AddressSource, ipv4)
	}
	for i := range n.IPv6 {
		p, e := path.Child("ipv6").Index(i), &n.IPv6[i]
		r.address(p, add(p, e.NetworkBase, "ipv6", r.routesIPv6(p, e.Routes)), &e.AddressSource, ipv6)
	}
	for i := range n.IPv4DHCP {
		p, e := path.Child("ipv4DHCP").Index(i), &n.IPv4DHCP[i]
		add(p, e.NetworkBase, "ipv4_dhcp", r.routesIPv4(p, e.Routes))
	}
	for i := range n.IPv6DHCP {
		p, e := path.Child("ipv6DHCP").Index(i), &n.IPv6DHCP[i]
		add(p, e.NetworkBase, "ipv6_dhcp", r.routesIPv6(p, e.Routes))
	}
	for i := range n.IPv6SLAAC {
		p, e := path.Child("ipv6SLAAC").Index(i), &n.IPv6SLAAC[i]
		add(p, e.NetworkBase, "ipv6_slaac", r.routesIPv6(p, e.Routes))
	}
	return all
}

// address gives a network its address from a pool.
func (r *renderer) address(path *field.Path, rendered map[string]any, source *v1beta2.AddressSource, f family) {
	from, ok := r.poolOf(path, source.FromPoolAnnotation, source.FromPoolRef, source.IPAddressFromIPPool)
	if !ok {
		r.fail(path, "says no pool: set fromPoolRef, fromPoolAnnotation or ipAddressFromIPPool")
		return
	}
	v, known := r.pool(path, from, need{address: true})
	switch {
	case !known:
	case !f.has(v.ip):
		r.fail(path, "pool %s gave %s, which is no %s address", from, v.ip, f.name)
	case v.prefix > f.bits:
		r.fail(path, "pool %s gave %s with a prefix of %d bits", from, v.ip, v.prefix)
	default:
		rendered["ip_address"], rendered["netmask"] = v.ip.String(), f.mask(v.prefix)
	}
}

// poolOf returns the pool of an address or a gateway, and false when none is named.
func (r *renderer) poolOf(path *field.Path, annotation *v1beta2.AnnotationSource, ref *v1beta2.IPPoolReference, name string) (pool, bool) {
	if annotation != nil {
		value := r.annotation(path.Child("fromPoolAnnotation"), annotation)
		if value != "" || ref == nil && name == "" {
			return newPool("", "", value), true
		}
	}
	if ref != nil {
		return newPool(ref.APIGroup, ref.Kind, ref.Name), true
	}
	return newPool("", "", name), name != ""
}

// route is a route of either family.
type route struct {
	network string
	prefix  int32
	gateway *string
	pool    v1beta2.GatewaySource
	dns     []string
	dnsPool *string
}

func (r *renderer) routesIPv4(path *field.Path, routes []v1beta2.RouteIPv4) []map[string]any {
	all := make([]route, len(routes))
	for i, e := range routes {
		all[i] = route{string(e.Network), e.Prefix, (*string)(e.Gateway.String), e.Gateway.GatewaySource, dns(e.Services.DNS), e.Services.DNSFromIPPool}
	}
	return r.routes(path.Child("routes"), all, ipv4)
}

func (r *renderer) routesIPv6(path *field.Path, routes []v1beta2.RouteIPv6) []map[string]any {
	all := make([]route, len(routes))
	for i, e := range routes {
		all[i] = route{string(e.Network), e.Prefix, (*string)(e.Gateway.String), e.Gateway.GatewaySource, dns(e.Services.DNS), e.Services.DNSFromIPPool}
	}
	return r.routes(path.Child("routes"), all, ipv6)
}

func (r *renderer) routes(path *field.Path, routes []route, f family) []map[string]any {
	all := make([]map[string]any, len(routes))
	for i, e := range routes {
		p := path.Index(i)
		r.parse(p.Child("network"), e.network, f)
		if e.prefix < 0 || int(e.prefix) > f.bits {
			r.fail(p.Child("prefix"), "is %d, not from 0 to %d", e.prefix, f.bits)
			continue
		}
		all[i] = map[string]any{
			"network": e.network, "netmask": f.mask(int(e.prefix)),
			"services": r.services(p.Child("services"), e.dns, e.dnsPool),
		}
		if gateway := r.gateway(p.Child("gateway"), e, f); gateway != "" {
			all[i]["gateway"] = gateway
		}
	}
	return all
}

// gateway returns the gateway of a route, which is empty when the route needs none or it is not
// known yet.
func (r *renderer) gateway(path *field.Path, e route, f family) string {
	if e.gateway != nil {
		r.parse(path.Child("string"), *e.gateway, f)
		return *e.gateway
	}
	name := ""
	if e.pool.FromIPPool != nil {
		name = *e.pool.FromIPPool
	}
	from, ok := r.poolOf(path, e.pool.FromPoolAnnotation, e.pool.FromPoolRef, name)
	if !ok {
		return "" // a route of the link itself
	}
	v, known := r.pool(path, from, need{address: true})
	if !known {
		return ""
	}
	gateway := r.gatewayOf(path, v)
	if gateway != "" && !f.has(v.gateway) {
		r.fail(path, "pool %s gave the gateway %s, which is no %s address", from, gateway, f.name)
	}
	return gateway
}

func (r *renderer) parse(path *field.Path, text string, f family) {
	if a, err := netip.ParseAddr(text); err != nil || !f.has(a) {
		r.fail(path, "%.64q is no %s address", text, f.name)
	}
}

// dns returns addresses as texts.
func dns[T ~string](addresses []T) []string {
	all := make([]string, len(addresses))
	for i, a := range addresses {
		all[i] = string(a)
	}
	return all
}

// services renders DNS servers: those that are listed, and those of a pool.
func (r *renderer) services(path *field.Path, servers []string, fromPool *string) []map[string]any {
	for i, server := range servers {
		if _, err := netip.ParseAddr(server); err != nil {
			r.fail(path.Child("dns").Index(i), "%.64q is no IP address", server)
		}
	}
	if fromPool != nil {
		v, _ := r.pool(path.Child("dnsFromIPPool"), newPool("", "", *fromPool), need{dns: true})
		servers = append(slices.Clone(servers), v.dnsServers...)
	}
	all := make([]map[string]any, len(servers))
	for i, server := range servers {
		all[i] = map[string]any{"type": "dns", "address": server}
	}
	return all
}
