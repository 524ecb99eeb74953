package conductor

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/unixcrypt"
)

// inTheRamdisk has a node rescued through its ramdisk.
func inTheRamdisk(n *node.Node) { n.Interfaces[node.RescueInterface] = "agent" }

func TestRescueBootsTheRamdiskAndUnrescueTheInstance(t *testing.T) {
	c, _, n := withRamdisk(t, inTheRamdisk)
	task := runner.Task{Work: &store.Work{ID: 7, Kind: workRescue}, Node: n}
	start, err := c.rescueOperations(task)
	want := []string{"begin rescue", offForRamdiskName, bootRamdiskName, powerOffName, powerOnName, awaitRamdiskName, "set rescue password"}
	if diff := cmp.Diff(want, unskipped(start)); err != nil || diff != "" {
		t.Errorf("rescue: %v (-want +got):\n%s", err, diff)
	}
	node.RamdiskBoot{Secret: node.NewBootSecret()}.StoreIn(n)
	back, err := c.unrescueOperations(task)
	want = []string{leaveRamdiskName, powerOffName, bootInstanceName, powerOnName}
	if diff := cmp.Diff(want, unskipped(back)); err != nil || diff != "" {
		t.Errorf("unrescue: %v (-want +got):\n%s", err, diff)
	}
	if err := c.beginRamdiskRescue(workMark(task.Work))(nil, n); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{leaveRamdiskName, powerOffName}, unskipped(c.cleanUpRescue(task))); diff != "" {
		t.Errorf("after a failure (-want +got):\n%s", diff)
	}
}

// TestRescueWaitsForItsOwnAgent rescues a machine again whose earlier rescue system is known.
func TestRescueWaitsForItsOwnAgent(t *testing.T) {
	c, _, n := withRamdisk(t, inTheRamdisk, func(n *node.Node) {
		n.DriverInternalInfo = node.ObjectOf(map[string]any{agent.TokenKey: "t", agent.URLKey: "https://192.0.2.7:9999", ramdiskKeptKey: true})
	})
	operations, err := c.rescueOperations(runner.Task{Work: &store.Work{ID: 7, Kind: workRescue}, Node: n})
	if err != nil {
		t.Fatal(err)
	}
	begin := operations[slices.IndexFunc(operations, func(o runner.Operation) bool { return o.Name == "begin rescue" })]
	if err := begin.Store(nil, n); err != nil || kept(n) {
		t.Errorf("kept %v, %v", kept(n), err)
	}
	if out, err := awaitRamdisk(t.Context(), n, driver.Turn{}); err != nil || !out.Callback {
		t.Errorf("%+v, %v, want it to wait for a heartbeat", out, err)
	}
}

// TestRescuePasswordIsStoredOnlyAsAHash looks at the node between the request and each of the
// ends that it can have.
func TestRescuePasswordIsStoredOnlyAsAHash(t *testing.T) {
	for name, tc := range map[string]struct {
		info map[string]any
		then string // verb while it waits
		want node.State
	}{
		"rescued": {want: node.Rescue},
		"failed":  {info: map[string]any{"fake_rescue_error": "no such system"}, want: node.RescueFailed},
		"aborted": {info: map[string]any{"fake_rescue_wait": 60}, then: "abort", want: node.RescueFailed},
		"deleted": {info: map[string]any{"fake_rescue_wait": 60}, then: "deleted", want: node.Available},
	} {
		t.Run(name, func(t *testing.T) {
			w := emptyWorld(t)
			c := w.idle("conductor-1", func(c *Config) { c.RescueHash = unixcrypt.SHA512 })
			w.Conductor = c
			n := w.fake(node.Active, tc.info)
			w.send(n, "rescue", rescuePassword)
			if hash := node.RescueHashOf(w.stored(n.UUID)); !strings.HasPrefix(hash, "$6$") || strings.Contains(w.stored(n.UUID).InstanceInfo.String(), "hush") {
				t.Errorf("the node has %s, want a hash and no password", w.stored(n.UUID).InstanceInfo)
			}
			w.run(c)
			if tc.then != "" {
				w.arrive(n, node.RescueWait)
				w.send(n, tc.then)
			}
			w.awaitWorkDone()
			if got := w.arrive(n, tc.want); !got.InstanceInfo.IsEmpty() {
				t.Errorf("the node still has %s", got.InstanceInfo)
			}
		})
	}
}

func TestRescuePasswordThatIsTooLongIsRefused(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Active, nil)
	verb, _ := node.VerbNamed("rescue")
	for _, password := range []string{"", strings.Repeat("x", unixcrypt.MaxPassword+1)} {
		wantAs[*node.ValidationError](t, w.Provision(t.Context(), n.UUID, node.VerbRequest{Verb: verb, RescuePassword: password}))
	}
}

// TestRescueThatCannotBeCleanedUpIsKnownByItsFault aborts a rescue whose machine does not answer
// any more.
func TestRescueThatCannotBeCleanedUpIsKnownByItsFault(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Active, map[string]any{"fake_rescue_wait": 60, "fake_power_error": "the BMC is gone"})
	on := *w.stored(n.UUID)
	on.PowerState = node.PowerOn
	w.update(w.stored(n.UUID), &on)
	w.send(n, "rescue", rescuePassword)
	w.arrive(n, node.RescueWait)
	w.send(n, "abort")
	w.awaitWorkDone()
	got := w.arrive(n, node.RescueFailed)
	if !got.Maintenance || got.Fault != node.FaultRescueAbortFailure || !strings.Contains(got.LastError, "the BMC is gone") {
		t.Errorf("maintenance %v, fault %q, last_error %q", got.Maintenance, got.Fault, got.LastError)
	}
}
