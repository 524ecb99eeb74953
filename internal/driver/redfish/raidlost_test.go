package redfish_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// TestVolumesAreMadeOnceWhateverIsLost loses the outcome of each turn once: the process
// died before it was stored.
func TestVolumesAreMadeOnceWhateverIsLost(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		for lost := 0; ; lost++ {
			m, d := raidMachine(t, vendor, stripe(), mirror())
			do := m.stepTurn(d, raidStep("create_configuration", nil))
			turn, turns := driver.Turn{}, 0
			for ; ; turns++ {
				out, err := do(t.Context(), turn)
				if err != nil {
					t.Fatalf("outcome of turn %d lost, attempt %q in phase %q: %v", lost, turn.Attempt, turn.Phase, err)
				}
				if turns == lost {
					turn.Attempt = driver.Unknown
					continue
				}
				if out.Done() {
					break
				}
				m.Pass(max(out.Again, out.Park))
				turn = drivertest.After(turn, out)
			}
			if got := len(m.made()); got != 2 || len(m.Volumes()) != 2 {
				t.Fatalf("outcome of turn %d lost: effects %q, volumes %q; want two", lost, m.Effects(), m.names())
			}
			if lost >= turns {
				return
			}
		}
	})
}

// made are those effects that made volumes.
func (m *machine) made() []string {
	return slices.DeleteFunc(slices.Clone(m.Effects()), func(kind string) bool { return kind != "create volume" })
}

// all is a wanted disk that leaves no room on its drives.
func all() map[string]any { return map[string]any{"size_gb": "MAX", "raid_level": "0"} }

// toRequest makes the turns of a step up to the request of its first volume, and returns the turn
// that makes that request.
func (m *machine) toRequest(do func(context.Context, driver.Turn) (driver.Outcome, error)) (turn driver.Turn) {
	m.t.Helper()
	for turn.Phase != "send" {
		out, err := do(m.t.Context(), turn)
		if err != nil || out.Done() {
			m.t.Fatalf("outcome = %+v, %v, want that a request follows", out, err)
		}
		m.Pass(max(out.Again, out.Park))
		turn = drivertest.After(turn, out)
	}
	return turn
}

// losing makes the turns of a step up to the request of its first volume, whose outcome is
// lost by a fault, and returns the turn that follows.
func (m *machine) losing(do func(context.Context, driver.Turn) (driver.Outcome, error), fault effect.Faults) driver.Turn {
	m.t.Helper()
	turn := m.toRequest(do)
	fault.Only = []string{"create volume"}
	m.Fail(fault)
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Second)
	defer cancel()
	var failure *node.DriverError
	if _, err := do(ctx, turn); !errors.As(err, &failure) || failure.Refused {
		m.t.Fatalf("error = %v, want one whose outcome is unknown", err)
	}
	m.Heal()
	m.before = len(m.Server.Effects())
	turn.Attempt = driver.Unknown
	return turn
}

// goOn makes the turns that follow one, until the step ends or fails, and returns how long
// the step had taken when it made a volume.
func (m *machine) goOn(do func(context.Context, driver.Turn) (driver.Outcome, error), turn driver.Turn) (made time.Duration, err error) {
	m.t.Helper()
	for {
		out, err := do(m.t.Context(), turn)
		if made == 0 && len(m.made()) > 0 {
			made = turn.Elapsed
		}
		if err != nil || out.Done() {
			return made, err
		}
		m.Pass(max(out.Again, out.Park))
		turn = drivertest.After(turn, out)
	}
}

func TestLoginThatFailsBeforeARequestLeavesItsOutcomeKnown(t *testing.T) {
	m, d := raidMachine(t, "dell", all())
	do := m.stepTurn(d, raidStep("create_configuration", nil))
	turn := m.toRequest(do)
	m.info(map[string]any{"redfish_password": "not-this-one"})
	var failure *node.DriverError
	if _, err := do(t.Context(), turn); !errors.As(err, &failure) || !failure.Retryable || !failure.Refused {
		t.Errorf("error = %v, want a temporary refusal: nothing was requested", err)
	}
}

func isUnknown(err error) bool { return err != nil && strings.Contains(err.Error(), "outcome unknown") }

// TestRequestWhoseAnswerIsLostIsLookedFor loses the answer, or the request, of a volume.
// Where a second volume would have room, or the BMC has no tasks by which it could tell,
// nothing is requested again but behind a restart.
func TestRequestWhoseAnswerIsLostIsLookedFor(t *testing.T) {
	answer, request := effect.Faults{LoseAnswer: 1}, effect.Faults{Error: 1}
	again := map[string]int{"dell": 1, "supermicro": 1, "hpe": 1}
	onlyBehindARestart := map[string]int{"hpe": 1}
	for name, test := range map[string]struct {
		fault    effect.Faults
		disk     map[string]any
		tasks    bool
		repeated map[string]int // by vendor
		unknown  bool           // where it is not repeated
	}{
		"the answer":                     {answer, mirror(), true, nil, false},
		"the request":                    {request, all(), true, again, false},
		"the request, without tasks":     {request, all(), false, onlyBehindARestart, true},
		"the request of a volume's size": {request, mirror(), true, onlyBehindARestart, true},
	} {
		t.Run(name, func(t *testing.T) {
			eachVendor(t, func(t *testing.T, vendor string) {
				t.Helper()
				m, d := raidMachine(t, vendor, test.disk)
				if test.tasks {
					hasTask(m)
				}
				do := m.stepTurn(d, raidStep("create_configuration", nil))
				at, err := m.goOn(do, m.losing(do, test.fault))
				want := test.repeated[vendor]
				if test.unknown && want == 0 {
					if !isUnknown(err) || len(m.made()) != 0 {
						t.Errorf("%v, effects %q; want no more requests and that the outcome is unknown", err, m.Effects())
					}
					return
				}
				if err != nil || len(m.made()) != want || len(m.Volumes()) != 1 {
					t.Errorf("%v, effects %q, volumes %q; want %d more requests and one volume", err, m.Effects(), m.names(), want)
				}
				if vendor == "hpe" && want > 0 && at < 20*time.Minute {
					t.Errorf("the request was repeated after %s, while the restarted machine may still show it", at)
				}
			})
		})
	}
}

// TestVolumeTooManyFailsTheStep has a request that comes a second time.
func TestVolumeTooManyFailsTheStep(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := raidMachine(t, vendor, mirror())
		do := m.stepTurn(d, raidStep("create_configuration", nil))
		twice := false
		_, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
			if turn.Phase == "follow" && !twice {
				twice = true
				if _, _, err := m.CreateVolume(&bmc.Call{}, bmc.Volume{RAIDType: "RAID0", Drives: []int{len(m.Hardware().Inspection.Inventory.Disks) - 1}, Capacity: 1 << 30}, ""); err != nil {
					t.Fatal(err)
				}
			}
			return do(ctx, turn)
		})
		var failure *node.DriverError
		if !errors.As(err, &failure) || failure.Retryable || !strings.Contains(err.Error(), "2 RAID volumes") {
			t.Errorf("error = %v, volumes %q; want a failure that counts them", err, m.names())
		}
	})
}

// TestTaskOfSomebodyElseIsNotBelieved has a new task that is not that of the lost request.
func TestTaskOfSomebodyElseIsNotBelieved(t *testing.T) {
	for name, fault := range map[string]effect.Faults{"ends": {}, "fails": {FailTask: 1}} {
		t.Run(name, func(t *testing.T) {
			m, d := raidMachine(t, "dell", mirror())
			do := m.stepTurn(d, raidStep("create_configuration", nil))
			turn := m.losing(do, effect.Faults{Error: 1})
			fault.Only = []string{"flash"}
			m.Fail(fault)
			if _, err := m.Update(t.Context(), &bmc.Call{}, redfishtest.Serve(t, "ingot-firmware component=bios version=9.9.9"), "bios"); err != nil {
				t.Fatal(err)
			}
			if _, err := m.goOn(do, turn); !isUnknown(err) || len(m.made()) != 0 {
				t.Errorf("error = %v, effects %q; want that the outcome is unknown", err, m.Effects())
			}
		})
	}
}

// shows is what a BMC shows of its volumes and tasks, other than there is.
type shows struct {
	volumes atomic.Bool // false: none
	working atomic.Bool // its tasks
	onReset bool        // it does nothing before a restart
}

func (s *shows) answer(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
	path := strings.TrimRight(r.URL.Path, "/")
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(path, "/Volumes"):
		answer := httptest.NewRecorder()
		bmc.ServeHTTP(answer, r)
		var document map[string]any
		if err := json.Unmarshal(answer.Body.Bytes(), &document); err != nil {
			said(w, http.StatusInternalServerError, `{}`)
			return
		}
		if !s.volumes.Load() {
			document["Members"] = []any{}
		}
		if s.onReset {
			document["@Redfish.OperationApplyTimeSupport"] = map[string]any{"SupportedValues": []string{"OnReset"}}
		}
		text, _ := json.Marshal(document) // it came from JSON
		said(w, answer.Code, string(text))
	case s.working.Load() && strings.Contains(path, "/JID_"):
		said(w, http.StatusAccepted, `{"@odata.id": "`+path+`", "TaskState": "Running"}`)
	default:
		bmc.ServeHTTP(w, r)
	}
}

// TestVolumeMayAppearAfterALongTask has a task that takes longer than a volume may take to
// appear, and a volume that appears some turns after its end.
func TestVolumeMayAppearAfterALongTask(t *testing.T) {
	for name, phase := range map[string]string{"while the machine runs": "follow", "after a restart": "verify"} {
		t.Run(name, func(t *testing.T) {
			m, d := raidMachine(t, "dell", mirror())
			shown := &shows{onReset: phase == "verify"}
			m.behind(shown.answer)
			do := m.stepTurn(d, raidStep("create_configuration", nil))
			var began time.Duration
			after := 0
			_, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				if turn.Phase == phase && began == 0 {
					began = turn.Elapsed
				}
				shown.working.Store(began > 0 && turn.Elapsed < began+time.Hour)
				if began > 0 && !shown.working.Load() {
					after++
				}
				shown.volumes.Store(after > 3)
				return do(ctx, turn)
			})
			if err != nil || after <= 3 || len(m.made()) != 1 {
				t.Errorf("%v after %d turns behind the task, effects %q; want the volume", err, after, m.Effects())
			}
		})
	}
}

// TestVolumeThatIsShownIsNotDoneWhileItsTaskRuns has a restarted machine that shows a volume
// an hour before the task of that ends.
func TestVolumeThatIsShownIsNotDoneWhileItsTaskRuns(t *testing.T) {
	m, d := raidMachine(t, "dell", mirror())
	shown := &shows{onReset: true}
	shown.volumes.Store(true)
	m.behind(shown.answer)
	do := m.stepTurn(d, raidStep("create_configuration", nil))
	var restarted, ended time.Duration
	_, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		if turn.Phase == "verify" && restarted == 0 {
			restarted = turn.Elapsed
		}
		shown.working.Store(restarted > 0 && turn.Elapsed < restarted+time.Hour)
		ended = turn.Elapsed
		return do(ctx, turn)
	})
	if err != nil || restarted == 0 || ended < restarted+time.Hour || len(m.made()) != 1 {
		t.Errorf("%v, restarted after %s, ended after %s; want that its task ends first", err, restarted, ended)
	}
}

// TestDriveThatIsShownAsAVolumeIsNoneOfItsController has a BMC that shows a drive without RAID
// as a volume of its own, and makes none when it is asked for one of that drive.
func TestDriveThatIsShownAsAVolumeIsNoneOfItsController(t *testing.T) {
	m, d := raidMachine(t, "supermicro", map[string]any{"size_gb": 20, "raid_level": "0"})
	var drive atomic.Pointer[string] // that the request names
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		switch path := strings.TrimRight(r.URL.Path, "/"); {
		case r.Method == http.MethodPost && strings.HasSuffix(path, "/Volumes"):
			var body struct {
				Links struct {
					Drives []struct {
						ID string `json:"@odata.id"`
					}
				}
			}
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Links.Drives) != 1 {
				t.Errorf("%v, drives %v, want one", err, body.Links.Drives)
				return
			}
			drive.Store(&body.Links.Drives[0].ID)
			w.WriteHeader(http.StatusNoContent)
		case drive.Load() != nil && strings.HasSuffix(path, "/Volumes"):
			said(w, http.StatusOK, `{"Members": [{"@odata.id": "`+path+`/drive"}], "@Redfish.OperationApplyTimeSupport": {"SupportedValues": ["Immediate"]}}`)
		case strings.HasSuffix(path, "/Volumes/drive"):
			said(w, http.StatusOK, `{"Id": "drive", "RAIDType": "None", "Links": {"Drives": [{"@odata.id": "`+*drive.Load()+`"}]}}`)
		default:
			bmc.ServeHTTP(w, r)
		}
	})
	_, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil)))
	if err == nil || !strings.Contains(err.Error(), "does not show it") {
		t.Errorf("error = %v, want that the volume is not shown", err)
	}
}

// TestRequestsOfAnEarlierReleaseAreNotSentAgain goes on with a record without the remark that
// requests were sent, from each turn on.
func TestRequestsOfAnEarlierReleaseAreNotSentAgain(t *testing.T) {
	for old := 0; ; old++ {
		m, d := raidMachine(t, "hpe", stripe(), mirror())
		do, turns := m.stepTurn(d, raidStep("create_configuration", nil)), 0
		_, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
			if turns++; turns == old {
				turn.Handle = strings.ReplaceAll(turn.Handle, `"sent":true`, `"sent":false`)
			}
			return do(ctx, turn)
		})
		if err != nil || len(m.made()) != 2 || len(m.Volumes()) != 2 {
			t.Fatalf("turn %d: %v, effects %q, volumes %q; want two", old, err, m.Effects(), m.names())
		}
		if old > turns {
			return
		}
	}
}
