package up

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

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

// hostPoll is how often the hosts are counted while they appear, in memory.
const hostPoll = 500 * time.Millisecond

// Follow shows the progress of the hosts, then commands to try, and
// returns when every machine has an available host or ctx ends.
func (u *Up) Follow(ctx context.Context) error {
	begin, last := time.Now(), ""
	for {
		states, err := u.operator.HostStates(ctx, namespace)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		available := min(states[metal3v1alpha1.StateAvailable], u.opts.Machines) // the cluster may have others
		line := fmt.Sprintf("%d of %d machines are available hosts%s", available, u.opts.Machines, u.failures())
		if line != last {
			u.progress.ready("Hosts", line, time.Since(begin))
			last = line
		}
		if available >= u.opts.Machines {
			u.hints()
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(hostPoll):
		}
	}
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
%s
Ctrl-C stops everything; the data stays in %s for the next start.
`, u.kubeconfig, u.engine.URL(), kubectl, kubectl, kubectl, u.bmcHints(kubectl), u.opts.DataDir)
}
