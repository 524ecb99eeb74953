package conductor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/driver/ramdisk"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// slowImages is a boot interface whose images come from a slow server.
type slowImages struct {
	driver.RamdiskBoot
	turns  int   // until they have come, or cannot be had
	failed error // why they cannot
}

func (s *slowImages) FetchRamdisk(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
	if s.turns--; s.turns >= 0 {
		return driver.Outcome{Park: time.Second}, nil
	}
	return driver.Outcome{}, s.failed
}

func (*slowImages) LeaveRamdisk(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
	return driver.Outcome{Apply: node.WithdrawRamdiskBoot}, nil
}

// standIn gives the nodes of a conductor that was not started a machine that is on, by the drivers for fake
// hardware and for the ramdisk as a test changes them.
func (w *world) standIn(change func(driver.Implementations)) *standIn {
	w.t.Helper()
	m := &standIn{power: node.PowerOn}
	hardware := fake.New(func(*node.Node) (fake.Machine, bool) { return m, true })
	built := driver.Implementations{node.NetworkInterface: {"fake": hardware}}
	for kind, implementation := range hardware.Interfaces() {
		built[kind] = map[string]driver.Implementation{"fake": implementation}
	}
	for kind, implementations := range ramdisk.New(ramdisk.Options{Agents: busyAgents{}, Running: func(*node.Node) bool { return false }}).Interfaces() {
		maps.Copy(built[kind], implementations)
	}
	change(built)
	var err error
	if w.drivers, err = driver.New(driver.Config{}, built); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// instanceBehind returns a node whose instance runs and whose boot interface fetches the images of its
// ramdisk. Its conductor was not started: workOn makes its attempts.
func instanceBehind(t *testing.T, images *slowImages, changes ...func(driver.Implementations)) (*world, *standIn, *node.Node) {
	t.Helper()
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1")
	m := w.standIn(func(built driver.Implementations) {
		images.RamdiskBoot = built[node.BootInterface]["fake"].(driver.RamdiskBoot)
		built[node.BootInterface]["fake"] = images
		for _, change := range changes {
			change(built)
		}
	})
	return w, m, w.register(inState(node.Active), func(n *node.Node) {
		n.PowerState = node.PowerOn
		for _, kind := range []node.InterfaceKind{node.BootInterface, node.ManagementInterface, node.NetworkInterface} {
			n.Interfaces[kind] = "fake"
		}
		n.Interfaces[node.DeployInterface], n.Interfaces[node.RescueInterface] = "direct", "agent"
	})
}

// startsRamdisk are the verbs that boot the ramdisk of a machine with an instance.
var startsRamdisk = map[string]struct {
	with           func(*node.VerbRequest)
	waiting, fails node.State
}{
	"service": {with(step("deploy.burnin_cpu")), node.ServiceWait, node.ServiceFailed},
	"rescue":  {rescuePassword, node.RescueWait, node.RescueFailed},
}

// TestInstanceRunsUntilTheImagesOfTheRamdiskAreThere and then its machine is switched off.
func TestInstanceRunsUntilTheImagesOfTheRamdiskAreThere(t *testing.T) {
	for verb, tc := range startsRamdisk {
		t.Run(verb, func(t *testing.T) {
			images := &slowImages{turns: 3}
			w, m, n := instanceBehind(t, images)
			w.send(n, verb, tc.with)
			for images.turns >= 0 {
				if kinds := m.kinds(); len(kinds) > 0 {
					t.Fatalf("while the images are fetched, %v was done", kinds)
				}
				w.workOn()
				w.clock.Advance(time.Second)
			}
			for range 60 {
				w.workOn()
				w.clock.Advance(time.Second)
			}
			w.arrive(n, tc.waiting)
			if diff := cmp.Diff([]fake.Kind{fake.PowerOff, fake.BootRamdisk, fake.PowerOn}, m.kinds()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestInstanceRunsOnWhenTheImagesOfTheRamdiskCannotBeFetched(t *testing.T) {
	for verb, tc := range startsRamdisk {
		t.Run(verb, func(t *testing.T) {
			w, m, n := instanceBehind(t, &slowImages{failed: &node.DriverError{Op: "fetch", Refused: true, Reason: "404 Not Found"}})
			w.send(n, verb, tc.with)
			w.workOn()
			got := w.stored(n.UUID)
			if kinds := m.kinds(); got.ProvisionState != tc.fails || len(kinds) > 0 || got.PowerState != node.PowerOn || !strings.Contains(got.LastError, "404 Not Found") {
				t.Errorf("state %q, %v was done, power %q, last_error %q; want the instance left alone", got.ProvisionState, kinds, got.PowerState, got.LastError)
			}
		})
	}
}

// TestAbortDuringTheFetchOfTheRamdiskLeavesTheMachineInOrder and an instance alone, which runs on.
func TestAbortDuringTheFetchOfTheRamdiskLeavesTheMachineInOrder(t *testing.T) {
	instance := func(n *node.Node) {
		n.ProvisionState = node.Active
		node.RamdiskBoot{Secret: node.NewBootSecret(), Instance: true}.StoreIn(n)
	}
	earlier := func(state node.State) func(*node.Node) {
		return func(n *node.Node) {
			n.ProvisionState = state
			n.DriverInternalInfo = node.ObjectOf(map[string]any{ramdiskStartedKey: "6", agent.TokenKey: "t", agent.URLKey: "https://192.0.2.7:9999"})
		}
	}
	burnIn := with(step("deploy.burnin_cpu"))
	for name, tc := range map[string]struct {
		node          func(*node.Node)
		verb          string
		with          func(*node.VerbRequest)
		waiting, ends node.State
		want          []fake.Kind
	}{
		"servicing":               {instance, "service", burnIn, node.ServiceWait, node.Active, nil},
		"rescue":                  {instance, "rescue", rescuePassword, node.RescueWait, node.RescueFailed, nil},
		"servicing after another": {earlier(node.ServiceHold), "service", burnIn, node.ServiceWait, node.Active, []fake.Kind{fake.PowerOff, fake.BootDevice, fake.PowerOn}},
		"rescue after another":    {earlier(node.Rescue), "rescue", rescuePassword, node.RescueWait, node.RescueFailed, []fake.Kind{fake.PowerOff}},
		"cleaning":                {inState(node.Manageable), "clean", burnIn, node.CleanWait, node.CleanFailed, []fake.Kind{fake.PowerOff}},
		"rebuild":                 {instance, "rebuild", with(), node.DeployWait, node.DeployFailed, []fake.Kind{fake.PowerOff}},
	} {
		t.Run(name, func(t *testing.T) {
			w, m, n := instanceBehind(t, &slowImages{turns: 1 << 30})
			before := *n
			tc.node(n)
			n.Interfaces[node.DeployInterface] = "custom-agent"
			w.update(&before, n)
			w.send(n, tc.verb, tc.with)
			for range 5 {
				w.workOn()
				got := w.stored(n.UUID)
				if kinds := m.kinds(); got.ProvisionState != tc.waiting || got.Lease.InForce(w.clock.Now()) || len(kinds) > 0 {
					t.Fatalf("state %q, lease %+v, %v was done; want %q, no lease and nothing done", got.ProvisionState, got.Lease, kinds, tc.waiting)
				}
				w.clock.Advance(time.Second)
			}
			if err := w.SetMaintenance(t.Context(), n.UUID, true, "the images are slow"); err != nil {
				t.Errorf("maintenance: %v", err)
			}
			w.send(n, "abort")
			for range 60 {
				w.workOn()
				w.clock.Advance(time.Second)
			}
			got := w.arrive(n, tc.ends)
			if diff := cmp.Diff(tc.want, m.kinds()); diff != "" || w.works() != 0 {
				t.Errorf("%d pieces of work are left (-want +got):\n%s", w.works(), diff)
			}
			if boot, served := node.RamdiskBootOf(got); served != (tc.want == nil) {
				t.Errorf("%+v is served: %v", boot, served)
			}
		})
	}
}

// TestOnlyTheFirstRamdiskOfWorkIsFetchedAhead of all changes: an inspection can be aborted in no fetch.
func TestOnlyTheFirstRamdiskOfWorkIsFetchedAhead(t *testing.T) {
	for name, want := range map[string]bool{"cleaning": true, "rescue": true, "between steps": false, "inspection": false} {
		c, _, n := withRamdisk(t, inspectsInRamdisk)
		isFetch := func(o runner.Operation) bool { return o.Name == fetchRamdiskName }
		if got := slices.ContainsFunc(ramdiskStarts[name](t, c, n), isFetch); got != want {
			t.Errorf("%s: fetched ahead %v, want %v", name, got, want)
		}
	}
}

// TestRescueThatAnEarlierReleaseAbortedIsEnded though its row does not name it.
func TestRescueThatAnEarlierReleaseAbortedIsEnded(t *testing.T) {
	for mark, want := range map[string]bool{"": true, "6": true, "7": false} {
		c, _, n := withRamdisk(t, inTheRamdisk, func(n *node.Node) {
			n.DriverInternalInfo = node.ObjectOf(map[string]any{ramdiskStartedKey: "6"})
		})
		intent := node.ObjectOf(map[string]any{abortedIntent: workRescue, abortedMarkIntent: mark})
		operations, err := c.cleanUpOperations(runner.Task{Work: &store.Work{ID: 8, Kind: workCleanUp, Intent: intent}, Node: n})
		if names := unskipped(operations); err != nil || slices.Contains(names, powerOffName) != want {
			t.Errorf("mark %q: %q, %v; want it switched off: %v", mark, names, err, want)
		}
	}
}

// TestRescueSystemThatRunsIsEndedWhenTheNextOneCannotBeFetched has the password of the first one forgotten.
func TestRescueSystemThatRunsIsEndedWhenTheNextOneCannotBeFetched(t *testing.T) {
	for url, want := range map[string]bool{"https://192.0.2.7:9999": true, "": false} {
		c, _, n := withRamdisk(t, inTheRamdisk, func(n *node.Node) {
			n.DriverInternalInfo = node.ObjectOf(map[string]any{ramdiskStartedKey: "6"})
			if url != "" {
				n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{agent.TokenKey: "t", agent.URLKey: url})
			}
		})
		names := unskipped(c.cleanUpRescue(runner.Task{Work: &store.Work{ID: 7, Kind: workRescue}, Node: n}))
		if slices.Contains(names, powerOffName) != want {
			t.Errorf("with the agent %q: %q, want it switched off: %v", url, names, want)
		}
	}
}

// TestBootThatBecameImpossibleFailsBeforeTheMachineIsSwitchedOff as after a change of the configuration.
func TestBootThatBecameImpossibleFailsBeforeTheMachineIsSwitchedOff(t *testing.T) {
	c, _, n := withRamdisk(t, inTheRamdisk, func(n *node.Node) { n.Interfaces[node.BootInterface] = "ipxe" })
	operation := c.fetchRamdisk(n)
	if operation.Skip {
		t.Fatal("it is left out")
	}
	if _, err := operation.Change(t.Context(), n, driver.Turn{}); err == nil || !strings.Contains(err.Error(), "boot.listen") {
		t.Errorf("error %v, want what the boot service lacks", err)
	}
}

// TestRamdiskThatIsKeptIsNotFetched though nothing could fetch it.
func TestRamdiskThatIsKeptIsNotFetched(t *testing.T) {
	for keep, want := range map[bool]bool{true: false, false: true} {
		c, _, n := withRamdisk(t, func(n *node.Node) {
			n.Interfaces[node.BootInterface], n.DriverInfo = "ipxe", n.DriverInfo.With(map[string]any{"fast_track": keep})
		})
		names := unskipped(ramdiskStarts["cleaning"](t, c, n))
		if slices.Contains(names, fetchRamdiskName) != want {
			t.Errorf("kept: %v; %q, want it fetched: %v", keep, names, want)
		}
	}
}

// TestMachineThatGetsTheBMCsAddressDuringTheFetchIsLeftAlone has the address reassigned while the
// images are fetched, after the identity of the machine was checked.
func TestMachineThatGetsTheBMCsAddressDuringTheFetchIsLeftAlone(t *testing.T) {
	for verb, tc := range startsRamdisk {
		t.Run(verb, func(t *testing.T) {
			images, reached := &slowImages{turns: 3}, &labelledMachine{MachineIdentity: node.MachineIdentity{SerialNumber: "S1"}}
			w, m, n := instanceBehind(t, images, func(built driver.Implementations) {
				fake := built[node.ManagementInterface]["fake"]
				reached.Management, reached.secureBoots = fake.(driver.Management), fake.(driver.SecureBoot)
				built[node.ManagementInterface]["fake"] = reached
			})
			w.standFor(n, reached.MachineIdentity)
			w.send(n, verb, tc.with)
			for images.turns > 0 {
				w.workOn()
				w.clock.Advance(time.Second)
			}
			reached.SerialNumber = "S2"
			for range 60 {
				w.workOn()
				w.clock.Advance(time.Second)
			}
			if got := w.stored(n.UUID); got.ProvisionState != tc.fails || len(m.kinds()) > 0 || !strings.Contains(got.LastError, "S2") {
				t.Errorf("state %q, last_error %q, and %v was done to another machine", got.ProvisionState, got.LastError, m.kinds())
			}
		})
	}
}

// TestBootInterfacesFetchTheImagesAhead of which the engine serves something.
func TestBootInterfacesFetchTheImagesAhead(t *testing.T) {
	c, _, n := withRamdisk(t)
	for _, name := range []string{"ipxe", "pxe", "http-ipxe", "redfish-virtual-media", "redfish-https", "http"} {
		n.Interfaces[node.BootInterface] = name
		if _, err := driver.Ability[ramdiskFetcher](c.drivers, n, node.BootInterface, "fetching a ramdisk"); err != nil {
			t.Error(err)
		}
	}
}
