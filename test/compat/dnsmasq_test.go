//go:build compat

package compat_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/test/process"
)

// Addresses of machines in these tests.
const (
	knownMAC   = "52:54:00:00:00:01"
	otherMAC   = "52:54:00:00:00:02"
	unknownMAC = "52:54:00:00:00:99"
)

// setup has an engine, a filter and a dnsmasq, all of them real processes, and one machine at a
// time that boots from the network.
type setup struct {
	*lan
	dir, hosts, ingot, address string
	engine, filter, server     *program
}

// newSetup starts everything.
func newSetup(t *testing.T, ingot string) *setup {
	t.Helper()
	// dnsmasq reads the folder as a user of its own, who may not enter t.TempDir.
	dir, err := os.MkdirTemp("", "ingot-dnsmasq-") //nolint:usetesting // see above
	must(t, "make a folder", err)
	t.Cleanup(func() { must(t, "remove the folder", os.RemoveAll(dir)) })
	s := &setup{dir: dir, hosts: filepath.Join(dir, "hosts"), ingot: ingot, address: process.Address(t)}
	must(t, "open the folder", os.Chmod(dir, 0o755))
	must(t, "make a folder", os.Mkdir(s.hosts, 0o755))
	s.lan = newLAN(t, dir)
	s.engine = engineProcess(t, s.ingot, dir, s.address)
	s.server = s.dnsmasq(dir, s.hosts)
	s.filter = s.startFilter("filter")
	s.filter.awaitOutput("Filter is active", 0)
	return s
}

// startFilter starts another filter.
func (s *setup) startFilter(name string, flags ...string) *program {
	s.t.Helper()
	return run(s.t, s.dir, name, nil, append([]string{
		s.ingot, "pxe-filter", "--data", filepath.Join(s.dir, "data"), "--dhcp-hostsdir", s.hosts,
		"--dnsmasq-pid-file", filepath.Join(s.dir, "dnsmasq.pid"),
	}, flags...)...)
}

// restartFilter ends the filter and starts it with other flags.
func (s *setup) restartFilter(flags ...string) {
	s.t.Helper()
	before := strings.Count(s.filter.output(), "Filter is active")
	must(s.t, "stop the filter", s.filter.Stop(time.Minute))
	s.filter = s.startFilter("filter", flags...)
	s.filter.awaitOutput("Filter is active", before)
}

// ask calls the API and returns the object that it answers.
func (s *setup) ask(method, path, body string, want int) map[string]any {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.address+path, strings.NewReader(body))
	must(s.t, "make request", err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-OpenStack-Ironic-API-Version", "latest")
	status, text := exchangeWith(s.t, request)
	if status != want {
		s.t.Fatalf("%s %s: got %d %s, want %d", method, path, status, text, want)
	}
	if len(text) == 0 {
		return nil
	}
	return decodeJSON(s.t, text)
}

// node registers a node that its ramdisk inspects, with a port for each address,
// and brings it to manageable.
func (s *setup) node(macs ...string) (uuid string, ports []string) {
	s.t.Helper()
	uuid = s.ask("POST", "/v1/nodes", `{"driver":"fake-hardware","inspect_interface":"agent"}`, http.StatusCreated)["uuid"].(string)
	for _, mac := range macs {
		port := s.ask("POST", "/v1/ports", fmt.Sprintf(`{"node_uuid":%q,"address":%q}`, uuid, mac), http.StatusCreated)
		ports = append(ports, port["uuid"].(string))
	}
	s.move(uuid, "manage", "manageable")
	return uuid, ports
}

// move sends a verb and waits for the state that it leads to.
func (s *setup) move(uuid, verb, state string) {
	s.t.Helper()
	askFor(s.t, "http://"+s.address, uuid, verb)
	awaitState(s.t, "http://"+s.address, uuid, state)
}

// says waits until a file of the folder has a text. "" means that the file is gone.
func (s *setup) says(name, text string) {
	s.t.Helper()
	await(s.t, fmt.Sprintf("file %s to say %q", name, text), func() bool {
		data, err := os.ReadFile(filepath.Join(s.hosts, name))
		return err == nil && string(data) == text || os.IsNotExist(err) && text == ""
	})
}

// serves checks that a machine gets an address. It asks for longer than a change may take to reach
// dnsmasq.
func (s *setup) serves(mac, when string) {
	s.t.Helper()
	if !s.boot(mac, 8) {
		s.t.Errorf("%s: %s is refused, want it served", when, mac)
	}
}

// refuses checks that dnsmasq decides to give a machine no address. The caller must have waited for
// the latest change.
func (s *setup) refuses(mac, when string) {
	s.t.Helper()
	ignored := mac + " ignored"
	before := strings.Count(s.server.output(), ignored)
	if s.boot(mac, 2) {
		s.t.Errorf("%s: %s is served, want it refused", when, mac)
	} else if strings.Count(s.server.output(), ignored) == before {
		s.t.Errorf("%s: dnsmasq did not see a request of %s", when, mac)
	}
}

func inventoryOf(mac string) string {
	return fmt.Sprintf(`{"inventory":{"interfaces":[{"name":"eth0","mac_address":%q,"ipv4_address":"192.0.2.100","has_carrier":true}],
		"cpu":{"architecture":"x86_64","count":4},"memory":{"physical_mb":8192},"disks":[{"name":"/dev/sda","size":1000000000000}],
		"boot":{"current_boot_mode":"uefi","pxe_interface":%q}}}`, mac, mac)
}

const (
	allowUnknown = "*:*:*:*:*:*\n"
	denyUnknown  = "*:*:*:*:*:*,ignore\n"
	unknownHosts = "unknown_hosts_filter" // the file that says it
)

func allow(mac string) string { return mac + "\n" }
func deny(mac string) string  { return mac + ",ignore\n" }

// TestDnsmasqObeysTheFilter plays each story with processes of its own: Debian's
// dnsmasq, a DHCP client, an engine and a filter.
func TestDnsmasqObeysTheFilter(t *testing.T) {
	needsRoot(t)
	ingot := filepath.Join(t.TempDir(), "ingot")
	must(t, "build", process.Build(t.Context(), ".", ingot, "-pgo=off"))
	for name, story := range map[string]func(*testing.T, *setup){
		"a machine is served while it is inspected":     servedWhileInspected,
		"unknown machines are served only by the rules": unknownServedByRules,
		"a deleted port is forgotten":                   deletedPortForgotten,
		"restarts of any process change nothing":        restartsChangeNothing,
		"nobody is served before there are rules":       nobodyServedWithoutRules,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			story(t, newSetup(t, ingot))
		})
	}
}

func servedWhileInspected(t *testing.T, s *setup) {
	t.Helper()
	s.refuses(unknownMAC, "nothing is registered")

	uuid, _ := s.node(knownMAC)
	s.says(knownMAC, deny(knownMAC))
	s.refuses(knownMAC, "manageable")

	s.move(uuid, "inspect", "inspect wait")
	s.serves(knownMAC, "inspect wait")
	s.refuses(unknownMAC, "a node with a port is inspected")

	postInspection(t, "http://"+s.address, inventoryOf(knownMAC))
	awaitState(t, "http://"+s.address, uuid, "manageable")
	s.says(knownMAC, deny(knownMAC))
	s.refuses(knownMAC, "inspected")

	s.move(uuid, "inspect", "inspect wait")
	s.serves(knownMAC, "inspect wait again")
	s.move(uuid, "abort", "inspect failed")
	s.says(knownMAC, deny(knownMAC))
	s.refuses(knownMAC, "aborted")
}

func unknownServedByRules(t *testing.T, s *setup) {
	t.Helper()
	uuid, _ := s.node()
	s.says(unknownHosts, denyUnknown)
	s.refuses(unknownMAC, "a node without ports is manageable")

	s.move(uuid, "inspect", "inspect wait")
	s.serves(unknownMAC, "a node without ports is inspected")
	s.move(uuid, "abort", "inspect failed")
	s.says(unknownHosts, denyUnknown)
	s.refuses(unknownMAC, "its inspection was aborted")

	_, _ = s.node(knownMAC)
	s.restartFilter("--auto-discovery")
	s.says(unknownHosts, allowUnknown)
	s.serves(unknownMAC, "auto-discovery is on")
	s.refuses(knownMAC, "auto-discovery is on, but this one is known")

	s.restartFilter("--serve", "idle")
	s.says(unknownHosts, denyUnknown)
	s.refuses(unknownMAC, "auto-discovery is off again")
	s.serves(knownMAC, "nodes that wait for work are served too")
}

// deletedPortForgotten also shows why dnsmasq needs a signal: without it, the rule of the removed
// file would be in force forever.
func deletedPortForgotten(t *testing.T, s *setup) {
	t.Helper()
	uuid, ports := s.node(knownMAC, otherMAC)
	s.says(knownMAC, deny(knownMAC))
	s.ask("DELETE", "/v1/ports/"+ports[0], "", http.StatusNoContent)
	s.refuses(knownMAC, "its port was deleted, unknown machines are refused")

	portless, _ := s.node()
	s.move(portless, "inspect", "inspect wait")
	s.says(unknownHosts, allowUnknown)
	s.says(knownMAC, allow(knownMAC))
	s.serves(knownMAC, "unknown machines are served")
	s.refuses(otherMAC, "unknown machines are served, but this one is known")

	read := strings.Count(s.server.output(), "read "+s.hosts)
	s.restartFilter()
	s.says(knownMAC, "")
	s.server.awaitOutput("read "+s.hosts, read)
	s.serves(knownMAC, "its file is removed, unknown machines are served")
	s.move(portless, "abort", "inspect failed")
	s.says(unknownHosts, denyUnknown)
	s.refuses(knownMAC, "its file is removed, unknown machines are refused")
	s.refuses(otherMAC, "known as before")

	s.move(uuid, "inspect", "inspect wait")
	s.serves(otherMAC, "the node goes on")
}

func restartsChangeNothing(t *testing.T, s *setup) {
	t.Helper()
	inspected, _ := s.node(knownMAC)
	_, _ = s.node(otherMAC)
	s.move(inspected, "inspect", "inspect wait")
	s.says(knownMAC, allow(knownMAC))
	s.says(otherMAC, deny(otherMAC))

	check := func(when string) {
		t.Helper()
		s.serves(knownMAC, when)
		s.refuses(otherMAC, when)
		s.refuses(unknownMAC, when)
	}
	check("at first")
	s.server.Kill()
	s.server = s.dnsmasq(s.dir, s.hosts)
	check("dnsmasq was killed and started")

	s.engine.Kill()
	check("the engine was killed")
	s.engine = engineProcess(t, s.ingot, s.dir, s.address)
	check("the engine was started again")

	second := s.startFilter("second-filter")
	second.awaitOutput("standing by", 0)
	s.filter.Kill()
	second.awaitOutput("Filter is active", 0)
	check("the second filter took over")

	s.move(inspected, "abort", "inspect failed")
	s.says(knownMAC, deny(knownMAC))
	s.refuses(knownMAC, "the second filter follows the engine")
}

// nobodyServedWithoutRules starts dnsmasq with an empty folder, as happens before the filter is
// ready.
func nobodyServedWithoutRules(t *testing.T, s *setup) {
	t.Helper()
	_, _ = s.node(knownMAC)
	s.says(knownMAC, deny(knownMAC))
	s.server.Kill()
	must(t, "stop the filter", s.filter.Stop(time.Minute))
	for _, name := range []string{knownMAC, unknownHosts} {
		must(t, "remove a rule", os.Remove(filepath.Join(s.hosts, name)))
	}
	s.server = s.dnsmasq(s.dir, s.hosts)
	s.refuses(knownMAC, "the folder is empty")
	s.refuses(unknownMAC, "the folder is empty")

	s.filter = s.startFilter("first-filter", "--auto-discovery")
	s.says(unknownHosts, allowUnknown)
	s.serves(unknownMAC, "auto-discovery is on")
	s.refuses(knownMAC, "auto-discovery is on, but this one is known")
}

// TestDocumentedConfigurationOfDnsmasqIsAccepted checks what people copy.
func TestDocumentedConfigurationOfDnsmasqIsAccepted(t *testing.T) {
	page, err := os.ReadFile("../../docs/pxe-filter.md")
	must(t, "read the documentation", err)
	_, rest, _ := strings.Cut(string(page), "# /etc/dnsmasq.d/ingot.conf\n")
	text, _, found := strings.Cut(rest, "```")
	if !found || !strings.Contains(text, "dhcp-hostsdir=") || !strings.Contains(text, "dhcp-ignore=tag:!known\n") {
		t.Fatal("docs/pxe-filter.md shows no configuration of dnsmasq")
	}
	config := filepath.Join(t.TempDir(), "dnsmasq.conf")
	must(t, "write the configuration", os.WriteFile(config, []byte(text), 0o644))
	if output, err := exec.Command(needs(t, "dnsmasq", "dnsmasq-base"), "--test", "--conf-file="+config).CombinedOutput(); err != nil {
		t.Errorf("dnsmasq refuses it: %v\n%s", err, output)
	}
}
