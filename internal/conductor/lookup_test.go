package conductor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// beat is the heartbeat of the agent on an unknown machine, which has 192.0.2.1
// in its inventory.
func beat(token string, changes ...func(*node.Heartbeat)) node.Heartbeat {
	b := node.Heartbeat{CallbackURL: "https://192.0.2.1:9999", AgentVersion: "11.0.0", AgentToken: token, AgentVerifyCA: "PEM"}
	for _, change := range changes {
		change(&b)
	}
	return b
}

// lookUp asks by MAC addresses like an agent that knows no UUID.
func (w *world) lookUp(macs ...string) (*node.LookupAnswer, error) {
	w.t.Helper()
	return w.Lookup(w.t.Context(), node.LookupRequest{Addresses: macs, WantsToken: true})
}

// token looks the machine up and returns the token it must get.
func (w *world) token(m machine) string {
	w.t.Helper()
	answer, err := w.lookUp(m.macs...)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(answer.Token) < 32 {
		w.t.Fatalf("token = %q, want one of 32 characters or more", answer.Token)
	}
	return answer.Token
}

func TestLookupIssuesATokenOnce(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	n := w.enrol(m)
	answer, err := w.lookUp(m.macs[1], "02:99:00:00:00:01")
	if err != nil || answer.Node.UUID != n.UUID || answer.HeartbeatTimeout != heartbeatTimeout || len(answer.Token) < 32 {
		t.Fatalf("answer = %+v, %v; want node, token and timeout", answer, err)
	}
	if stored := w.stored(n.UUID).DriverInternalInfo.Text(agent.TokenKey); stored != answer.Token {
		t.Errorf("stored token = %q, want the issued one", stored)
	}
	for _, request := range []node.LookupRequest{{Addresses: m.macs, WantsToken: true}, {NodeUUID: n.UUID, WantsToken: true}} {
		_, err := w.Lookup(t.Context(), request)
		wantAs[*node.LockedError](t, err)
	}
	again, err := w.Lookup(t.Context(), node.LookupRequest{NodeUUID: n.UUID})
	if err != nil || again.Token != "" || again.Node.UUID != n.UUID {
		t.Errorf("answer without tokens = %+v, %v; want the node", again, err)
	}
}

func TestLookupTellsTheRamdiskOfARedfishNodeToSkipBMCDetection(t *testing.T) {
	w := newWorld(t)
	for i, driver := range []string{"fake-hardware", "redfish"} {
		n := w.enrol(unknown(i))
		changed := *n
		changed.Driver, changed.ProvisionState = driver, node.InspectWait
		w.update(n, &changed)
		answer, err := w.Lookup(t.Context(), node.LookupRequest{NodeUUID: n.UUID})
		if err != nil || answer.SkipBMCDetect != (driver == "redfish") {
			t.Errorf("%s: answer = %+v, %v", driver, answer, err)
		}
	}
}

func TestOldAgentsGetNoToken(t *testing.T) {
	w := newWorld(t)
	n := w.enrol(unknown(1))
	answer, err := w.Lookup(t.Context(), node.LookupRequest{NodeUUID: n.UUID})
	if err != nil || answer.Token != "" || w.stored(n.UUID).DriverInternalInfo.Text(agent.TokenKey) != "" {
		t.Errorf("answer = %+v, %v; want no token issued", answer, err)
	}
}

func TestLookupsAtOnceIssueOneToken(t *testing.T) {
	w := newWorld(t)
	n := w.enrol(unknown(1))
	tokens := make([]string, 20)
	for _, err := range concurrently(len(tokens), func(i int) error {
		answer, err := w.Lookup(t.Context(), node.LookupRequest{NodeUUID: n.UUID, WantsToken: true})
		if err == nil {
			tokens[i] = answer.Token
		}
		return err
	})[1:] { // sorted: success first
		wantAs[*node.LockedError](t, err)
	}
	if issued := strings.Join(tokens, ""); issued != w.stored(n.UUID).DriverInternalInfo.Text(agent.TokenKey) {
		t.Errorf("issued %q, want exactly the stored token", tokens)
	}
}

// TestRefusedLookupsHaveTheSameAnswer walks every reason to refuse: an intruder learns
// nothing from the answer.
func TestRefusedLookupsHaveTheSameAnswer(t *testing.T) {
	w := newWorld(t)
	first, second := w.enrol(unknown(1)), w.enrol(unknown(2))
	active := w.register(inState(node.Active))
	inspected := w.register(inState(node.InspectWait), func(n *node.Node) { n.Name = "rack4" })
	registered := w.register(inState(node.Available)) // not discovered: no fast-track
	for name, request := range map[string]node.LookupRequest{
		"unknown address":      {Addresses: []string{"02:99:00:00:00:01"}},
		"unknown UUID":         {NodeUUID: "2e9f0d3c-0000-4000-8000-000000000000"},
		"addresses of two":     {Addresses: []string{unknown(1).macs[0], unknown(2).macs[0]}},
		"wrong state":          {NodeUUID: active.UUID},
		"state of fast-track":  {NodeUUID: registered.UUID},
		"name for a UUID":      {NodeUUID: "rack4"},
		"unknown UUID, my MAC": {NodeUUID: "2e9f0d3c-0000-4000-8000-000000000000", Addresses: unknown(1).macs},
	} {
		request.WantsToken = true
		_, err := w.Lookup(t.Context(), request)
		wantIs(t, err, node.ErrNotFound)
		if err.Error() != errNoMatch.Error() {
			t.Errorf("%s: error = %q, want %q", name, err, errNoMatch)
		}
	}
	for _, n := range []*node.Node{first, second, active, inspected, registered} {
		if w.stored(n.UUID).DriverInternalInfo.Text(agent.TokenKey) != "" {
			t.Errorf("node in %q got a token", n.ProvisionState)
		}
	}
}

// TestOnlyWhatARamdiskChangesIsWritten counts writes: nobody has to say who he is here.
func TestOnlyWhatARamdiskChangesIsWritten(t *testing.T) {
	w := emptyWorld(t)
	db := &counted{Database: w.store}
	w.Conductor = w.run(w.idleOn(db, "conductor-1"))
	m := unknown(1)
	n := w.enrol(m)
	active := w.register(inState(node.Active), func(n *node.Node) {
		n.DriverInternalInfo = agent.WithToken(nil, "secret", w.clock.Now())
	})
	writes := func(fn func() error) int {
		before := db.writes.Load()
		if err := fn(); err != nil && !errors.Is(err, node.ErrNotFound) && !errors.Is(err, node.ErrLocked) {
			wantAs[*node.ValidationError](t, err)
		}
		return int(db.writes.Load() - before)
	}
	look := func(request node.LookupRequest) int {
		request.WantsToken = true
		return writes(func() error { _, err := w.Lookup(t.Context(), request); return err })
	}
	heartbeat := func(ident, token string) int {
		return writes(func() error { return w.Heartbeat(t.Context(), ident, beat(token)) })
	}
	if got := look(node.LookupRequest{Addresses: m.macs}); got != 1 {
		t.Errorf("%d writes for a token, want one", got)
	}
	token := w.stored(n.UUID).DriverInternalInfo.Text(agent.TokenKey)
	if got := heartbeat(n.UUID, token); got != 1 {
		t.Errorf("%d writes for a heartbeat, want one", got)
	}
	if got := heartbeat(n.UUID, "guessed"); got != 1 {
		t.Errorf("%d writes for the first refused heartbeat, want one", got)
	}
	for name, got := range map[string]int{
		"lookup of an unknown address":              look(node.LookupRequest{Addresses: []string{"02:99:00:00:00:01"}}),
		"lookup in the wrong state":                 look(node.LookupRequest{NodeUUID: active.UUID}),
		"lookup of an agent that has its token":     look(node.LookupRequest{NodeUUID: n.UUID}),
		"second heartbeat with a wrong token":       heartbeat(n.UUID, "guessed"),
		"heartbeat of nobody":                       heartbeat("nobody", "guessed"),
		"heartbeat in a state that asks for none":   heartbeat(active.UUID, "secret"),
		"heartbeat in such a state, a wrong token":  heartbeat(active.UUID, "guessed"),
		"lookup of a node that is none, and my MAC": look(node.LookupRequest{NodeUUID: "2e9f0d3c-0000-4000-8000-000000000000", Addresses: m.macs}),
	} {
		if got != 0 {
			t.Errorf("%s: %d writes", name, got)
		}
	}
}

func TestHeartbeatDoesNotTellWhichNodesThereAre(t *testing.T) {
	w := newWorld(t)
	n := w.enrol(unknown(1))
	for _, ident := range []string{n.UUID, uuid.NewString(), "nobody"} {
		wantIs(t, w.Heartbeat(t.Context(), ident, beat("guessed")), agent.ErrToken)
	}
}

// counted is a database that counts writes.
type counted struct {
	Database
	writes atomic.Int64
}

func (c *counted) Write(ctx context.Context, fn func(*store.Tx) error) error {
	c.writes.Add(1)
	return c.Database.Write(ctx, fn)
}

func TestFastTrackOpensStatesForLookup(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.FastTrack = true })
	for _, s := range []node.State{node.Enroll, node.Manageable, node.Available, node.InspectWait} {
		n := w.register(inState(s))
		if _, err := w.Lookup(t.Context(), node.LookupRequest{NodeUUID: n.UUID, WantsToken: true}); err != nil {
			t.Errorf("lookup in %q: %v", s, err)
		}
	}
	off := w.register(inState(node.Available), func(n *node.Node) { n.DriverInfo = node.ObjectOf(map[string]any{"fast_track": false}) })
	_, err := w.Lookup(t.Context(), node.LookupRequest{NodeUUID: off.UUID, WantsToken: true})
	wantIs(t, err, node.ErrNotFound)
}

func TestLookupAndHeartbeatOfALockedNodeAreRetried(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	n := w.enrol(m)
	token := w.token(m)
	lease := w.lease(n, "conductor-2")
	_, err := w.lookUp(m.macs...)
	wantAs[*node.LockedError](t, err)
	wantAs[*node.LockedError](t, w.Heartbeat(t.Context(), n.UUID, beat(token)))
	w.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) })
	if err := w.Heartbeat(t.Context(), n.UUID, beat(token)); err != nil {
		t.Error(err)
	}
}

// TestRunningAgentReadsItsNodeAnew has an agent look itself up in the middle of a step,
// while the engine waits for the answer of that step under its lease.
func TestRunningAgentReadsItsNodeAnew(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.LockWait = time.Hour })
	n := w.register(inState(node.Cleaning), func(n *node.Node) {
		n.Driver = "manual-management"
		n.DriverInternalInfo = agent.WithToken(nil, "the-token", w.clock.Now())
		n.CleanStep = step("deploy.erase_devices").Object()
	})
	w.lease(n, "conductor-2")
	for _, wants := range []bool{true, false} {
		answer, err := w.Lookup(t.Context(), node.LookupRequest{NodeUUID: n.UUID, WantsToken: wants})
		if err != nil || answer.Token != "" || answer.Node.UUID != n.UUID {
			t.Errorf("answer = %+v, %v; want the node at once, without a token", answer, err)
		}
	}
}

// TestAgentThatRestartsAmongStepsGetsANewToken has the agent of a machine without a BMC
// restart while the engine waits for its heartbeat. Its first lookups come within the
// window of the agent before it.
func TestAgentThatRestartsAmongStepsGetsANewToken(t *testing.T) {
	w := newWorld(t)
	n := w.register(inState(node.CleanWait), func(n *node.Node) {
		n.Driver = "manual-management"
		n.DriverInternalInfo = agent.WithToken(nil, "the-token", w.clock.Now())
		n.CleanStep = step("deploy.wait").Object()
	})
	if err := w.Heartbeat(t.Context(), n.UUID, beat("the-token")); err != nil {
		t.Fatal(err)
	}
	request := node.LookupRequest{NodeUUID: n.UUID, WantsToken: true}
	for range 2 {
		_, err := w.Lookup(t.Context(), request)
		wantAs[*node.LockedError](t, err)
		w.clock.Advance(heartbeatTimeout / 2)
	}
	w.clock.Advance(time.Microsecond)
	w.agents.do(lives)
	_, err := w.Lookup(t.Context(), request)
	wantAs[*node.LockedError](t, err)
	w.agents.do(nil)
	w.clock.Advance(answerCounts + time.Microsecond)
	if fresh := w.tokenOf(n); fresh == "the-token" {
		t.Error("the old token was handed out again")
	}
}

func TestHeartbeatIsRecorded(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	n := w.enrol(m)
	token := w.token(m)
	now := w.clock.Advance(time.Minute)
	if err := w.Heartbeat(t.Context(), n.UUID, beat(token)); err != nil {
		t.Fatal(err)
	}
	got := w.stored(n.UUID)
	want := map[string]string{agent.URLKey: "https://192.0.2.1:9999", agent.VersionKey: "11.0.0", agent.VerifyCAKey: "PEM", agent.TokenKey: token}
	for key, value := range want {
		if got.DriverInternalInfo.Text(key) != value {
			t.Errorf("%s = %q, want %q", key, got.DriverInternalInfo.Text(key), value)
		}
	}
	if !agent.LastHeartbeat(got).Equal(now) || got.ProvisionState != node.Enroll {
		t.Errorf("last heartbeat %v in %q, want now and the same state", agent.LastHeartbeat(got), got.ProvisionState)
	}
}

func TestHeartbeatInAStateWithoutRamdiskIsAcceptedAndIgnored(t *testing.T) {
	w := newWorld(t)
	n := w.register(inState(node.Active), func(n *node.Node) {
		n.DriverInternalInfo = agent.WithToken(nil, "the-token", w.clock.Now())
	})
	before := w.stored(n.UUID)
	if err := w.Heartbeat(t.Context(), n.UUID, beat("the-token")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, w.stored(n.UUID)); diff != "" {
		t.Errorf("node (-before +after):\n%s", diff)
	}
}

func TestRefusedHeartbeatsChangeNothing(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.AgentRules = agent.Rules{VerifyAddress: true, RequireTLS: true, AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25")}}
	})
	m := unknown(1)
	n := w.enrol(m)
	token := w.token(m)
	before := w.stored(n.UUID)
	for name, b := range map[string]node.Heartbeat{
		"no token":           beat(""),
		"wrong token":        beat(token + "x"),
		"foreign address":    beat(token, func(b *node.Heartbeat) { b.CallbackURL = "https://192.0.2.77:9999" }),
		"foreign network":    beat(token, func(b *node.Heartbeat) { b.CallbackURL = "https://203.0.113.1:9999" }),
		"plain http":         beat(token, func(b *node.Heartbeat) { b.CallbackURL = "http://192.0.2.1:9999" }),
		"no callback URL":    beat(token, func(b *node.Heartbeat) { b.CallbackURL = "" }),
		"engine as callback": beat(token, func(b *node.Heartbeat) { b.CallbackURL = "https://127.0.0.1:6385" }),
	} {
		err := w.Heartbeat(t.Context(), n.UUID, b)
		wantAs[*node.ValidationError](t, err)
		if strings.Contains(err.Error(), token) {
			t.Errorf("%s: error %q shows the token", name, err)
		}
	}
	wantIs(t, w.Heartbeat(t.Context(), "2e9f0d3c-0000-4000-8000-000000000000", beat(token)), agent.ErrToken)
	after := w.stored(n.UUID)
	if noted := len(node.HeartbeatRefusals(after.DriverInternalInfo)); noted != 2 {
		t.Errorf("%d refusals noted within a minute, want one with the token and one without", noted)
	}
	after.DriverInternalInfo, after.UpdatedAt = after.DriverInternalInfo.Without(node.HeartbeatRefusalsKey), before.UpdatedAt
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("node (-before +after):\n%s", diff)
	}
	if err := w.Heartbeat(t.Context(), n.UUID, beat(token)); err != nil {
		t.Errorf("the right heartbeat: %v", err)
	}
	wantAs[*node.ValidationError](t, w.Heartbeat(t.Context(), n.UUID, beat(token, func(b *node.Heartbeat) { b.CallbackURL = "https://192.0.2.2:9999" })))
}

// TestMachineThatTheEngineRestartsGetsANewToken has steps restart the ramdisk.
func TestMachineThatTheEngineRestartsGetsANewToken(t *testing.T) {
	for name, steps := range map[string][]node.Step{
		"reboot":    {step("power.reboot")},
		"power off": {step("power.power_off"), step("power.power_on")},
	} {
		t.Run(name, func(t *testing.T) {
			w := emptyWorld(t)
			c := w.idle("conductor-1")
			c.drivers = redfishWithoutMachines(t)
			w.Conductor = w.run(c)
			n := w.create("redfish", func(n *node.Node) { n.ProvisionState, n.PowerState = node.Manageable, node.PowerOn })
			w.send(n, "clean", with(slices.Concat([]node.Step{step("deploy.wait")}, steps, []node.Step{step("deploy.wait")})...))
			w.arrive(n, node.CleanWait)
			first := w.tokenOf(n)
			if err := w.Heartbeat(t.Context(), n.UUID, beat(first)); err != nil {
				t.Fatal(err)
			}
			w.eventually("the second wait", func() bool {
				var at int
				got := w.stored(n.UUID)
				return got.DriverInternalInfo.Get("clean_step_index", &at) && at == len(steps)+1 && got.ProvisionState == node.CleanWait
			})
			second := w.tokenOf(n)
			wantAs[*node.ValidationError](t, w.Heartbeat(t.Context(), n.UUID, beat(first)))
			if err := w.Heartbeat(t.Context(), n.UUID, beat(second)); err != nil {
				t.Error(err)
			}
			w.awaitWorkDone()
			if got := w.arrive(n, node.Manageable); got.LastError != "" {
				t.Errorf("last_error %q", got.LastError)
			}
		})
	}
}

// redfishWithoutMachines drives nodes of the type redfish as if they were fake.
func redfishWithoutMachines(t *testing.T) *driver.Registry {
	t.Helper()
	var built driver.Implementations
	for kind, name := range map[node.InterfaceKind]string{
		node.PowerInterface: "redfish", node.ManagementInterface: "redfish", node.DeployInterface: "direct", node.NetworkInterface: "noop",
	} {
		built[kind] = map[string]driver.Implementation{name: fake.New(nil)}
	}
	drivers, err := driver.New(driver.Config{EnabledHardwareTypes: []string{"redfish"}}, built)
	if err != nil {
		t.Fatal(err)
	}
	return drivers
}

// tokenOf looks a node up and returns the token that its ramdisk must get.
func (w *world) tokenOf(n *node.Node) string {
	w.t.Helper()
	answer, err := w.Lookup(w.t.Context(), node.LookupRequest{NodeUUID: n.UUID, WantsToken: true})
	if err != nil {
		w.t.Fatal(err)
	}
	if answer.Token == "" {
		w.t.Fatal("the ramdisk got no token")
	}
	return answer.Token
}

// TestLookupGivesItsSlotBackBeforeItWaits looks a machine up whose node another conductor
// holds.
func TestLookupGivesItsSlotBackBeforeItWaits(t *testing.T) {
	w := newWorld(t)
	n := waiting(w)
	w.addPort(n, unknown(1).macs[0])
	w.lease(n, "conductor-2")
	given := 0
	var hold fairqueue.Hold
	hold.Add(func() { given++ })
	ctx := fairqueue.With(t.Context(), &hold)
	_, err := w.Lookup(ctx, node.LookupRequest{Addresses: unknown(1).macs, WantsToken: true})
	wantIs(t, err, node.ErrLocked)
	if given == 0 {
		t.Error("the lookup waited for the lease with its slot")
	}
}

// TestThePartOfANodeThatIsReadFirstDecidesAsTheWhole compares both for nodes of which one field each
// decides about their agents.
func TestThePartOfANodeThatIsReadFirstDecidesAsTheWhole(t *testing.T) {
	w := newWorld(t)
	heard := agent.WithToken(nil, "the-token", w.clock.Now()).With(map[string]any{agent.URLKey: "https://10.0.0.5:9999"})
	decides := map[string]func(*node.Node){
		"nothing":           func(*node.Node) {},
		"state":             func(n *node.Node) { n.ProvisionState = node.CleanWait },
		"driver":            func(n *node.Node) { n.ProvisionState, n.Driver = node.DeployWait, "manual-management" },
		"own fast track":    func(n *node.Node) { n.DriverInfo = node.ObjectOf(map[string]any{"fast_track": true}) },
		"auto-discovered":   func(n *node.Node) { n.Driver, n.AutoDiscovered = "fake-hardware", true },
		"token of an agent": func(n *node.Node) { n.ProvisionState, n.DriverInternalInfo = node.DeployWait, heard },
		"clean step under way": func(n *node.Node) {
			n.ProvisionState, n.CleanStep = node.Cleaning, step("deploy.erase_devices").Object()
		},
		"deploy step under way": func(n *node.Node) {
			n.ProvisionState, n.DeployStep = node.Deploying, step("deploy.write_image").Object()
		},
		"service step under way": func(n *node.Node) {
			n.ProvisionState, n.ServiceStep = node.ServiceWait, step("deploy.burnin_cpu").Object()
		},
	}
	differ := map[string]bool{}
	for name, change := range decides {
		for _, leased := range []bool{false, true} {
			n := w.register(inState(node.Available), func(n *node.Node) {
				n.DriverInternalInfo = agent.WithToken(nil, "the-token", w.clock.Now())
				change(n)
			})
			if leased {
				w.lease(n, "conductor-2")
			}
			answers := map[string]string{}
			w.read(func(tx *store.Tx) error {
				for part, find := range map[string]nodeFinder{"part": tx.NodeOfAgent, "whole": tx.Node} {
					found, due, err := w.lookup(tx, find, node.LookupRequest{NodeUUID: n.UUID, WantsToken: true}, agent.Call{})
					answers[part] = fmt.Sprint(found != nil, due, err)
					recorded, err := w.nodeOfHeartbeat(tx, find, n.UUID, beat("the-token"), func(*node.Node) ([]netip.Addr, error) { return nil, nil })
					answers[part] += fmt.Sprint("; heartbeat ", recorded != nil, err)
				}
				return nil
			})
			if answers["part"] != answers["whole"] {
				t.Errorf("%s, leased %v: the part decides %q, the whole %q", name, leased, answers["part"], answers["whole"])
			}
			differ[strings.ReplaceAll(answers["whole"], n.UUID, "")] = true
		}
	}
	if len(differ) < 6 {
		t.Errorf("the nodes differ too little to show anything: %q", slices.Collect(maps.Keys(differ)))
	}
}
