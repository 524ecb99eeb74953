package data

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

var update = flag.Bool("update", false, "write what is rendered into the golden files")

// testInput is a machine on a host with two network cards.
func testInput() input {
	return input{
		namespace: ns, index: 3,
		machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: "edge-md-0", Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"pool": "storage"},
		}},
		m3m: &v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "edge-m3m-0"}},
		host: &v1alpha1.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web", Annotations: map[string]string{"mac": "52:54:00:00:00:09", "bad": "none"}},
			Spec:       v1alpha1.BareMetalHostSpec{BootMACAddress: "52:54:00:00:00:01"},
			Status: v1alpha1.BareMetalHostStatus{HardwareDetails: &v1alpha1.HardwareDetails{NICs: []v1alpha1.NIC{
				{Name: "eno1", MAC: "52:54:00:00:00:01"}, {Name: "eno2", MAC: "52:54:00:00:00:02"},
			}}},
		},
		pools: map[pool]values{
			{metal3IPAMGroup, metal3PoolKind, "provisioning"}: {
				need: need{true, true}, ip: netip.MustParseAddr("192.0.2.17"), prefix: 24, gateway: netip.MustParseAddr("192.0.2.1"),
				dnsServers: []string{"192.0.2.53", "2001:db8::53"},
			},
			{metal3IPAMGroup, metal3PoolKind, "storage"}:           {need: need{address: true}, ip: netip.MustParseAddr("198.51.100.7"), prefix: 26},
			{"ipam.cluster.x-k8s.io", "InClusterIPPool", "public"}: {need: need{address: true}, ip: netip.MustParseAddr("2001:db8:1::7"), prefix: 64, gateway: netip.MustParseAddr("2001:db8:1::1")},
		},
	}
}

func parse(t *testing.T, text string) *v1beta2.Metal3DataTemplateSpec {
	t.Helper()
	var spec v1beta2.Metal3DataTemplateSpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return &spec
}

// TestDocumentsAreRendered compares each testdata/NAME.yaml with NAME.metadata.yaml and
// NAME.networkdata.json.
func TestDocumentsAreRendered(t *testing.T) {
	for _, name := range []string{"metadata", "bond", "ipv6", "dhcp"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			made, needs, err := render(parse(t, string(text)), testInput())
			if err != nil || len(needs) > 0 {
				t.Fatalf("error %v, needs %v", err, needs)
			}
			golden(t, name+".metadata.yaml", made.metaData)
			golden(t, name+".networkdata.json", made.networkData)
			var read map[string]any
			if err := yaml.Unmarshal(made.networkData, &read); err != nil {
				t.Errorf("network data is not YAML, as which hosts read it: %v", err)
			}
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update && got != nil {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil && (got != nil || !os.IsNotExist(err)) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestEntriesThatCannotBeRenderedAreNamed(t *testing.T) {
	const eth = "networkData: {links: {ethernets: [{id: e, type: phy, name: e}]}, "
	for _, tt := range []struct{ spec, want string }{
		{
			`metaData: {fromHostInterfaces: [{key: a, interface: eno1}, {key: b, interface: eth9}]}`,
			`spec.metaData.fromHostInterfaces[1].interface: host web has no interface "eth9"; it has eno1, eno2`,
		},
		{`metaData: {strings: [{key: "", value: x}]}`, `spec.metaData.strings[0].key: is empty`},
		{`metaData: {objectNames: [{key: a, object: pod}]}`, `spec.metaData.objectNames[0].object: "pod" is not machine, metal3machine or baremetalhost`},
		{`metaData: {ipAddressesFromPool: [{key: a, name: ""}]}`, `spec.metaData.ipAddressesFromPool[0].name: the name of the pool`},
		{`metaData: {gatewaysFromPool: [{key: a, name: storage}]}`, `spec.metaData.gatewaysFromPool[0]: the pool gave address 198.51.100.7 without a gateway`},
		{
			`metaData: {dnsServersFromPool: [{key: a, name: public, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}]}`,
			`spec.metaData.dnsServersFromPool[0].name: only pools of kind IPPool.ipam.metal3.io have DNS servers`,
		},
		{
			`metaData: {ipAddressesFromPool: [{key: a, name: p}, {key: b, name: p, kind: Other}]}`,
			`spec.metaData.ipAddressesFromPool[1].name: the pools IPPool.ipam.metal3.io "p" and Other.ipam.metal3.io "p" have the same name`,
		},
		{`networkData: {links: {ethernets: [{id: e, type: phy}]}}`, `spec.networkData.links.ethernets[0]: has neither macAddress nor name`},
		{`networkData: {links: {ethernets: [{id: e, type: phy, macAddress: {}}]}}`, `links.ethernets[0].macAddress: says no source`},
		{`networkData: {links: {ethernets: [{id: e, type: phy, macAddress: {string: "52:54"}}]}}`, `links.ethernets[0].macAddress.string: "52:54" is not a MAC address`},
		{
			`networkData: {links: {ethernets: [{id: e, type: phy, macAddress: {fromAnnotation: {object: baremetalhost, annotation: bad}}}]}}`,
			`links.ethernets[0].macAddress.fromAnnotation: "none" is not a MAC address`,
		},
		{
			`networkData: {links: {ethernets: [{id: e, type: phy, name: a}, {id: e, type: phy, name: b}]}}`,
			`links.ethernets[1].id: "e" is the ID of spec.networkData.links.ethernets[0], too`,
		},
		{`networkData: {links: {bonds: [{id: b, bondMode: 802.3ad, bondLinks: [x]}]}}`, `links.bonds[0].bondLinks[0]: there is no link with ID "x"`},
		{`networkData: {links: {bonds: [{id: b, bondMode: 802.3ad, parameters: [{name: mode, value: 1}]}]}}`, `links.bonds[0].parameters[mode]: has a field of its own`},
		{`networkData: {links: {bridges: [{id: b, bridgeLinks: [x]}]}}`, `links.bridges[0].bridgeLinks[0]: there is no link with ID "x"`},
		{`networkData: {links: {vlans: [{id: v, vlanID: 7, vlanLink: x}]}}`, `links.vlans[0].vlanLink: there is no link with ID "x"`},
		{eth + `networks: {ipv4DHCP: [{id: net, link: x}]}}`, `spec.networkData.networks.ipv4DHCP[0].link: there is no link with ID "x"`},
		{eth + `networks: {ipv4: [{id: net, link: e}]}}`, `networks.ipv4[0]: says no pool`},
		{eth + `networks: {ipv6: [{id: net, link: e, ipAddressFromIPPool: storage}]}}`, `networks.ipv6[0]: pool IPPool.ipam.metal3.io "storage" gave 198.51.100.7, which is no IPv6 address`},
		{eth + `networks: {ipv4: [{id: net, link: e, fromPoolAnnotation: {object: machine, annotation: none}}]}}`, `networks.ipv4[0]: the name of the pool, or the annotation that has it, is empty`},
		{
			eth + `networks: {ipv4DHCP: [{id: net, link: e, routes: [{network: nowhere, gateway: {string: "::1"}}]}]}}`,
			`networks.ipv4DHCP[0].routes[0].network: "nowhere" is no IPv4 address; spec.networkData.networks.ipv4DHCP[0].routes[0].gateway.string: "::1" is no IPv4 address`,
		},
		{eth + `networks: {ipv6DHCP: [{id: net, link: e, routes: [{network: "::", prefix: 129, gateway: {}}]}]}}`, `networks.ipv6DHCP[0].routes[0].prefix: is 129, not from 0 to 128`},
		{
			eth + `networks: {ipv6SLAAC: [{id: net, link: e, routes: [{network: "::", gateway: {fromIPPool: provisioning}}]}]}}`,
			`routes[0].gateway: pool IPPool.ipam.metal3.io "provisioning" gave the gateway 192.0.2.1, which is no IPv6 address`,
		},
		{eth + `services: {dns: [1.2.3]}}`, `spec.networkData.services.dns[0]: "1.2.3" is no IP address`},
		{`metaData: {strings: [{key: a, value: ` + strings.Repeat("x", maxDocument) + `}]}`, `spec.metaData: the rendered document has`},
	} {
		_, _, err := render(parse(t, tt.spec), testInput())
		text, isProblem := problemText(err)
		if !isProblem || !strings.Contains(text, tt.want) {
			t.Errorf("%.200s\n got %v\nwant %s", tt.spec, err, tt.want)
		}
	}
}

func TestProblemsAndPoolsOfATemplateAreBounded(t *testing.T) {
	spec, in := &v1beta2.Metal3DataTemplateSpec{MetaData: &v1beta2.MetaData{}}, testInput()
	for i := range 1000 {
		spec.MetaData.IPAddressesFromPool = append(spec.MetaData.IPAddressesFromPool, v1beta2.FromPool{Key: "k", Name: fmt.Sprintf("pool-%d", i)})
	}
	_, _, err := render(spec, in)
	text, _ := problemText(err)
	if !strings.Contains(text, "more than 32 pools") || !strings.Contains(text, "more problems") || len(text) > maxMessage {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

func TestValuesOfPoolsThatAreNotKnownAreNeeds(t *testing.T) {
	in := testInput()
	in.pools = nil
	spec := parse(t, `
metaData:
  prefixesFromPool: [{key: p, name: storage}]
  dnsServersFromPool: [{key: d, name: provisioning}]
networkData:
  links: {ethernets: [{id: e, type: phy, name: e}]}
  networks:
    ipv6: [{id: net, link: e, fromPoolRef: {name: public, kind: InClusterIPPool, apiGroup: ipam.cluster.x-k8s.io}}]
    ipv4: [{id: other, link: e, fromPoolAnnotation: {object: machine, annotation: pool}, ipAddressFromIPPool: other}]
`)
	made, needs, err := render(spec, in)
	want := map[pool]need{
		{metal3IPAMGroup, metal3PoolKind, "storage"}:           {address: true},
		{metal3IPAMGroup, metal3PoolKind, "provisioning"}:      {dns: true},
		{"ipam.cluster.x-k8s.io", "InClusterIPPool", "public"}: {address: true},
	}
	if err != nil || made.metaData != nil || made.networkData != nil || !cmp.Equal(want, needs, cmp.AllowUnexported(pool{}, need{})) {
		t.Errorf("error %v, documents %+v, needs %v, want %v", err, made, needs, want)
	}
	in.pools = testInput().pools
	if _, needs, err := render(spec, in); err != nil || len(needs) > 0 {
		t.Errorf("error %v, needs %v, when all are known", err, needs)
	}
}

// TestProviderIDOfTheMetadataIsThatOfTheMachine makes the provider ID as kubelet's arguments do.
func TestProviderIDOfTheMetadataIsThatOfTheMachine(t *testing.T) {
	made, _, err := render(parse(t, `metaData: {strings: [{key: providerid, value: mine}]}`), testInput())
	if err != nil {
		t.Fatal(err)
	}
	var read map[string]string
	if err := yaml.Unmarshal(made.metaData, &read); err != nil {
		t.Fatal(err)
	}
	if got, want := v1beta2.ProviderIDPrefix+read["providerid"], "metal3://rack/web/edge-m3m-0"; got != want {
		t.Errorf("provider ID %s, want %s", got, want)
	}
	if made.networkData != nil {
		t.Error("there is network data, which the template does not have")
	}
}

func TestPoolWithoutDNSServersRendersNone(t *testing.T) {
	in, none := testInput(), newPool("", "", "storage")
	v := in.pools[none]
	v.dns = true
	in.pools[none] = v
	made, needs, err := render(parse(t, `
metaData: {dnsServersFromPool: [{key: dns, name: storage}]}
networkData:
  links: {ethernets: [{id: e, type: phy, name: e}]}
  services: {dns: [192.0.2.54], dnsFromIPPool: storage}
  networks: {ipv4DHCP: [{id: net, link: e, routes: [{network: 0.0.0.0, gateway: {string: 192.0.2.1}, services: {dnsFromIPPool: storage}}]}]}
`), in)
	if err != nil || len(needs) > 0 {
		t.Fatalf("error %v, needs %v", err, needs)
	}
	var metaData map[string]string
	var networkData struct {
		Networks []struct{ Routes []struct{ Services []any } }
		Services []any
	}
	if err := errors.Join(yaml.Unmarshal(made.metaData, &metaData), json.Unmarshal(made.networkData, &networkData)); err != nil {
		t.Fatal(err)
	}
	if dns, there := metaData["dns"]; dns != "" || !there || len(networkData.Services) != 1 {
		t.Errorf("metadata %v, DNS servers %v", metaData, networkData.Services)
	}
	if of := networkData.Networks[0].Routes[0].Services; of == nil || len(of) > 0 {
		t.Errorf("DNS servers of the route are %v, want an empty list", of)
	}
}

func TestDNSServersOfAPoolAreThoseOfTheRangeOfTheAddress(t *testing.T) {
	const text = `{"spec": {"dnsServers": ["192.0.2.53"], "pools": [
		{"start": "192.0.2.10", "end": "192.0.2.20", "dnsServers": ["192.0.2.54"]},
		{"subnet": "198.51.100.0/24", "dnsServers": ["198.51.100.53"]},
		{"subnet": "203.0.113.0/24", "start": "203.0.113.10", "dnsServers": ["203.0.113.53"]},
		{"subnet": "2001:db8::/64"}]}}`
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	for ip, want := range map[string]string{
		"192.0.2.10": "192.0.2.54", "192.0.2.20": "192.0.2.54", "192.0.2.21": "192.0.2.53", "192.0.2.9": "192.0.2.53",
		"198.51.100.7": "198.51.100.53", "203.0.113.9": "192.0.2.53", "203.0.113.10": "203.0.113.53", "2001:db8::1": "192.0.2.53",
	} {
		if got := poolServers(object, netip.MustParseAddr(ip)); len(got) != 1 || got[0] != want {
			t.Errorf("DNS servers of %s: %v, want %s", ip, got, want)
		}
	}
	if got := poolServers(object, netip.Addr{}); len(got) != 1 || got[0] != "192.0.2.53" {
		t.Errorf("DNS servers without an address: %v, want those of the pool", got)
	}
}
