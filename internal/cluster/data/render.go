package data

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Group and kind of pools, where a template does not name them.
const (
	metal3IPAMGroup = "ipam.metal3.io"
	metal3PoolKind  = "IPPool"
)

// providerIDKey is the key of the metadata with the provider ID, but without
// v1beta2.ProviderIDPrefix. Arguments of kubelet contain its value, as metal3://{{
// ds.meta_data.providerid }}.
const providerIDKey = "providerid"

// input is what a template is rendered from.
type input struct {
	namespace string
	index     int32
	machine   *clusterv1.Machine
	m3m       *v1beta2.Metal3Machine
	host      *v1alpha1.BareMetalHost
	pools     map[pool]values
}

// pool names a pool of IP addresses in the namespace of the data.
type pool struct{ group, kind, name string }

// newPool names a pool as a template does, with the defaults of group and kind.
func newPool(group, kind, name string) pool {
	return pool{cmp.Or(group, metal3IPAMGroup), cmp.Or(kind, metal3PoolKind), name}
}

func (p pool) String() string { return fmt.Sprintf("%s.%s %q", p.kind, p.group, p.name) }

// need is what is taken from a pool.
type need struct{ address, dns bool }

// values are what is known of a pool.
type values struct {
	need
	ip         netip.Addr
	prefix     int
	gateway    netip.Addr // invalid: the pool has none
	dnsServers []string
}

// documents are rendered documents; one that the template does not have is nil.
type documents struct{ metaData, networkData []byte }

// renderer makes the documents. It goes through the whole template, and collects all problems, and
// all needs that in.pools does not meet.
type renderer struct {
	in       input
	needs    map[pool]need
	problems field.ErrorList
}

// render renders a template. When values of pools are missing it returns these needs, and no
// documents. Its error names each entry that cannot be rendered.
func render(spec *v1beta2.Metal3DataTemplateSpec, in input) (documents, map[pool]need, error) {
	r := &renderer{in: in, needs: map[pool]need{}}
	path := field.NewPath("spec")
	var metaData map[string]string
	var networkData map[string]any
	if spec.MetaData != nil {
		metaData = r.metaData(path.Child("metaData"), spec.MetaData)
	}
	if spec.NetworkData != nil {
		networkData = r.networkData(path.Child("networkData"), spec.NetworkData)
	}
	if len(r.problems) > 0 {
		return documents{}, nil, r.problem()
	}
	if len(r.needs) > 0 {
		return documents{}, r.needs, nil
	}
	var made documents
	var err error
	if spec.MetaData != nil {
		if made.metaData, err = yaml.Marshal(metaData); err != nil {
			return documents{}, nil, fmt.Errorf("write metadata: %w", err)
		}
	}
	if spec.NetworkData != nil {
		if made.networkData, err = json.MarshalIndent(networkData, "", "  "); err != nil {
			return documents{}, nil, problemf("spec.networkData: a parameter of a link is not JSON: %v", err)
		}
	}
	for name, text := range map[string][]byte{"metaData": made.metaData, "networkData": made.networkData} {
		if len(text) > maxDocument {
			return documents{}, nil, problemf("spec.%s: the rendered document has %d bytes, more than %d; shorten it", name, len(text), maxDocument)
		}
	}
	return made, nil, nil
}

// problem joins the first problems into one.
func (r *renderer) problem() error {
	var texts []string
	for _, p := range r.problems[:min(len(r.problems), maxProblems)] {
		texts = append(texts, fmt.Sprintf("%s: %s", p.Field, p.Detail))
	}
	if more := len(r.problems) - maxProblems; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more problems", more))
	}
	return &problem{text: strings.Join(texts, "; ")}
}

func (r *renderer) fail(path *field.Path, format string, args ...any) {
	r.problems = append(r.problems, field.Invalid(path, nil, fmt.Sprintf(format, args...)))
}

// metaData renders the metadata. If entries have the same key, the last one counts, in the order of
// the lists below.
func (r *renderer) metaData(path *field.Path, m *v1beta2.MetaData) map[string]string {
	all := map[string]string{}
	set := func(path *field.Path, key, value string) {
		if key == "" {
			r.fail(path.Child("key"), "is empty")
		}
		all[key] = value
	}
	for i, e := range m.FromHostInterfaces {
		p := path.Child("fromHostInterfaces").Index(i)
		if e.FromBootMAC {
			set(p, e.Key, r.bootMAC(p.Child("fromBootMAC")))
		} else {
			set(p, e.Key, r.interfaceMAC(p.Child("interface"), e.Interface))
		}
	}
	for _, list := range []struct {
		name    string
		entries []v1beta2.FromPool
		need    need
		value   func(path *field.Path, v values) string
	}{
		{"ipAddressesFromPool", m.IPAddressesFromPool, need{address: true}, func(_ *field.Path, v values) string { return v.ip.String() }},
		{"prefixesFromPool", m.PrefixesFromPool, need{address: true}, func(_ *field.Path, v values) string { return strconv.Itoa(v.prefix) }},
		{"gatewaysFromPool", m.GatewaysFromPool, need{address: true}, r.gatewayOf},
		{"dnsServersFromPool", m.DNSServersFromPool, need{dns: true}, func(_ *field.Path, v values) string { return strings.Join(v.dnsServers, ",") }},
	} {
		for i, e := range list.entries {
			p := path.Child(list.name).Index(i)
			value := ""
			if v, known := r.pool(p.Child("name"), newPool(e.APIGroup, e.Kind, e.Name), list.need); known {
				value = list.value(p, v)
			}
			set(p, e.Key, value)
		}
	}
	for i, e := range m.Indexes {
		step := int64(e.Step)
		if step == 0 {
			step = 1 // the default, which clients in Go do not send
		}
		number := int64(e.Offset) + step*int64(r.in.index)
		set(path.Child("indexes").Index(i), e.Key, e.Prefix+strconv.FormatInt(number, 10)+e.Suffix)
	}
	for i, e := range m.Namespaces {
		set(path.Child("namespaces").Index(i), e.Key, r.in.namespace)
	}
	for i, e := range m.ObjectNames {
		p := path.Child("objectNames").Index(i)
		set(p, e.Key, r.object(p.Child("object"), e.Object).GetName())
	}
	for i, e := range m.FromLabels {
		p := path.Child("fromLabels").Index(i)
		set(p, e.Key, r.object(p.Child("object"), e.Object).GetLabels()[e.Label])
	}
	for i, e := range m.FromAnnotations {
		p := path.Child("fromAnnotations").Index(i)
		set(p, e.Key, r.object(p.Child("object"), e.Object).GetAnnotations()[e.Annotation])
	}
	for i, e := range m.Strings {
		set(path.Child("strings").Index(i), e.Key, e.Value)
	}
	all[providerIDKey] = r.in.m3m.Namespace + "/" + r.in.host.Name + "/" + r.in.m3m.Name
	return all
}

// object returns the object that an entry takes its value from.
func (r *renderer) object(path *field.Path, source v1beta2.SourceObject) client.Object {
	switch source {
	case v1beta2.SourceMachine:
		return r.in.machine
	case v1beta2.SourceMetal3Machine:
		return r.in.m3m
	case v1beta2.SourceBareMetalHost:
		return r.in.host
	default:
		r.fail(path, "%q is not machine, metal3machine or baremetalhost", source)
		return &clusterv1.Machine{}
	}
}

// pool returns the values of a pool. If they are not known, it notes the need and returns false.
func (r *renderer) pool(path *field.Path, p pool, n need) (values, bool) {
	if p.name == "" {
		r.fail(path, "the name of the pool, or the annotation that has it, is empty")
		return values{}, false
	}
	if n.dns && (p.group != metal3IPAMGroup || p.kind != metal3PoolKind) {
		r.fail(path, "only pools of kind %s.%s have DNS servers, and not %s; list the servers in services.dns or in strings", metal3PoolKind, metal3IPAMGroup, p)
		return values{}, false
	}
	for other := range r.needs {
		if other.name == p.name && other != p {
			r.fail(path, "the pools %s and %s have the same name, so their claims would, too; rename one", other, p)
			return values{}, false
		}
	}
	v, known := r.in.pools[p]
	if known && (v.address || !n.address) && (v.dns || !n.dns) {
		return v, true
	}
	before := r.needs[p]
	r.needs[p] = need{address: before.address || n.address, dns: before.dns || n.dns}
	if len(r.needs) > maxPools {
		r.fail(path, "the template uses more than %d pools", maxPools)
	}
	return values{}, false
}

// gatewayOf returns the gateway of an address, which has to have one.
func (r *renderer) gatewayOf(path *field.Path, v values) string {
	if !v.gateway.IsValid() {
		r.fail(path, "the pool gave address %s without a gateway", v.ip)
		return ""
	}
	return v.gateway.String()
}

// bootMAC returns the MAC address that the host boots from.
func (r *renderer) bootMAC(path *field.Path) string {
	if r.in.host.Spec.BootMACAddress == "" {
		r.fail(path, "host %s has no spec.bootMACAddress", r.in.host.Name)
	}
	return r.in.host.Spec.BootMACAddress
}

// interfaceMAC returns the MAC address of an interface of the host.
func (r *renderer) interfaceMAC(path *field.Path, name string) string {
	hardware := r.in.host.Status.HardwareDetails
	if hardware == nil {
		r.fail(path, "host %s has no hardware details; it was not inspected", r.in.host.Name)
		return ""
	}
	names := map[string]bool{}
	for _, nic := range hardware.NICs {
		if nic.Name == name {
			return nic.MAC
		}
		names[nic.Name] = true
	}
	r.fail(path, "host %s has no interface %q; it has %s", r.in.host.Name, name, list(slices.Sorted(maps.Keys(names))))
	return ""
}

// list joins names, at most 8 of them.
func list(names []string) string {
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > 8:
		return strings.Join(names[:8], ", ") + ", …"
	default:
		return strings.Join(names, ", ")
	}
}
