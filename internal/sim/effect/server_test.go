package effect_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// part is an answer with effects.
type part struct {
	Effects []effect.Effect `json:"effects"`
	Next    int64           `json:"next"`
	Gap     bool            `json:"gap"`
}

// shown is a machine as a tester sees it.
type shown struct {
	PowerState string `json:"power_state"`
	BootDevice string `json:"boot_device"`
	Tasks      []struct {
		State string `json:"state"`
	} `json:"tasks"`
	Counts map[string]int `json:"counts"`
}

func (m *machine) show() shown {
	m.t.Helper()
	var s shown
	m.call("GET", "/machines/m1", "", &s)
	return s
}

// do asks the machine for something and returns the state of the task.
func (m *machine) do(kind, request string) string {
	m.t.Helper()
	var task struct {
		State string `json:"state"`
	}
	m.call("POST", "/machines/m1/effects", fmt.Sprintf(`{"kind":%q,"detail":"disk","request":%q}`, kind, request), &task)
	return task.State
}

// outcome asks the machine what became of a request.
func (m *machine) outcome(request string) string {
	m.t.Helper()
	var task struct {
		State string `json:"state"`
	}
	m.call("GET", "/machines/m1/tasks?request="+request, "", &task)
	return task.State
}

func TestMachineRemembersWhatWasDoneToIt(t *testing.T) {
	m := newMachine(t)
	for _, kind := range []string{"power on", "boot device", "wipe", "wipe"} {
		if got := m.do(kind, kind); got != "done" {
			t.Errorf("%s is %s, want it done", kind, got)
		}
	}
	got := m.show()
	if got.PowerState != "power on" || got.BootDevice != "disk" || len(got.Tasks) != 4 {
		t.Errorf("machine = %+v", got)
	}
	if diff := cmp.Diff(map[string]int{"power on": 1, "boot device": 1, "wipe": 2}, got.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	var all struct {
		Machines, Effects int
		Kinds             map[string]int
	}
	m.call("POST", "/machines/m2/effects", `{"kind":"wipe"}`, nil)
	m.call("GET", "/counts", "", &all)
	if all.Machines != 2 || all.Effects != 5 || all.Kinds["wipe"] != 3 {
		t.Errorf("counts of all = %+v", all)
	}
}

func TestLogIsReadInParts(t *testing.T) {
	m := newMachine(t, func(o *effect.Options) { o.Keep = 3 })
	read := func(path string) part {
		var p part
		m.call("GET", path, "", &p)
		return p
	}
	if got := read("/effects"); len(got.Effects) != 0 || got.Next != 0 || got.Gap {
		t.Errorf("empty log = %+v", got)
	}
	for i := range 10 {
		m.call("POST", fmt.Sprintf("/machines/m%d/effects", i%2), `{"kind":"nmi"}`, nil)
		got := read(fmt.Sprintf("/effects?since=%d", i))
		if len(got.Effects) != 1 || got.Effects[0].Sequence != int64(i+1) || got.Next != int64(i+1) || got.Gap {
			t.Fatalf("after effect %d: %+v", i+1, got)
		}
	}
	sequences := func(p part) (all []int64) {
		for _, e := range p.Effects {
			all = append(all, e.Sequence)
		}
		return all
	}
	for path, want := range map[string]struct {
		sequences []int64
		gap       bool
	}{
		"/effects":                     {[]int64{8, 9, 10}, true},
		"/effects?since=6":             {[]int64{8, 9, 10}, true},
		"/effects?since=7":             {[]int64{8, 9, 10}, false},
		"/effects?since=9":             {[]int64{10}, false},
		"/effects?since=10":            {nil, false},
		"/effects?since=99":            {nil, false},
		"/machines/m0/effects":         {[]int64{9}, true},
		"/machines/m1/effects":         {[]int64{8, 10}, true},
		"/machines/m1/effects?since=8": {[]int64{10}, false},
	} {
		got := read(path)
		if diff := cmp.Diff(want.sequences, sequences(got)); diff != "" || got.Gap != want.gap {
			t.Errorf("%s: gap %v, want %v; sequences (-want +got):\n%s", path, got.Gap, want.gap, diff)
		}
	}
}

func TestCallsThatDidNothingAreInTheLogOfCallsOnly(t *testing.T) {
	m := newMachine(t)
	for _, fault := range []string{"refuse", "error", "lie", "fail_task"} {
		m.faults(fmt.Sprintf("%q:1", fault))
		_, _ = m.try("POST", "/machines/m1/effects", `{"kind":"wipe","conductor":"c","epoch":7,"request":"r"}`)
	}
	var calls part
	m.call("GET", "/calls?since=0", "", &calls)
	tasks := []string{}
	for i, want := range []string{"refuse", "error", "lie", "fail task"} {
		got := calls.Effects[i]
		if got.Fault != want || got.Kind != "wipe" || got.Conductor != "c" || got.Epoch != 7 || got.Request != "r" || got.Ended.IsZero() {
			t.Errorf("call %d is logged as %+v, want fault %q", i+1, got, want)
		}
		tasks = append(tasks, got.Task)
	}
	if diff := cmp.Diff([]string{"", "", "", "task-1"}, tasks); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	if got := m.log(); len(got) != 1 || got[0].Sequence != 4 || m.show().Counts["wipe"] != 1 {
		t.Errorf("effects %+v, want what was done", got)
	}
}

func TestLogTellsWhenACallBeganAndEnded(t *testing.T) {
	m := newMachine(t)
	m.faults(`"lose_answer":1`)
	last := func() (e effect.Effect) {
		if all := m.log(); len(all) > 0 {
			e = all[len(all)-1]
		}
		return e
	}
	ctx, hangUp := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/machines/m1/effects", strings.NewReader(`{"kind":"wipe"}`))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
		}
		close(gone)
	}()
	m.eventually("the call to begin", func() bool { return last().Sequence == 1 })
	if e := last(); !e.Ended.IsZero() {
		t.Errorf("call = %+v while its client waits, want no end", e)
	}
	m.passed.Add(int64(time.Minute))
	hangUp()
	<-gone
	m.eventually("the call to end", func() bool { return !last().Ended.IsZero() })
	if e := last(); e.Ended.Sub(e.Time) != time.Minute || e.Fault != "lose answer" {
		t.Errorf("call = %+v, want it to end a minute after it began", e)
	}
	m.faults("")
	if m.do("nmi", "r"); last().Ended.IsZero() {
		t.Errorf("call = %+v after its answer, want its end", last())
	}
}

func TestTaskRunsForItsTimeAndThenTakesEffect(t *testing.T) {
	m := newMachine(t)
	m.faults(`"task_time":"90m","only":["power on"]`)
	if got := m.do("power on", "r1"); got != "running" || m.show().PowerState != "power off" {
		t.Errorf("task is %s on a machine in %s, want it running and off", got, m.show().PowerState)
	}
	if got := m.do("wipe", "r2"); got != "done" {
		t.Errorf("kind that is not named is %s, want it done", got)
	}
	m.EndTasks()
	if got := m.outcome("r1"); got != "done" || m.show().PowerState != "power on" {
		t.Errorf("task is %s on a machine in %s, want it done and on", got, m.show().PowerState)
	}
}

func TestTaskTimeCountsForLongEffectsUnlessToldOtherwise(t *testing.T) {
	m := newMachine(t)
	m.faults(`"task_time":"1h"`)
	for kind, want := range map[string]string{"power on": "done", "boot device": "done", "wipe": "running", "write": "running"} {
		if got := m.do(kind, kind); got != want {
			t.Errorf("%s is %s, want %s", kind, got, want)
		}
	}
}

func TestFailedTaskChangesNothing(t *testing.T) {
	m := newMachine(t)
	m.faults(`"fail_task":1`)
	if got := m.do("power on", "r"); got != "failed" || m.show().PowerState != "power off" {
		t.Errorf("task is %s on a machine in %s", got, m.show().PowerState)
	}
	if got := m.Effects(); len(got) != 1 {
		t.Errorf("effects %q, want what the machine began", got)
	}
}

func TestMachineThatForgotCannotTell(t *testing.T) {
	m := newMachine(t)
	if got := m.outcome("never"); got != "none" {
		t.Errorf("request that never came is %s, want none", got)
	}
	m.do("wipe", "before")
	m.ForgetTasks()
	m.do("wipe", "after")
	for request, want := range map[string]string{"before": "unknown", "never": "unknown", "after": "done"} {
		if got := m.outcome(request); got != want {
			t.Errorf("request %s is %s, want %s", request, got, want)
		}
	}
	m.call("POST", "/forget-tasks", "", nil)
	if got := m.outcome("after"); got != "unknown" {
		t.Errorf("after all machines forgot, the request is %s, want unknown", got)
	}
}

func TestForgottenTaskStillTakesEffect(t *testing.T) {
	m := newMachine(t)
	m.faults(`"task_time":"1h","only":["power on"]`)
	m.do("power on", "r")
	m.ForgetTasks()
	m.EndTasks()
	if got := m.outcome("r"); got != "unknown" || m.show().PowerState != "power on" {
		t.Errorf("task is %s on a machine in %s, want it unknown and on", got, m.show().PowerState)
	}
}

func TestListOfTasksIsBounded(t *testing.T) {
	m := newMachine(t)
	for i := range 100 {
		m.do("nmi", fmt.Sprint(i))
	}
	if got := len(m.show().Tasks); got != 64 {
		t.Errorf("%d tasks, want 64", got)
	}
	for request, want := range map[string]string{"0": "unknown", "99": "done"} {
		if got := m.outcome(request); got != want {
			t.Errorf("request %s is %s, want %s", request, got, want)
		}
	}
}

func TestOwnFaultsReplaceThoseForAll(t *testing.T) {
	m := newMachine(t, func(o *effect.Options) { o.Faults.Refuse = 1 })
	refused := func(machine string) bool {
		status, _ := m.try("POST", "/machines/"+machine+"/effects", `{"kind":"nmi"}`)
		return status == 409
	}
	if !refused("m1") || !refused("m2") {
		t.Error("the faults for all spare a machine")
	}
	m.faults("")
	if refused("m1") || !refused("m2") {
		t.Error("the machine's own faults concern others, or not itself")
	}
	m.call("DELETE", "/machines/m1/faults", "", nil)
	if !refused("m1") {
		t.Error("the faults for all do not come back")
	}
	m.call("PUT", "/faults", `{"refuse":"0%"}`, nil)
	if refused("m1") || refused("m2") {
		t.Error("the faults for all do not end")
	}
}

func TestChanceIsDrawnForEachCall(t *testing.T) {
	m := newMachine(t, func(o *effect.Options) { o.Seed = 1 })
	m.faults(`"refuse":"25%"`)
	refused := 0
	for range 400 {
		if status, _ := m.try("POST", "/machines/m1/effects", `{"kind":"nmi"}`); status == 409 {
			refused++
		}
	}
	if refused < 60 || refused > 140 || len(m.log()) != 400-refused {
		t.Errorf("%d of 400 calls were refused and %d had an effect, want about 100 and the rest", refused, len(m.log()))
	}
}

func TestAnswerTakesItsTime(t *testing.T) {
	m := newMachine(t)
	m.faults(`"delay":"20ms"`)
	begin := time.Now()
	m.do("nmi", "r")
	if took := time.Since(begin); took < 20*time.Millisecond {
		t.Errorf("the answer came after %s, want at least 20ms", took)
	}
}

func TestRequestsThatMeanNothingAreRefused(t *testing.T) {
	m := newMachine(t)
	for call, want := range map[string]struct {
		status int
		text   string
	}{
		`POST /machines/m1/effects {"kind":"explode"}`:           {400, "explode"},
		`POST /machines/m1/effects wipe`:                         {400, "read the body"},
		`PUT /faults {"reffuse":1}`:                              {400, "reffuse"},
		`PUT /faults {"refuse":2}`:                               {400, "chance"},
		`PUT /faults {"refuse":"-1%"}`:                           {400, "chance"},
		`PUT /faults {"delay":"soon"}`:                           {400, "300ms"},
		`PUT /faults {"only":["explode"]}`:                       {400, "explode"},
		`GET /machines/m1/tasks `:                                {400, "request"},
		`GET /effects?since=x `:                                  {400, "since"},
		`GET /machines/m9 `:                                      {404, "m9"},
		`GET /machines/m9/effects `:                              {404, "m9"},
		`DELETE /machines/m9/faults `:                            {404, "m9"},
		`PUT /faults {"x":"` + strings.Repeat("x", 1<<17) + `"}`: {413, "larger"},
	} {
		parts := strings.SplitN(call, " ", 3)
		if status, text := m.try(parts[0], parts[1], parts[2]); status != want.status || !strings.Contains(text, want.text) {
			t.Errorf("%.60s: status %d, %.200s; want %d with %q", call, status, text, want.status, want.text)
		}
	}
}
