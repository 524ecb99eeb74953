package up

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/sim"
)

// progress writes one line for each part that has started.
type progress struct{ w io.Writer }

func newProgress(w io.Writer) progress {
	if w == nil {
		w = io.Discard
	}
	return progress{w}
}

func (p progress) ready(part, detail string, took time.Duration) {
	fmt.Fprintf(p.w, "%-15s %5.1fs  %s\n", part, took.Seconds(), detail)
}

// progressPoll is how often hosts or Nodes are counted while they appear. Hosts are counted in
// memory.
const progressPoll = 500 * time.Millisecond

// Follow shows the progress of the hosts, or of the Nodes that they become, and then commands to
// try. It returns when every machine is an available host or a Ready Node, or when ctx ends.
func (u *Up) Follow(ctx context.Context) error {
	what, format, count := "Hosts", "%d of %d machines are available hosts%s", u.availableHosts
	if u.workload != nil {
		c, err := client.New(u.workload.Config(), client.Options{})
		if err != nil {
			return fmt.Errorf("connect to the workload cluster: %w", err)
		}
		what, format = "Nodes", "%d of %d machines are Ready Nodes%s"
		count = func(ctx context.Context) (int, error) { return readyNodes(ctx, c) }
	}
	begin, last := time.Now(), ""
	for {
		n, err := count(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		n = min(n, u.opts.Machines) // the cluster may have others
		line := fmt.Sprintf(format, n, u.opts.Machines, u.failures())
		if line != last {
			u.progress.ready(what, line, time.Since(begin))
			last = line
		}
		if n >= u.opts.Machines {
			u.hints()
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(progressPoll):
		}
	}
}

// availableHosts counts the available hosts.
func (u *Up) availableHosts(ctx context.Context) (int, error) {
	states, err := u.operator.HostStates(ctx, namespace)
	return states[metal3v1alpha1.StateAvailable], err
}

// failures describes machines whose ramdisk has given up.
func (u *Up) failures() string {
	count, reason := 0, ""
	for i := range u.opts.Machines {
		if s := u.machines.Machine(i).Status(); s.State == sim.Failed {
			count, reason = count+1, s.Reason
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("; %d failed, the last because it could not %s", count, reason)
}

// hints prints commands to try.
func (u *Up) hints() {
	kubectl := "kubectl"
	if _, err := exec.LookPath(kubectl); err != nil {
		if dir, err := controlplane.AssetsDir(); err == nil {
			kubectl = filepath.Join(dir, "kubectl")
		}
	}
	fmt.Fprintf(u.progress.w, `
Everything runs. In another terminal, try:

  export KUBECONFIG=%s OS_ENDPOINT=%s
  %s get bmh
  %s get hardwaredata
  %s get bmhd
  ingot node list --auto-discovered
  ingot explain HOST
%s%s
%s
`, u.kubeconfig, u.engine.URL(), kubectl, kubectl, kubectl, u.clusterHints(kubectl), u.bmcHints(kubectl), u.ending())
}

// ending says how to end everything, and what is left then.
func (u *Up) ending() string {
	if u.workload != nil {
		return "Ctrl-C stops everything. Delete " + u.opts.DataDir + " then: the machines forget their disks, and with them the cluster."
	}
	return "Ctrl-C stops everything; the data stays in " + u.opts.DataDir + " for the next start. The machines forget their disks: provision hosts again that have an image."
}
