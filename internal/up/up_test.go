package up

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1alpha1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/loopbacktest"
)

var plane = controlplanetest.New(controlplanetest.Options{})

func TestMain(m *testing.M) {
	operator.RouteLogs(slog.New(slog.DiscardHandler))
	os.Exit(plane.Run(m))
}

// otherCluster writes a kubeconfig of a cluster that is not Ingot's own.
func otherCluster(t *testing.T) string {
	t.Helper()
	config := plane.Config(t)
	kubeconfig := api.Config{
		Clusters:       map[string]*api.Cluster{"other": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{"admin": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*api.Context{"other": {Cluster: "other", AuthInfo: "admin"}},
		CurrentContext: "other",
	}
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUpWorksInAGivenClusterAndLeavesChangedDiscoveryAlone(t *testing.T) {
	var output bytes.Buffer
	opts := Options{
		Machines: 2, BMCs: 1, Seed: 21, DataDir: t.TempDir(), Kubeconfig: otherCluster(t),
		Listen: "127.0.0.1:0", Network: loopbacktest.Network(t), Output: &output,
	}
	u := mustStart(t, opts)
	following, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := u.Follow(following); err != nil || following.Err() != nil {
		t.Fatalf("machines did not become available: %v, %v\n%s", err, following.Err(), output.String())
	}
	for _, want := range []string{"2 of 2 machines are available hosts", "export KUBECONFIG=" + opts.Kubeconfig, u.EngineURL(), "apply -f " + filepath.Join(opts.DataDir, "rack1.yaml"), "get bmh rack1 --watch", "ingot node create --driver redfish", "ingot node deploy rack2"} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, output.String())
		}
	}
	if _, err := os.Stat(filepath.Join(opts.DataDir, "controlplane")); !os.IsNotExist(err) {
		t.Errorf("an own control plane was started although a cluster was given (%v)", err)
	}

	c, err := newClient(u)
	if err != nil {
		t.Fatal(err)
	}
	deploysItsManifest(t, u, c)
	key := client.ObjectKey{Namespace: namespace, Name: discoveryName}
	changed := &discoveryv1alpha1.BareMetalHostDiscovery{}
	if err := c.Get(t.Context(), key, changed); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(changed.DeepCopy())
	changed.Spec.Suspend = true
	if err := c.Patch(t.Context(), changed, patch); err != nil {
		t.Fatal(err)
	}
	mustStop(t, u)
	u = mustStart(t, opts)
	defer mustStop(t, u)
	if err := c.Get(t.Context(), key, changed); err != nil || !changed.Spec.Suspend {
		t.Errorf("the second start changed the discovery: suspend %v, %v", changed.Spec.Suspend, err)
	}
}

// logged returns the first 200 lines of the log that mention something.
func logged(t *testing.T, u *Up, what string) string {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(u.opts.DataDir, "ingot.log"))
	if err != nil {
		t.Error(err)
	}
	var lines []string
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, what) && len(lines) < 200 {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// deploysItsManifest creates the objects of the printed manifest, as people do, waits until the
// machine runs the image, and deletes the objects.
func deploysItsManifest(t *testing.T, u *Up, c client.Client) {
	t.Helper()
	file, err := os.ReadFile(u.manifest)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(file), 4096)
	for {
		obj := &unstructured.Unstructured{}
		if err := documents.Decode(obj); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatalf("create %s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
		objects = append(objects, obj)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	machine := u.bmcMachines.Machine(0)
	var host metal3v1alpha1.BareMetalHost
	key := client.ObjectKey{Namespace: namespace, Name: "rack1"}
	if err := machine.Wait(ctx, sim.OS); err != nil {
		readErr := c.Get(t.Context(), key, &host)
		t.Fatalf("the machine runs no deployed system: %v, %+v; host (%v): %+v\n%s", err, machine.Status(), readErr, host.Status, logged(t, u, "rack1"))
	}
	follow := func(what string, done func(error) bool) {
		t.Helper()
		err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			return done(c.Get(ctx, key, &host)), nil
		})
		if err != nil {
			t.Fatalf("%s: %v; host in %q with error %q", what, err, host.Status.Provisioning.State, host.Status.ErrorMessage)
		}
	}
	follow("provisioned", func(err error) bool {
		return err == nil && host.Status.Provisioning.State == metal3v1alpha1.StateProvisioned && host.Status.PoweredOn
	})
	for _, obj := range objects {
		if err := c.Delete(t.Context(), obj); err != nil {
			t.Fatalf("delete %s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
	follow("deleted", apierrors.IsNotFound)
	if state := machine.Status().State; state != sim.Off {
		t.Errorf("machine is %q after the deletion of its host, want it off", state)
	}
}

func TestUpSaysInOneLineWhatIsInTheWay(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	corrupt := t.TempDir()
	if err := os.MkdirAll(filepath.Join(corrupt, "engine"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(corrupt, "engine", "ingot.db"), []byte("milk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		opts Options
		want string
	}{
		"busy port":          {Options{DataDir: t.TempDir(), Listen: listener.Addr().String()}, "listen on " + listener.Addr().String()},
		"data is a file":     {Options{DataDir: file}, file},
		"missing kubeconfig": {Options{DataDir: t.TempDir(), Kubeconfig: "/nonexistent"}, "read kubeconfig /nonexistent"},
		"damaged database":   {Options{DataDir: corrupt}, filepath.Join(corrupt, "engine", "ingot.db")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.opts.Listen == "" {
				test.opts.Listen = "127.0.0.1:0"
			}
			_, err := Start(t.Context(), test.opts)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line with %q", err, test.want)
			}
		})
	}
}

func mustStart(t *testing.T, opts Options) *Up {
	t.Helper()
	opts.Volatile = true
	u, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() { mustStop(t, u) })
	return u
}

// mustStop stops u; a second call does nothing.
func mustStop(t *testing.T, u *Up) {
	t.Helper()
	if err := u.Stop(context.Background()); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestMachinesAndBMCsHaveNetworksOfTheirOwn(t *testing.T) {
	o := Options{Network: netip.MustParsePrefix("127.64.0.0/10")}
	for want, got := range map[string]netip.Prefix{
		"127.64.0.0/12": o.discoveredNetwork(), "127.80.0.0/12": o.registeredNetwork(), "127.96.0.0/12": o.bmcNetwork(),
	} {
		if got.String() != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
