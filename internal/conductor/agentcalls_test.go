package conductor

import (
	"context"
	"errors"
	"math/bits"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// ramdisks are the agents of test machines; the zero value answers no call.
type ramdisks struct {
	mu     sync.Mutex
	answer func(ctx context.Context, e agent.Endpoint) error
	calls  []agent.Endpoint
}

func (r *ramdisks) Answers(ctx context.Context, e agent.Endpoint) error {
	r.mu.Lock()
	r.calls = append(r.calls, e)
	answer := r.answer
	r.mu.Unlock()
	if answer == nil {
		return syscall.ECONNREFUSED
	}
	return answer(ctx, e)
}

// do sets how agents answer from now on.
func (r *ramdisks) do(answer func(ctx context.Context, e agent.Endpoint) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer, r.calls = answer, nil
}

func (r *ramdisks) called() []agent.Endpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

func lives(context.Context, agent.Endpoint) error { return nil }

// silent enrols a machine whose agent sent one heartbeat and was then silent for longer
// than the window. It returns the token.
func (w *world) silent(m machine) (*node.Node, string) {
	w.t.Helper()
	n := w.enrol(m)
	token := w.token(m)
	if err := w.Heartbeat(w.t.Context(), n.UUID, beat(token)); err != nil {
		w.t.Fatal(err)
	}
	w.clock.Advance(heartbeatTimeout + time.Microsecond)
	return n, token
}

func TestSilentMachineGetsANewTokenAndTheOldOneIsVoid(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	n, old := w.silent(m)
	answer, err := w.Lookup(t.Context(), node.LookupRequest{Addresses: m.macs, WantsToken: true, Source: netip.MustParseAddr("192.0.2.9")})
	if err != nil || len(answer.Token) < 32 || answer.Token == old {
		t.Fatalf("answer = %+v, %v; want another token", answer, err)
	}
	want := []agent.Endpoint{{Node: n.UUID, URL: "https://192.0.2.1:9999", VerifyCA: "PEM"}}
	if diff := cmp.Diff(want, w.agents.called()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	rows := w.history(n)
	if got := rows[len(rows)-1]; got != "INFO agent: A lookup from 192.0.2.9 got a new agent token, and the old one is void: "+
		"its agent was silent for 5m0s and did not answer at https://192.0.2.1:9999." {
		t.Errorf("history = %q, want who lost and who got the token, and not the token", got)
	}
	wantAs[*node.ValidationError](t, w.Heartbeat(t.Context(), n.UUID, beat(old)))
	moved := func(b *node.Heartbeat) { b.CallbackURL = "https://192.0.2.2:9999" } // DHCP gave another address
	if err := w.Heartbeat(t.Context(), n.UUID, beat(answer.Token, moved)); err != nil {
		t.Errorf("heartbeat of the new agent: %v", err)
	}
}

// TestAgentThatAnswersKeepsItsToken has somebody who knows the MAC look the node up
// after the heartbeats were lost for a while.
func TestAgentThatAnswersKeepsItsToken(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	n, token := w.silent(m)
	w.agents.do(lives)
	before, rows := w.stored(n.UUID), w.history(n)
	for range 3 {
		_, err := w.lookUp(m.macs...)
		wantAs[*node.LockedError](t, err)
	}
	if calls := len(w.agents.called()); calls != 1 {
		t.Errorf("%d calls for three lookups, want one", calls)
	}
	if diff := cmp.Diff(before, w.stored(n.UUID)) + cmp.Diff(rows, w.history(n)); diff != "" {
		t.Errorf("node and history (-before +after):\n%s", diff)
	}
	if err := w.Heartbeat(t.Context(), n.UUID, beat(token)); err != nil {
		t.Errorf("heartbeat of the agent: %v", err)
	}
	w.agents.do(nil)
	w.clock.Advance(heartbeatTimeout + time.Microsecond)
	if fresh := w.token(m); fresh == token { // its earlier answer does not count any more
		t.Error("the old token was handed out again")
	}
}

func TestAnAnswerCountsForAWhileOnly(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	w.silent(m)
	w.agents.do(lives)
	_, err := w.lookUp(m.macs...)
	wantAs[*node.LockedError](t, err)
	w.agents.do(nil) // the machine is restarted
	w.clock.Advance(answerCounts)
	_, err = w.lookUp(m.macs...)
	wantAs[*node.LockedError](t, err)
	if calls := w.agents.called(); calls != nil {
		t.Errorf("called %v, want the answer to count", calls)
	}
	w.clock.Advance(time.Microsecond)
	w.token(m)
}

func TestNobodyIsCalledWhileHeartbeatsCome(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	n := w.enrol(m)
	token := w.token(m)
	if err := w.Heartbeat(t.Context(), n.UUID, beat(token)); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(heartbeatTimeout)
	_, err := w.lookUp(m.macs...)
	wantAs[*node.LockedError](t, err)
	if calls := w.agents.called(); calls != nil {
		t.Errorf("called %v, want nobody called", calls)
	}
}

// TestHeartbeatDuringTheCallKeepsTheToken has an agent come back while it is called.
func TestHeartbeatDuringTheCallKeepsTheToken(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	n, token := w.silent(m)
	w.agents.do(func(context.Context, agent.Endpoint) error {
		if err := w.Heartbeat(t.Context(), n.UUID, beat(token)); err != nil {
			t.Errorf("heartbeat during the call: %v", err)
		}
		return context.DeadlineExceeded
	})
	_, err := w.lookUp(m.macs...)
	wantAs[*node.LockedError](t, err)
	if got := w.stored(n.UUID).DriverInternalInfo.Text(agent.TokenKey); got != token {
		t.Error("the token of an agent that came back was replaced")
	}
}

// TestDatabaseIsFreeDuringACall has a call write and read: with a transaction open, the
// only connection that writes would be taken.
func TestDatabaseIsFreeDuringACall(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	w.silent(m)
	w.agents.do(func(context.Context, agent.Endpoint) error {
		w.enrol(unknown(2))
		return context.DeadlineExceeded
	})
	w.token(m)
}

// TestLookupThatIsGivenUpLeavesItsResultToTheNext has a client that disconnects during each
// call, as an attacker does who wants to keep the token from a machine.
func TestLookupThatIsGivenUpLeavesItsResultToTheNext(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	n, token := w.silent(m)
	ctx, hangUp := context.WithCancel(t.Context())
	w.agents.do(func(bounded context.Context, _ agent.Endpoint) error {
		hangUp()
		if bounded.Err() != nil {
			t.Error("the call ended with the lookup")
		}
		return syscall.ECONNREFUSED
	})
	if _, err := w.Lookup(ctx, node.LookupRequest{Addresses: m.macs, WantsToken: true}); err == nil {
		t.Error("a lookup that was given up had success")
	}
	if got := w.stored(n.UUID).DriverInternalInfo.Text(agent.TokenKey); got != token {
		t.Error("a lookup that was given up replaced the token")
	}
	w.agents.do(func(context.Context, agent.Endpoint) error {
		t.Error("the agent was called again")
		return nil
	})
	if answer, err := w.lookUp(m.macs...); err != nil || answer.Token == "" {
		t.Errorf("the next lookup: %+v, %v; want a token", answer, err)
	}
}

func TestLookupsAtOnceCallAnAgentOnce(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	w.silent(m)
	begun, end := make(chan struct{}), make(chan struct{})
	w.agents.do(func(context.Context, agent.Endpoint) error {
		close(begun) // a second call would panic
		<-end
		return syscall.ECONNREFUSED
	})
	first := make(chan error, 1)
	go func() {
		_, err := w.lookUp(m.macs...)
		first <- err
	}()
	<-begun
	_, err := w.lookUp(m.macs...)
	wantAs[*node.LockedError](t, err)
	close(end)
	if err := <-first; err != nil {
		t.Errorf("the lookup that called: %v, want a token", err)
	}
}

// TestCallsAreBoundedInNumberAndTime has agents that never answer.
func TestCallsAreBoundedInNumberAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := &ramdisks{answer: func(ctx context.Context, _ agent.Endpoint) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		calls := newAgentCalls(agents, time.Now)
		holder := func(i int) *node.Node {
			name := strings.Repeat("n", i+1)
			return &node.Node{UUID: name, DriverInternalInfo: agent.WithToken(nil, "token of "+name, time.Now())}
		}
		// Half of the calls are for one who asks, a quarter for another, and so on.
		from := func(i int) netip.Addr {
			return netip.AddrFrom4([4]byte{192, 0, 2, byte(bits.Len(uint(maxAgentCalls - 1 - min(i, maxAgentCalls-1))))})
		}
		began, replies := time.Now(), make(chan agent.Call, maxAgentCalls)
		for i := range maxAgentCalls {
			go func() { replies <- calls.call(t.Context(), holder(i), from(i)) }()
			synctest.Wait()
		}
		if got := calls.call(t.Context(), holder(maxAgentCalls), from(maxAgentCalls)); got.Reply != agent.NotCalled || got.Token == "" {
			t.Errorf("one more call = %+v, want none made", got)
		}
		for range maxAgentCalls {
			if got := <-replies; got.Reply != agent.NoAnswer {
				t.Errorf("call = %+v, want no answer", got)
			}
		}
		if took := time.Since(began); took != agentCallTime {
			t.Errorf("calls took %s, want %s", took, agentCallTime)
		}
		if len(agents.called()) != maxAgentCalls || len(calls.running) != 0 {
			t.Errorf("%d calls, %d said to run; want %d and none", len(agents.called()), len(calls.running), maxAgentCalls)
		}
		agents.do(lives)
		for i := range 3 { // old answers are dropped
			calls.call(t.Context(), holder(i), from(i))
			<-time.After(answerCounts + 1)
		}
		if len(calls.known) != 1 {
			t.Errorf("%d answers remembered, want the last one", len(calls.known))
		}
	})
}

// TestPostsVoidNoToken walks the states in which somebody who knows a MAC posts an
// inventory for a machine whose agent lives.
func TestPostsVoidNoToken(t *testing.T) {
	for _, state := range []node.State{node.Enroll, node.Manageable, node.Available, node.InspectWait} {
		for _, wants := range []bool{false, true} {
			t.Run(string(state), func(t *testing.T) {
				w := newWorld(t)
				m := unknown(1)
				n := w.enrol(m)
				token := w.token(m)
				if err := w.Heartbeat(t.Context(), n.UUID, beat(token)); err != nil {
					t.Fatal(err)
				}
				w.write(func(tx *store.Tx) error {
					before, err := tx.Node(n.UUID)
					if err != nil {
						return err
					}
					after := *before
					after.ProvisionState = state
					return tx.UpdateNode(before, &after)
				})
				before := w.stored(n.UUID)
				w.clock.Advance(time.Second)
				answer, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: m.body(), WantsToken: wants})
				if state != node.InspectWait {
					wantIs(t, err, node.ErrNotFound)
					if diff := cmp.Diff(before, w.stored(n.UUID)); diff != "" {
						t.Errorf("a refused post changed the node (-before +after):\n%s", diff)
					}
				} else if err != nil || answer.Token != "" {
					t.Errorf("answer = %+v, %v; want the post accepted, without a token", answer, err)
				}
				w.awaitWorkDone()
				if err := w.Heartbeat(t.Context(), n.UUID, beat(token)); err != nil {
					t.Errorf("heartbeat of the agent that lives: %v", err)
				}
			})
		}
	}
}

// TestRebootedMachineGetsATokenWhenItsOldAgentIsGone plays a machine without a BMC that a
// person restarts for its inspection.
func TestRebootedMachineGetsATokenWhenItsOldAgentIsGone(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Inspection.UnmanagedBoot = true })
	m := unknown(1)
	n := w.enrol(m)
	old := w.token(m)
	if err := w.Heartbeat(t.Context(), n.UUID, beat(old)); err != nil {
		t.Fatal(err)
	}
	w.send(n, "manage")
	w.arrive(n, node.Manageable)
	w.send(n, "inspect")
	w.arrive(n, node.InspectWait)
	w.clock.Advance(time.Minute)
	_, err := w.lookUp(m.macs...)
	wantAs[*node.LockedError](t, err)
	if _, err := send(t, w.Conductor, m); err != nil {
		t.Fatalf("post of the restarted machine: %v", err)
	}
	w.awaitWorkDone()
	if got := w.arrive(n, node.Manageable); got.LastError != "" {
		t.Fatalf("inspection ended with %q", got.LastError)
	}
	_, err = w.lookUp(m.macs...)
	wantAs[*node.LockedError](t, err)
	w.clock.Advance(heartbeatTimeout)
	if fresh := w.token(m); fresh == old {
		t.Error("the old token was handed out again")
	}
}

func TestCallThatFailsOnTheEngineReplacesNoToken(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	n, token := w.silent(m)
	for _, own := range []error{agent.ErrNotCalled, syscall.EMFILE, errors.Join(errors.New("dial"), syscall.EADDRNOTAVAIL)} {
		w.agents.do(func(context.Context, agent.Endpoint) error { return own })
		_, err := w.lookUp(m.macs...)
		wantAs[*node.LockedError](t, err)
	}
	if got := w.stored(n.UUID).DriverInternalInfo.Text(agent.TokenKey); got != token {
		t.Error("the token was replaced")
	}
}
