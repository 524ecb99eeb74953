//go:build compat

package upstream_test

import (
	_ "embed"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/test/process"
)

// Settings of the services.
var (
	//go:embed testdata/ironic.conf
	ironicSettings string
	//go:embed testdata/ironic-inspector.conf
	inspectorSettings string
)

// debianIronic is Ironic as Debian ships it, with its inspector, without other services of
// OpenStack. Machines boot the ramdisk over the network, from files that Ironic writes.
type debianIronic struct {
	Dir       string
	Port      string // of the Bare Metal API, on loopback
	Inspector string // its port
	// Files is the URL of the folder in which Ironic writes files for machines. Kernel and Ramdisk
	// are URLs of files that Ironic downloads and serves.
	Files, Kernel, Ramdisk string
}

// url is the root of the Bare Metal API.
func (d *debianIronic) url() string { return "http://127.0.0.1:" + d.Port }

// bootURL returns the URL of the script with which machines begin.
func (d *debianIronic) bootURL() string { return d.Files + "/boot.ipxe" }

// startDebianIronic runs the services until the test ends.
func startDebianIronic(t *testing.T) *debianIronic {
	t.Helper()
	d := &debianIronic{
		Dir: t.TempDir(), Port: freePort(t), Inspector: freePort(t),
	}
	for _, folder := range []string{"http", "tftp", "images", "instances", "state"} {
		must(t, "make folder", os.Mkdir(d.path(folder), 0o755))
	}
	files := httptest.NewServer(http.FileServer(http.Dir(d.path("http"))))
	t.Cleanup(files.Close)
	d.Files = files.URL
	d.Kernel, d.Ramdisk = d.serveFile(t, "kernel", []byte("the kernel")), d.serveFile(t, "ramdisk", []byte("the ramdisk"))
	d.run(t, "ironic-inspector", inspectorSettings, "ironic-inspector-dbsync", "upgrade")
	d.run(t, "ironic", ironicSettings, "ironic-dbsync", "create_schema")
	d.serve(t, "ironic-inspector", d.Inspector)
	d.serve(t, "ironic", d.Port)
	return d
}

// serveFile serves a file, and returns its URL.
func (d *debianIronic) serveFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	must(t, "write file", os.WriteFile(filepath.Join(d.path("http"), name), content, 0o644))
	return d.Files + "/" + name
}

func (d *debianIronic) path(name string) string { return filepath.Join(d.Dir, name) }

// program returns a command of one of the services. It does not get the user's settings and
// proxies.
func (d *debianIronic) program(t *testing.T, name, service string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v; install Debian's packages ironic-api, ironic-conductor and ironic-inspector", err)
	}
	cmd := exec.Command(program, append([]string{"--config-file", d.path(service + ".conf")}, args...)...)
	cmd.Dir = d.Dir
	cmd.Env = []string{"HOME=" + d.Dir, "LANG=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONWARNINGS=ignore"}
	return cmd
}

// run writes the settings of a service and runs the program that creates its database.
func (d *debianIronic) run(t *testing.T, service, settings, program string, args ...string) {
	t.Helper()
	file, err := os.Create(d.path(service + ".conf"))
	must(t, "write settings", err)
	defer file.Close()
	must(t, "write settings", template.Must(template.New(service).Parse(settings)).Execute(file, d))
	if output, err := d.program(t, program, service, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, output)
	}
}

// serve runs a service, and returns when it answers.
func (d *debianIronic) serve(t *testing.T, service, port string) {
	t.Helper()
	p := process.Run(t, d.program(t, service, service), d.path(service+".log"))
	p.AwaitAnswer(t, "127.0.0.1:"+port)
	// Ironic stops its conductor in order when it is asked to end.
	t.Cleanup(func() { _ = p.Stop(5 * time.Second) })
}

// nodes counts the nodes that Ironic has.
func (d *debianIronic) nodes(t *testing.T) (int, error) {
	t.Helper()
	client, err := ironic.New(ironic.Options{Endpoint: d.url()})
	must(t, "make client", err)
	count := 0
	for _, err := range client.Nodes(t.Context(), ironic.NodeQuery{}) {
		if err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(process.Address(t))
	must(t, "find a port", err)
	return strings.TrimSpace(port)
}
