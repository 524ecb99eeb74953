package up

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ingot-metal/ingot/internal/sim"
)

func TestDiscoveredMachinesBecomeNodesOfACluster(t *testing.T) {
	var output bytes.Buffer
	opts := Options{
		Cluster: true, Machines: 2, BMCs: 1, Seed: 31, DataDir: t.TempDir(), Listen: "127.0.0.1:0", Network: network(), Output: &output,
		AgentTimeout: 6 * time.Second, Heartbeat: 2 * time.Second,
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
	mustStop(t, u)

	if _, err := Start(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "forget their disks") || !strings.Contains(err.Error(), opts.DataDir) {
		t.Errorf("the second start says %v, want why the cluster of the first cannot go on", err)
	}
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
