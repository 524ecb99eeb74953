package inspect

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestBMCHostsReadsEveryAddressKey(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.18":                          "192.0.2.18",
		"192.0.2.18:623":                      "192.0.2.18",
		"https://192.0.2.17:8443/redfish/v1":  "192.0.2.17",
		"https://admin@bmc.example.com/":      "bmc.example.com",
		"bmc.example.com":                     "bmc.example.com",
		"bmc.example.com:8443":                "bmc.example.com",
		"bmc-7":                               "bmc-7",
		"[2001:db8::1]:443":                   "2001:db8::1",
		"[2001:db8::1]":                       "2001:db8::1",
		"2001:db8::2":                         "2001:db8::2",
		"http://[2001:db8::3]/redfish":        "2001:db8::3",
		"":                                    "",
		"https://":                            "",
		"http://[2001:db8::1":                 "",
		"bmc:port":                            "",
		"0x72":                                "", // on an IPMI bus
		"32":                                  "",
		"unix+http:///var/run/redfish.socket": "",
	} {
		info := node.ObjectOf(map[string]any{"redfish_address": text, "number_address": 4, "redfish_username": "192.0.2.99"})
		if got := strings.Join(BMCHosts(info), " "); got != want {
			t.Errorf("hosts of %q = %q, want %q", text, got, want)
		}
	}
}

func TestBMCHostsAreListedOnceAndBounded(t *testing.T) {
	info := map[string]any{"a_address": "192.0.2.1", "b_address": "https://192.0.2.1/"}
	if got := BMCHosts(node.ObjectOf(info)); len(got) != 1 {
		t.Errorf("hosts = %q, want one", got)
	}
	for i := range 100 {
		info[fmt.Sprintf("x%d_address", i)] = fmt.Sprintf("bmc-%d", i)
	}
	if got := BMCHosts(node.ObjectOf(info)); len(got) != maxBMCHosts {
		t.Errorf("%d hosts, want %d", len(got), maxBMCHosts)
	}
}

func TestBridgedNodesHaveNoBMCOfTheirOwn(t *testing.T) {
	for bridging, want := range map[string]int{"": 1, "no": 1, "single": 0, "dual": 0} {
		info := node.ObjectOf(map[string]any{"ipmi_address": "192.0.2.1", "ipmi_bridging": bridging})
		if got := BMCHosts(info); len(got) != want {
			t.Errorf("bridging %q: hosts = %q, want %d", bridging, got, want)
		}
	}
}

// directory answers from a table; names that are not in it wait for the deadline.
type directory map[string][]string

func (d directory) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	texts, ok := d[host]
	switch {
	case !ok:
		<-ctx.Done()
		return nil, ctx.Err()
	case texts == nil:
		return nil, errors.New("no such host on " + network)
	}
	var addresses []netip.Addr
	for _, text := range texts {
		addresses = append(addresses, netip.MustParseAddr(text))
	}
	return addresses, nil
}

func TestResolveBMCAddsNamesToLiterals(t *testing.T) {
	names := directory{
		"bmc.example.com":  {"2001:db8::17", "192.0.2.17", "::ffff:192.0.2.17"},
		"host.example.com": {"127.0.0.1", "::1", "169.254.0.17", "fe80::1", "0.0.0.0", "192.0.2.20"},
		"gone.example.com": nil,
	}
	got, problems := ResolveBMC(t.Context(), names, node.ObjectOf(map[string]any{
		"redfish_address": "https://bmc.example.com", "ipmi_address": "192.0.2.17", "drac_address": "[2001:db8::18]:443",
		"x_address": "host.example.com", "y_address": "gone.example.com", "z_address": "localhost.invalid:notaport",
	}))
	var texts []string
	for _, address := range got {
		texts = append(texts, address.String())
	}
	if diff := cmp.Diff([]string{"192.0.2.17", "192.0.2.20", "2001:db8::17", "2001:db8::18"}, texts); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if len(problems) != 1 || problems[0] != "The BMC address gone.example.com could not be resolved: no such host on ip" {
		t.Errorf("problems = %q, want the name that has none", problems)
	}
}

func TestResolveBMCTimesOutOnUnresponsiveServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		info := map[string]any{"redfish_address": "192.0.2.17"}
		for i := range 10 {
			info[fmt.Sprintf("x%d_address", i)] = fmt.Sprintf("unresponsive-%d", i)
		}
		began := time.Now()
		got, problems := ResolveBMC(t.Context(), directory{}, node.ObjectOf(info))
		if took := time.Since(began); took != resolveWithin || len(got) != 1 || len(problems) != 10 {
			t.Errorf("after %s: %v and %d problems, want the literal after %s", took, got, len(problems), resolveWithin)
		}
	})
}

func TestAddressesPerNameAreBounded(t *testing.T) {
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("192.0.2.%d", i+1))
	}
	if got, _ := ResolveBMC(t.Context(), directory{"bmc": many}, node.ObjectOf(map[string]any{"a_address": "bmc"})); len(got) != maxAnswers {
		t.Errorf("%d addresses, want %d", len(got), maxAnswers)
	}
}

func TestBMCAddressesReturnsLiteralIPs(t *testing.T) {
	got := BMCAddresses(node.ObjectOf(map[string]any{
		"redfish_address": "https://192.0.2.17", "ipmi_address": "bmc.example.com", "local_address": "127.0.0.1", "link_address": "[fe80::1%25eth0]",
	}))
	if len(got) != 1 || got[0].String() != "192.0.2.17" {
		t.Errorf("addresses = %v", got)
	}
}
