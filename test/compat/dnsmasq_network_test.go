//go:build compat

package compat_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ingot-metal/ingot/test/process"
)

// program is a running process of the test.
type program struct {
	*process.Process
	t    *testing.T
	name string
}

// run starts a process until the test ends.
func run(t *testing.T, dir, name string, attributes *syscall.SysProcAttr, command ...string) *program {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.SysProcAttr = attributes
	return &program{process.Run(t, cmd, filepath.Join(dir, name+".log")), t, name}
}

func (p *program) output() string {
	p.t.Helper()
	return p.Output(p.t)
}

// awaitOutput waits until the log has text in it more often than count times.
func (p *program) awaitOutput(text string, count int) {
	p.t.Helper()
	await(p.t, p.name+" to say "+text, func() bool { return strings.Count(p.output(), text) > count })
}

// needs fails the test when a program is missing.
func needs(t *testing.T, program, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("this test needs %s: install Debian's package %s", program, debianPackage)
	}
	return path
}

// needsRoot makes sure that network namespaces can be created. Without that right the test is
// skipped, but never in CI.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	const why = "only root can make the network namespaces that dnsmasq and its client run in: run this test as root"
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// lan is a network with two ends. Each end is a network namespace that lives as long as the process
// in it: that of the server, 192.0.2.1, and that of a machine that boots.
type lan struct {
	t              *testing.T
	server, client *program
}

func newLAN(t *testing.T, dir string) *lan {
	t.Helper()
	needs(t, "ip", "iproute2")
	needs(t, "nsenter", "util-linux")
	t.Log("makes network namespaces, for which root needs CAP_SYS_ADMIN and CAP_NET_ADMIN in a container")
	namespace := func(name string) *program {
		return run(t, dir, name, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}, "sleep", "infinity")
	}
	l := &lan{t, namespace("server-network"), namespace("client-network")}
	l.in(l.server, "ip", "link", "add", "lan0", "type", "veth", "peer", "name", "nic0", "netns", strconv.Itoa(l.client.PID))
	l.in(l.server, "ip", "address", "add", "192.0.2.1/24", "dev", "lan0")
	l.in(l.server, "ip", "link", "set", "lan0", "up")
	l.in(l.client, "ip", "link", "set", "nic0", "up")
	return l
}

// inside returns the command line that runs a command in a namespace.
func (l *lan) inside(where *program, command ...string) []string {
	return append([]string{"nsenter", "--net", "--target", strconv.Itoa(where.PID), "--"}, command...)
}

// in runs a command in a namespace to its end.
func (l *lan) in(where *program, command ...string) {
	l.t.Helper()
	line := l.inside(where, command...)
	if output, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		l.t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, output)
	}
}

// boot lets the machine with a MAC address ask for an IP address, as firmware does that boots from
// the network. It reports whether the machine got one within this many seconds.
func (l *lan) boot(mac string, seconds int) bool {
	l.t.Helper()
	l.in(l.client, "ip", "link", "set", "nic0", "address", mac)
	line := l.inside(l.client, needs(l.t, "busybox", "udhcpc"), "udhcpc", "-i", "nic0", "-f", "-n", "-q",
		"-t", strconv.Itoa(seconds), "-T", "1", "-s", "/bin/true")
	output, err := exec.Command(line[0], line[1:]...).CombinedOutput()
	switch {
	case err == nil && strings.Contains(string(output), "lease of 192.0.2."):
		return true
	case err != nil && strings.Contains(string(output), "no lease"):
		return false
	}
	l.t.Fatalf("DHCP client with address %s: %v\n%s", mac, err, output)
	return false
}

// dnsmasq starts Debian's dnsmasq in the server's namespace as the documentation describes it, and
// waits until it serves.
func (l *lan) dnsmasq(dir, hosts string) *program {
	l.t.Helper()
	config := filepath.Join(dir, "dnsmasq.conf")
	must(l.t, "configure dnsmasq", os.WriteFile(config, fmt.Appendf(nil, dnsmasqConfig, hosts, dir), 0o644))
	p := run(l.t, dir, "dnsmasq", nil, l.inside(l.server, needs(l.t, "dnsmasq", "dnsmasq-base"),
		"--keep-in-foreground", "--conf-file="+config, "--log-facility=-")...)
	await(l.t, "dnsmasq to start", func() bool { return pidIn(dir) == p.PID })
	return p
}

const dnsmasqConfig = `
port=0
interface=lan0
bind-interfaces
dhcp-range=192.0.2.100,192.0.2.200,5m
dhcp-hostsdir=%[1]s
dhcp-ignore=tag:!known
dhcp-boot=tag:!ipxe,snponly.efi
dhcp-leasefile=%[2]s/leases
pid-file=%[2]s/dnsmasq.pid
`

// pidIn returns the PID in the pid file of a folder, or 0 if there is none.
func pidIn(dir string) int {
	text, _ := os.ReadFile(filepath.Join(dir, "dnsmasq.pid")) // there is none at first
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// engineProcess runs the engine and waits until it answers.
func engineProcess(t *testing.T, ingot, dir, address string) *program {
	t.Helper()
	p := run(t, dir, "engine", nil, ingot, "engine", "--data", filepath.Join(dir, "data"), "--listen", address,
		"--set", "inspector.require_managed_boot=false")
	p.AwaitAnswer(t, address)
	return p
}
