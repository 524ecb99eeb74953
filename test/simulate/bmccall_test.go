package simulate

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	simeffect "github.com/ingot-metal/ingot/internal/sim/effect"
)

// bmcCalls sends the requests of one replica to BMCs.
type bmcCalls struct{ r *replica }

// bmcRequest is a request to a BMC.
type bmcRequest struct {
	*http.Request
	to      *computer
	origin  driver.Origin
	changes bool
	name    string // such as "POST ComputerSystem.Reset"
}

func (b bmcCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	q := &bmcRequest{Request: r, to: b.r.w.computerAt(r.URL.Hostname()), origin: originOf(r.Header.Get("X-Request-Id"))}
	q.describe()
	if r.Context().Err() != nil { // the library sends such a request at times only, so it must not count
		return nil, r.Context().Err()
	}
	v := b.r.w.sched.wait(r.Context(), q.point(b.r))
	answer, err := b.deliver(q, v)
	q.to.noteVolumes(q, answer, err)
	if v != proceed || err != nil {
		b.r.dropAcknowledged(q.origin.Request) // this turn cannot store what it has done before
	}
	return answer, err
}

// describe says what a request does. Logins and logouts change no machine.
func (q *bmcRequest) describe() {
	at := strings.TrimRight(q.URL.Path, "/")
	name := path.Base(at)
	switch parent := path.Base(path.Dir(at)); {
	case parent == "Systems":
		name = "ComputerSystem"
	case strings.EqualFold(parent, "Bios"): // vendors have their own names for its settings
		name = "Bios"
	case parent == "Volumes":
		name = "Volume"
	}
	q.name = q.Method + " " + name
	q.changes = q.Method != http.MethodGet && !strings.Contains(at, "/SessionService/")
}

func (q *bmcRequest) point(r *replica) *point {
	p := &point{replica: r, kind: atBMCRead, name: q.to.name + " " + q.Method + " " + q.URL.Path + " for " + taskName(q.Context()), call: "BMC GET"}
	if q.changes {
		p.kind, p.name, p.call = atEffect, q.to.name+" "+q.name+" for "+taskName(q.Context()), "BMC "+q.name
		p.rare = strings.HasSuffix(q.name, "SimpleUpdate") || strings.Contains(q.URL.Path, "/Volumes")
	}
	return p
}

// faultsOf has the faults that a verdict gives a BMC.
var faultsOf = map[verdict]simeffect.Faults{refused: {Refuse: 1}, lies: {Lie: 1}}

// deliver makes a request as the verdict says.
func (b bmcCalls) deliver(q *bmcRequest, v verdict) (*http.Response, error) {
	ctx := q.Context()
	switch {
	case b.r.isDead() || v == crashBefore:
		b.r.die()
		return nil, errDead
	case ctx.Err() != nil: // the process was paused beyond its deadline
		if q.changes {
			q.to.noteUnknown()
		}
		return nil, ctx.Err()
	case v == requestLost:
		return nil, errConnReset
	case q.to.ignoresRequest():
		return nil, errConnRefused
	}
	if q.changes {
		sent := q.to.beginCall(ctx, b.r)
		defer q.to.endCall(sent)
	}
	if v == lies {
		q.to.noteLie(q.origin.Request)
	}
	if v == hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	b.r.checkWork(ctx, q.to.machine)
	answer, done, err := q.to.serve(q, faultsOf[v])
	for _, e := range done {
		q.to.beginEffect(e, b.r)
		if e.kind == fake.Flash && (v == crashAfter || v == answerLost) {
			q.to.drawTaskLoss(e)
		}
	}
	q.to.noteInterrupts(ctx, done...)
	switch v {
	case crashAfter:
		b.r.die()
		return nil, errDead
	case answerLost:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, e := range done {
		b.r.noteAcknowledged(e)
	}
	return answer, err
}

// errConnReset is the error of a request whose connection was reset.
var errConnReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// errConnRefused is the error of a request to an address at which nothing listens.
var errConnRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// powerKinds are the effects that end or interrupt what runs on a machine.
var powerKinds = []fake.Kind{
	fake.Kind(bmc.PowerOff), fake.Kind(bmc.SoftPowerOff), fake.Kind(bmc.Reboot), fake.Kind(bmc.SoftReboot), fake.Kind(bmc.PowerCycle), fake.Kind(bmc.PowerButton),
}

// serve has the BMC answer, and returns what it did.
func (c *computer) serve(q *bmcRequest, faults simeffect.Faults) (answer *http.Response, done []effect, err error) {
	request := q.Clone(q.Context())
	request.TLS = &tls.ConnectionState{}
	if q.Body == nil {
		request.Body = http.NoBody
	}
	c.bmcMu.Lock()
	defer c.bmcMu.Unlock()
	flashing := c.flashing()
	if err := c.recorder.SetFaults(c.name, &faults); err != nil {
		panic(err)
	}
	written := httptest.NewRecorder()
	c.observe()
	defer c.observe()
	if err := unlessAborted(func() { c.redfish.ServeHTTP(written, request) }); err != nil {
		return nil, nil, err
	}
	for _, e := range c.recorder.Effects(c.name, c.lastSequence) {
		c.lastSequence = e.Sequence
		if e.Kind == string(bmc.InterruptFlash) { // not a call; its cause is checked below
			continue
		}
		kind := fake.Kind(e.Kind)
		done = append(done, effect{kind: kind, detail: shownDetail(kind, e.Detail), origin: q.origin})
		if flashing != "" && slices.Contains(powerKinds, kind) {
			c.w.violated("%s: %s while the firmware of %s is written", c.name, kind, flashing)
		}
	}
	answer = written.Result()
	answer.Request = q.Request
	return answer, done, nil
}

// observe notes the power state that the BMC shows.
func (c *computer) observe() {
	if state, lasts := map[bmc.PowerState]node.PowerState{bmc.On: node.PowerOn, bmc.Off: node.PowerOff}[c.bmc.Power()]; lasts {
		c.notePower(state)
	}
}

// flashing returns the component whose firmware is being written, or "". It leaves out the firmware
// of the BMC, because a change of the machine's power does not interrupt that, and updates for
// which the BMC has lost its task, because nobody can know of them.
func (c *computer) flashing() string {
	for _, t := range c.bmc.Tasks() {
		if t.Kind == bmc.FlashTask && t.State == bmc.Running && t.Component != bmc.BMCComponent {
			return t.Component
		}
	}
	return ""
}

// shownDetail is the detail of an effect without the secrets of URLs, which differ from
// run to run.
func shownDetail(kind fake.Kind, detail string) string {
	if kind == fake.Kind(bmc.AttachMedium) {
		slot, _, _ := strings.Cut(detail, " ")
		return slot
	}
	return detail
}

// unlessAborted runs a handler. It returns an error if the handler aborts the connection.
func unlessAborted(handle func()) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			if failure, ok := panicked.(error); !ok || !errors.Is(failure, http.ErrAbortHandler) {
				panic(panicked)
			}
			err = errConnRefused
		}
	}()
	handle()
	return nil
}

// originOf reads what the driver says about itself: "conductor/epoch/request".
func originOf(header string) driver.Origin {
	parts := strings.SplitN(header, "/", 3)
	if len(parts) < 3 {
		return driver.Origin{}
	}
	epoch, _ := strconv.ParseInt(parts[1], 10, 64)
	return driver.Origin{Conductor: parts[0], Epoch: epoch, Request: parts[2]}
}

// files serves images and firmware. Every file of firmware has a version of its own.
type files struct{}

func (files) RoundTrip(r *http.Request) (*http.Response, error) {
	body := diskImage
	if component, version, ok := strings.Cut(path.Base(r.URL.Path), "@"); ok {
		body = []byte("ingot-firmware component=" + component + " version=" + version)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}, nil
}

// diskImage is a raw image with a partition table.
var diskImage = append(append(make([]byte, 510), 0x55, 0xaa), make([]byte, 512)...)
