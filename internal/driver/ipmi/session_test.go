package ipmi_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/ipmi"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

func TestRefusedCredentialsAreTriedTwiceAndThenSeldom(t *testing.T) {
	for _, wrong := range []map[string]any{{"ipmi_password": "not-this-one"}, {"ipmi_username": "nobody-here"}} {
		m, _ := newMachine(t, "dell")
		now := time.Now()
		d := ipmi.New(ipmi.Options{Clock: func() time.Time { return now }, RefusalPause: time.Minute})
		right := m.node.DriverInfo
		m.info(wrong)

		first := read(t, d, m.node)
		if first == nil || !first.Retryable || !strings.Contains(first.Reason, "refuses the user name or password") || strings.Contains(first.Reason, "not-this-one") {
			t.Fatalf("first try: %v, want a temporary failure that names the cause and no password", first)
		}
		asked := m.Recorder.Reads(redfishtest.Name)
		if again := read(t, d, m.node); again == nil || !again.Retryable || m.Recorder.Reads(redfishtest.Name) != asked {
			t.Errorf("at once: %v, and %d requests reached the BMC, want none", again, m.Recorder.Reads(redfishtest.Name)-asked)
		}
		now = now.Add(2 * time.Minute)
		if second := read(t, d, m.node); second == nil || m.Recorder.Reads(redfishtest.Name) == asked {
			t.Errorf("after the pause: %v, want that the BMC was asked", second)
		}
		asked = m.Recorder.Reads(redfishtest.Name)
		now = now.Add(19 * time.Minute)
		if third := read(t, d, m.node); third == nil || !strings.Contains(third.Reason, "Correct ipmi_username") || m.Recorder.Reads(redfishtest.Name) != asked {
			t.Errorf("after 19 minutes: %v, want a failure without a request", third)
		}
		now = now.Add(time.Minute)
		if fourth := read(t, d, m.node); fourth == nil || m.Recorder.Reads(redfishtest.Name) == asked {
			t.Errorf("after 20 minutes: %v, want that the BMC was asked", fourth)
		}
		m.node.DriverInfo = right
		if failure := read(t, d, m.node); failure != nil {
			t.Errorf("with other credentials: %v", failure)
		}
	}
}

func TestEachSuiteOpensASession(t *testing.T) {
	m, d := newMachine(t, "dell")
	for _, suite := range []any{nil, 3, "3", 17} {
		m.info(map[string]any{"ipmi_cipher_suite": suite})
		if failure := read(t, d, m.node); failure != nil {
			t.Errorf("ipmi_cipher_suite %v: %v", suite, failure)
		}
	}
}

func TestSessionsAreClosed(t *testing.T) {
	m, d := newMachine(t, "dell")
	for range 20 { // more than the BMC has sessions
		if failure := read(t, d, m.node); failure != nil {
			t.Fatal(failure)
		}
	}
}

func TestPrivilegeLevelLimitsWhatIsDone(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.info(map[string]any{"ipmi_priv_level": "user"})
	if failure := read(t, d, m.node); failure != nil {
		t.Errorf("a user reads: %v", failure)
	}
	_, err := d.SetPower(t.Context(), m.node, node.PowerOn, fresh)
	var failure *node.DriverError
	if !errors.As(err, &failure) || failure.Retryable || !failure.Refused || !strings.Contains(failure.Reason, "set ipmi_priv_level") {
		t.Errorf("a user switches the machine on: %v, want a final refusal that names the key", err)
	}
	if got := m.Effects(); len(got) != 0 {
		t.Errorf("effects = %q, want none", got)
	}
}

// lossy passes datagrams on to a BMC, except those that lose names, counted from 0 in
// each direction.
type lossy struct {
	*net.UDPConn
	lose func(toBMC bool, number int) bool
}

// newLossy changes a machine's address to one that loses datagrams.
func newLossy(t *testing.T, m *machine, lose func(toBMC bool, number int) bool) {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	l := &lossy{conn, lose}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.pass(net.UDPAddrFromAddrPort(m.Address))
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	m.info(map[string]any{"ipmi_port": conn.LocalAddr().(*net.UDPAddr).Port})
}

func (l *lossy) pass(bmc *net.UDPAddr) {
	upstreams := map[string]*net.UDPConn{}
	answers := make(chan struct{}, 1) // one goroutine counts them at a time
	answers <- struct{}{}
	var requests, answered int
	buffer := make([]byte, 1024)
	for {
		n, client, err := l.ReadFromUDP(buffer)
		if err != nil {
			for _, upstream := range upstreams {
				_ = upstream.Close()
			}
			return
		}
		upstream, ok := upstreams[client.String()]
		if !ok {
			if upstream, err = net.DialUDP("udp4", nil, bmc); err != nil {
				return
			}
			upstreams[client.String()] = upstream
			go func() {
				answer := make([]byte, 1024)
				for {
					n, err := upstream.Read(answer)
					if err != nil {
						return
					}
					<-answers
					if !l.lose(false, answered) {
						_, _ = l.WriteToUDP(answer[:n], client)
					}
					answered++
					answers <- struct{}{}
				}
			}()
		}
		if !l.lose(true, requests) {
			_, _ = upstream.Write(buffer[:n])
		}
		requests++
	}
}

// messages is how many datagrams open a session: three of RAKP and its privilege level.
const messages = 4

func TestLostDatagramsOfReadingsAreSentAgain(t *testing.T) {
	for _, toBMC := range []bool{true, false} {
		for lost := range messages + 1 {
			m, _ := newMachine(t, "dell")
			newLossy(t, m, func(to bool, number int) bool { return to == toBMC && number == lost })
			d := ipmi.New(ipmi.Options{Answer: 50 * time.Millisecond})
			if failure := read(t, d, m.node); failure != nil {
				t.Errorf("datagram %d to the BMC (%v) lost: %v", lost, toBMC, failure)
			}
		}
	}
}

func TestRequestForPowerIsSentOnce(t *testing.T) {
	m, d := newMachine(t, "dell")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var sent atomic.Int32
	newLossy(t, m, func(toBMC bool, number int) bool {
		if !toBMC || number <= messages { // up to the reading of the power state
			return false
		}
		return sent.Add(1) == 1
	})
	_, err := d.SetPower(ctx, m.node, node.PowerOn, fresh)
	var failure *node.DriverError
	if !errors.As(err, &failure) || failure.Refused || !failure.Retryable {
		t.Errorf("error = %v, want a temporary failure that refuses nothing", err)
	}
	if got := m.Effects(); len(got) != 0 || sent.Load() > 2 { // the second one closes the session
		t.Errorf("effects %q after %d datagrams, want none after one", got, sent.Load())
	}
	turn := driver.Turn{Attempt: driver.Unknown}
	if out, err := d.SetPower(t.Context(), m.node, node.PowerOn, turn); err != nil || !out.Done() || len(m.Effects()) != 1 {
		t.Errorf("after that: %+v, %v, effects %q, want that the machine was switched on once", out, err, m.Effects())
	}
}

func TestNothingIsSentWithoutTime(t *testing.T) {
	m, d := newMachine(t, "dell")
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := d.SetPower(ctx, m.node, node.PowerOn, fresh); err == nil {
		t.Error("a change after the deadline succeeded")
	}
	if reads := m.Recorder.Reads(redfishtest.Name); reads != 0 || len(m.Effects()) != 0 {
		t.Errorf("%d requests after the deadline, effects %q", reads, m.Effects())
	}
}

func TestSilentBMCFailsWithWhatToCheck(t *testing.T) {
	m, _ := newMachine(t, "dell")
	m.Fail(effect.Faults{Hang: 1})
	d := ipmi.New(ipmi.Options{Answer: 10 * time.Millisecond})
	if failure := read(t, d, m.node); failure == nil || !failure.Retryable || !strings.Contains(failure.Reason, "check ipmi_address and ipmi_port") {
		t.Errorf("a BMC that hangs: %v, want a temporary failure that says what to check", failure)
	}
	m.Heal()
	m.info(map[string]any{"ipmi_port": 1})
	if failure := read(t, d, m.node); failure == nil || !strings.Contains(failure.Reason, "nothing answers at 127.0.0.1:1") {
		t.Errorf("a port where nobody listens: %v, want its address", failure)
	}
}

func TestConnectionsAreThoseOfTheCaller(t *testing.T) {
	m, _ := newMachine(t, "dell")
	type key struct{}
	var dialled []string
	d := ipmi.New(ipmi.Options{Dial: func(ctx context.Context, address string) (net.Conn, error) {
		dialled = append(dialled, address+" "+ctx.Value(key{}).(string))
		return new(net.Dialer).DialContext(ctx, "udp", m.Address.String())
	}})
	m.info(map[string]any{"ipmi_address": "192.0.2.7", "ipmi_port": 6230})
	state, err := d.PowerState(context.WithValue(t.Context(), key{}, "of the call"), m.node)
	if err != nil || state != node.PowerOff || len(dialled) != 1 || dialled[0] != "192.0.2.7:6230 of the call" {
		t.Errorf("power state %q, %v through the connections %q; want one to the address of the node with the context of the call", state, err, dialled)
	}
}
