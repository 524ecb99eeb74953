package cluster_test

import (
	"strconv"
	"testing"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

func TestMachinesAreFencedAndComeBack(t *testing.T) {
	t.Parallel()
	c, d := deployment(t, "recovery", false, used[:1], nil)
	checkHealth(t, c, d)

	t.Run("after their operating system hung", func(t *testing.T) {
		r := recoveryOf(t, c, used[0])
		if err := c.Machine(r.host).Hang(); err != nil {
			t.Fatal(err)
		}
		r.ends(t)
		r.wantOneCycle(t)
		r.wantSameMachine(t)
		r.reports(t, "FencingStarted")
		r.reports(t, "NodeRestored")
	})
	t.Run("when their BMC answers again", func(t *testing.T) {
		r := recoveryOf(t, c, used[0])
		number := strconv.Itoa(c.Hosts[r.host])
		if err := c.MachinesWithBMC().Recorder().SetFaults(number, &effect.Faults{Unreachable: 1}); err != nil {
			t.Fatal(err)
		}
		if err := c.Machine(r.host).Hang(); err != nil {
			t.Fatal(err)
		}
		r.shows(t, v1beta2.PoweringOffReason)
		r.waitedLong(t)
		r.shows(t, v1beta2.PowerOffNotConfirmedReason)
		r.reports(t, "PowerOffNotConfirmed")
		r.measures(t, " 1")
		node, err := c.Node(t.Context(), r.node.Name)
		if err != nil || node == nil || node.UID != r.node.UID || !node.DeletionTimestamp.IsZero() {
			t.Fatalf("the Node of a machine that may run is %+v, %v", node, err)
		}
		if done := r.done(); len(done) > 0 {
			t.Fatalf("done to the machine through a BMC that does not answer: %q", done)
		}
		if err := c.MachinesWithBMC().Recorder().SetFaults(number, nil); err != nil {
			t.Fatal(err)
		}
		r.ends(t)
		r.wantOneCycle(t)
		r.wantSameMachine(t)
		r.measures(t, "")
	})
}
