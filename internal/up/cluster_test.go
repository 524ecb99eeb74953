package up

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/loopbacktest"
)

func TestDiscoveredMachinesBecomeNodesOfACluster(t *testing.T) {
	var output bytes.Buffer
	opts := Options{
		Cluster: true, Machines: 2, BMCs: 1, Seed: 31, DataDir: t.TempDir(), Listen: "127.0.0.1:0", Network: loopbacktest.Network(t), Output: &output,
		AgentTimeout: 6 * time.Second, Heartbeat: 2 * time.Second, Speed: 10,
	}
	u := mustStart(t, opts)
	following, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := u.Follow(following); err != nil || following.Err() != nil {
		t.Fatalf("machines did not become Nodes: %v, %v\n%s", err, following.Err(), output.String())
	}
	for _, want := range []string{
		"2 of 2 machines are Ready Nodes", "--kubeconfig " + filepath.Join(opts.DataDir, "workload", "kubeconfig"),
		filepath.Join(opts.DataDir, "demo.yaml"), "annotate machinedeployment demo", "apply -f " + filepath.Join(opts.DataDir, "rack1.yaml"),
	} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, output.String())
		}
	}
	for i := range opts.Machines {
		if s := u.Machines().Machine(i).Status(); s.State != sim.OS {
			t.Errorf("machine %d is %s, want it in its operating system", i, s.State)
		}
	}
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(u.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	var machines clusterv1.MachineList
	if err := c.List(t.Context(), &machines); err != nil || len(machines.Items) != 2 {
		t.Errorf("there are %d Machines (%v), want one of the control plane and one worker", len(machines.Items), err)
	}
	growsAndIsFenced(t, u)
	mustStop(t, u)

	if _, err := Start(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "forget their disks") || !strings.Contains(err.Error(), opts.DataDir) {
		t.Errorf("the second start says %v, want why the cluster of the first cannot go on", err)
	}
}

func TestFolderIsRefusedOnlyAfterAClusterWasMadeInIt(t *testing.T) {
	dir := t.TempDir()
	open := func() error {
		u := &Up{opts: Options{DataDir: dir, Cluster: true}}
		_, err := u.openData(t.Context())
		mustStop(t, u)
		return err
	}
	// A failed start leaves this if its control planes were already there.
	if err := os.MkdirAll(filepath.Join(dir, "workload", "controlplane"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := open(); err != nil {
		t.Errorf("without a cluster: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "demo.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(); !errors.Is(err, errEarlierCluster) {
		t.Errorf("with a cluster: %v, want why it cannot go on", err)
	}
}

// growsAndIsFenced follows the page about the cluster. Afterwards the cluster has one Node more,
// and one Node was replaced by a new one.
func growsAndIsFenced(t *testing.T, u *Up) {
	t.Helper()
	workload, err := client.New(u.workload.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := openPage(t, "try-cluster.md", ".ingot-cluster", u.opts.DataDir)
	p.until = map[string]func(string) bool{
		"get bmh rack1": func(output string) bool { return strings.Contains(output, " provisioned ") },
		"get nodes":     func(output string) bool { return len(readyIn(output)) == u.opts.Machines+1 },
		"get events":    func(output string) bool { return strings.Contains(output, "NodeRestored") },
	}
	p.follow(t, "Look at it")
	p.follow(t, "Plug a machine in")
	before := nodeUIDs(t, workload)
	if len(before) != u.opts.Machines+1 {
		t.Fatalf("the Nodes are %v, want one more than %d", before, u.opts.Machines)
	}
	p.follow(t, "Fence it")
	others := 0
	for name, uid := range nodeUIDs(t, workload) {
		if before[name] != uid {
			others++
		}
	}
	if others != 1 {
		t.Errorf("%d Nodes are others than before, want the fenced one", others)
	}
}

// readyIn returns the names of the Nodes that kubectl has printed as Ready.
func readyIn(output string) map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(output) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "Ready" {
			names[fields[0]] = true
		}
	}
	return names
}

// nodeUIDs returns the UIDs of the Nodes of a workload cluster, by name.
func nodeUIDs(t *testing.T, c client.Client) map[string]types.UID {
	t.Helper()
	var nodes corev1.NodeList
	if err := c.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	uids := map[string]types.UID{}
	for _, node := range nodes.Items {
		uids[node.Name] = node.UID
	}
	return uids
}

func TestClusterIsRefusedWhereItCannotBe(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, opts := range map[string]Options{
		errGivenCluster.Error(): {Cluster: true, Machines: 3, Kubeconfig: kubeconfig},
		errFewMachines.Error():  {Cluster: true, Machines: 1},
	} {
		opts.DataDir = t.TempDir()
		if _, err := Start(t.Context(), opts); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", opts, err, want)
		}
	}
}
