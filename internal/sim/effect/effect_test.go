package effect_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/polltest"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// kinds is every kind of effect that the driver knows.
var kinds = []fake.Kind{
	fake.PowerOn, fake.PowerOff, fake.SoftPowerOff, fake.BootDevice, fake.BootRamdisk, fake.AttachMedium, fake.DetachMedia,
	fake.NMI, fake.Wipe, fake.Write, fake.Flash, fake.Configure, fake.BurnIn, fake.TearDown, fake.Rescue, fake.Unrescue,
	fake.VendorMethod,
}

// machine is the machine m1 of a server of its own.
type machine struct {
	t      *testing.T
	url    string
	passed *atomic.Int64 // time by the machine's clock, in nanoseconds
	before int           // effects that the test made itself
}

var _ drivertest.Machine = (*machine)(nil)

func newMachine(t *testing.T, changes ...func(*effect.Options)) *machine {
	t.Helper()
	m := &machine{t: t, passed: new(atomic.Int64)}
	start := time.Date(2031, time.March, 4, 10, 11, 12, 0, time.UTC)
	o := effect.Options{Clock: func() time.Time { return start.Add(time.Duration(m.passed.Load())) }}
	for _, change := range changes {
		change(&o)
	}
	server := httptest.NewServer(effect.New(o).Handler())
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

// call makes a request, which must be answered with 200, and reads its answer.
func (m *machine) call(method, path, body string, into any) {
	m.t.Helper()
	if status, text := m.try(method, path, body); status != http.StatusOK {
		m.t.Fatalf("%s %s: status %d: %s", method, path, status, text)
	} else if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			m.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
}

func (m *machine) try(method, path, body string) (status int, text string) {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.t.Context(), method, m.url+path, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		m.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// eventually polls until condition holds.
func (m *machine) eventually(what string, condition func() bool) {
	m.t.Helper()
	polltest.UntilTrue(m.t, time.Minute, what, condition)
}

// log reads the effects of all machines.
func (m *machine) log() []effect.Effect {
	m.t.Helper()
	var part struct {
		Effects []effect.Effect `json:"effects"`
	}
	m.call("GET", "/effects", "", &part)
	return part.Effects
}

func (m *machine) Effects() []string {
	m.t.Helper()
	all := []string{}
	for _, e := range m.log()[m.before:] {
		all = append(all, e.Kind)
	}
	return all
}

// everyKind returns the part of faults that limits them to effects, and makes the task time count
// for each.
func everyKind() string {
	names, _ := json.Marshal(kinds) // texts only
	return `"only":` + string(names)
}

func (m *machine) faults(faults string) {
	m.t.Helper()
	m.call("PUT", "/machines/m1/faults", "{"+faults+"}", nil)
}

func (m *machine) Refuse()      { m.t.Helper(); m.faults(`"refuse":1,` + everyKind()) }
func (m *machine) RefuseReads() { m.t.Helper(); m.faults(`"refuse":1,"only":["read"]`) }
func (m *machine) Break()       { m.t.Helper(); m.faults(`"error":1`) }
func (m *machine) LoseAnswers() { m.t.Helper(); m.faults(`"lose_answer":1`) }
func (m *machine) SlowTasks()   { m.t.Helper(); m.faults(`"task_time":"1h",` + everyKind()) }
func (m *machine) FailTasks()   { m.t.Helper(); m.faults(`"fail_task":1`) }
func (m *machine) Heal()        { m.t.Helper(); m.call("DELETE", "/machines/m1/faults", "", nil) }
func (m *machine) EndTasks()    { m.passed.Add(int64(2 * time.Hour)) }
func (m *machine) ForgetTasks() { m.t.Helper(); m.call("POST", "/machines/m1/forget-tasks", "", nil) }
