package redfish_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// raidStep is a step of the RAID interface.
func raidStep(name string, args map[string]any) node.Step {
	return node.Step{Interface: "raid", Step: name, Args: args}
}

// raidMachine is a machine with four equal drives that is on and wants these disks.
func raidMachine(t *testing.T, vendor string, disks ...map[string]any) (*machine, redfish.Driver) {
	t.Helper()
	o := redfishtest.WithDrives(vendor, 4)
	o.Times = bmc.RealisticTimes()
	m, d := newMachine(t, vendor, o)
	isOn(m)
	m.Pass(10 * time.Minute)
	m.before = len(m.Server.Effects())
	m.wants(disks...)
	return m, d
}

func (m *machine) wants(disks ...map[string]any) {
	m.node.TargetRAIDConfig = node.ObjectOf(map[string]any{"logical_disks": disks})
}

// mirror and stripe are wanted disks.
func mirror() map[string]any {
	return map[string]any{"size_gb": 20, "raid_level": "1", "is_root_volume": true, "volume_name": "root"}
}

func stripe() map[string]any {
	return map[string]any{"size_gb": 30, "raid_level": "0", "number_of_physical_disks": 2, "volume_name": "data"}
}

// stepTurn makes turns of a RAID step, and stores in the node what they apply.
func (m *machine) stepTurn(d redfish.Driver, step node.Step) func(context.Context, driver.Turn) (driver.Outcome, error) {
	return func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		out, err := stepper(d, node.RAIDInterface).RunStep(ctx, m.node, driver.CleanSteps, step, turn)
		if err == nil && out.Apply != nil {
			out.Apply(m.node)
		}
		return out, err
	}
}

// names are the volumes of a machine, by their names.
func (m *machine) names() (all []string) {
	for _, v := range m.Volumes() {
		all = append(all, v.RAIDType+" "+v.Name)
	}
	return all
}

// restarts are the effects of a change, on a machine whose controller needs a restart.
func restarts(vendor string, changes ...string) []string {
	if vendor == "hpe" {
		return append(changes, "power off", "power on")
	}
	return changes
}

func TestVolumesAreMadeAndShown(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := raidMachine(t, vendor, stripe(), mirror())
		if phases, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
			t.Fatalf("%v after %q", err, phases)
		}
		if got, want := m.Effects(), restarts(vendor, "create volume", "create volume"); !slices.Equal(got, want) {
			t.Errorf("effects = %q, want %q", got, want)
		}
		if got := m.names(); !slices.Equal(got, []string{"RAID1 root", "RAID0 data"}) || m.Volumes()[0].Capacity != 20<<30 {
			t.Errorf("volumes = %q of %d bytes, want the root volume first, of 20 GiB", got, m.Volumes()[0].Capacity)
		}
		var shown []struct {
			Name   string   `json:"volume_name"`
			Level  string   `json:"raid_level"`
			Size   int      `json:"size_gb"`
			Drives []string `json:"physical_disks"`
		}
		if !m.node.RAIDConfig.Get("logical_disks", &shown) || len(shown) != 2 {
			t.Fatalf("raid_config = %s", m.node.RAIDConfig)
		}
		if got := shown[0]; got.Name != "root" || got.Level != "1" || got.Size != 20 || len(got.Drives) != 2 {
			t.Errorf("raid_config = %s, want the root volume", m.node.RAIDConfig)
		}
	})
}

// TestManyVolumesAreVerified has more volumes than a BMC may be asked for one by one.
func TestManyVolumesAreVerified(t *testing.T) {
	const many = 40
	disks := make([]map[string]any, many)
	for i := range disks {
		disks[i] = map[string]any{"size_gb": 1, "raid_level": "0", "share_physical_disks": true}
	}
	m, d := raidMachine(t, "hpe", disks...)
	if phases, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
		t.Fatalf("%v after %q", err, phases)
	}
	if got := len(m.made()); got != many || len(m.Volumes()) != many {
		t.Errorf("%d requests, %d volumes; want %d", got, len(m.Volumes()), many)
	}
}

func TestVolumesAreDeleted(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := raidMachine(t, vendor, stripe(), mirror())
		if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
			t.Fatal(err)
		}
		m.before = len(m.Server.Effects())
		for range 2 { // there is nothing left the second time
			if phases, err := run(m, m.stepTurn(d, raidStep("delete_configuration", nil))); err != nil {
				t.Fatalf("%v after %q", err, phases)
			}
		}
		if got, want := m.Effects(), restarts(vendor, "delete volume", "delete volume"); !slices.Equal(got, want) || len(m.Volumes()) != 0 {
			t.Errorf("effects = %q, volumes %q; want %q and none", got, m.names(), want)
		}
		if !m.node.RAIDConfig.IsEmpty() {
			t.Errorf("raid_config = %s, want none", m.node.RAIDConfig)
		}
	})
}

func TestVolumesOfBeforeMakeRoomForTheOnesOfADeployment(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := raidMachine(t, vendor, stripe())
		if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
			t.Fatal(err)
		}
		m.before = len(m.Server.Effects())
		config := map[string]any{"logical_disks": []any{map[string]any{"size_gb": "MAX", "raid_level": "1+0"}}}
		if phases, err := run(m, m.stepTurn(d, raidStep("apply_configuration", map[string]any{
			"raid_config": config, "create_nonroot_volumes": true, "delete_existing": true,
		}))); err != nil {
			t.Fatalf("%v after %q", err, phases)
		}
		want := slices.Concat(restarts(vendor, "delete volume"), restarts(vendor, "create volume"))
		if got := m.Effects(); !slices.Equal(got, want) {
			t.Errorf("effects = %q, want %q", got, want)
		}
		if got := m.Volumes(); len(got) != 1 || got[0].RAIDType != "RAID10" {
			t.Errorf("volumes = %+v, want the new one", got)
		}
	})
}

// TestVolumesStayUnlessTheNewOnesFit wants volumes of drives that are not there: before
// anything is deleted, or only after that.
func TestVolumesStayUnlessTheNewOnesFit(t *testing.T) {
	wrong := mirror()
	wrong["physical_disks"] = []any{"no-drive", "no-other"}
	m, d := raidMachine(t, "supermicro", stripe())
	if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
		t.Fatal(err)
	}
	m.before = len(m.Server.Effects())
	create := raidStep("create_configuration", map[string]any{"delete_existing": true})
	m.wants(wrong)
	_, err := run(m, m.stepTurn(d, create))
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") || len(m.Effects()) != 0 {
		t.Errorf("%v, effects %q; want that nothing was changed", err, m.Effects())
	}
	m.wants(mirror())
	do := m.stepTurn(d, create)
	_, err = run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		if len(m.Volumes()) == 0 {
			m.wants(wrong)
		}
		return do(ctx, turn)
	})
	if err == nil || !strings.Contains(err.Error(), "are deleted") || !slices.Equal(m.Effects(), []string{"delete volume"}) {
		t.Errorf("%v, effects %q; want that the volumes of before are deleted", err, m.Effects())
	}
}

// TestDeletedVolumesAreForgottenThoughTheNewOnesFail wants the deletion stored by the step itself,
// because the machine may be off when the engine reads it after the step.
func TestDeletedVolumesAreForgottenThoughTheNewOnesFail(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := raidMachine(t, vendor, stripe())
		if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
			t.Fatal(err)
		}
		if m.node.RAIDConfig.IsEmpty() {
			t.Fatal("the new volume is not stored")
		}
		m.wants(mirror())
		m.Fail(effect.Faults{FailTask: 1, Only: []string{"create volume"}})
		if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", map[string]any{"delete_existing": true}))); err == nil || len(m.Volumes()) != 0 {
			t.Fatalf("error = %v, volumes %q; want a failure after the deletion", err, m.names())
		}
		if !m.node.RAIDConfig.IsEmpty() {
			t.Errorf("raid_config = %s, want no volume", m.node.RAIDConfig)
		}
	})
}

func TestMachineThatIsOffIsOnWhileItsVolumesAreMade(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := raidMachine(t, vendor, mirror())
		if err := m.Reset(&bmc.Call{}, bmc.ResetForceOff); err != nil {
			t.Fatal(err)
		}
		m.Pass(time.Minute)
		m.before = len(m.Server.Effects())
		if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
			t.Fatal(err)
		}
		want := slices.Concat([]string{"power on"}, restarts(vendor, "create volume"), []string{"power off"})
		if got := m.Effects(); !slices.Equal(got, want) || m.Power() == bmc.On {
			t.Errorf("effects = %q, want %q", got, want)
		}
		if m.node.RAIDConfig.IsEmpty() {
			t.Error("the node has no raid_config")
		}
	})
}

// withoutImmediate has the controllers offer no work before a restart.
func (m *machine) withoutImmediate() {
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/Volumes") {
			bmc.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		bmc.ServeHTTP(answer, r)
		said(w, answer.Code, strings.ReplaceAll(answer.Body.String(), `"Immediate",`, ""))
	})
}

// TestScheduledJobsOfAControllerAreAppliedOneByOne has a controller whose jobs wait for a
// restart, and which takes no second one until then.
func TestScheduledJobsOfAControllerAreAppliedOneByOne(t *testing.T) {
	m, d := raidMachine(t, "dell", stripe(), mirror())
	m.withoutImmediate()
	for _, step := range []struct{ name, effect string }{{"create_configuration", "create volume"}, {"delete_configuration", "delete volume"}} {
		m.before = len(m.Server.Effects())
		if phases, err := run(m, m.stepTurn(d, raidStep(step.name, nil))); err != nil {
			t.Fatalf("%v after %q", err, phases)
		}
		want := []string{step.effect, "power off", "power on", step.effect, "power off", "power on"}
		if got := m.Effects(); !slices.Equal(got, want) {
			t.Errorf("%s: effects = %q, want %q", step.name, got, want)
		}
	}
}

// TestEachScheduledJobHasItsOwnTime has a machine that starts so slowly that its jobs take longer
// together than one may.
func TestEachScheduledJobHasItsOwnTime(t *testing.T) {
	const many = 12
	disks := make([]map[string]any, many)
	for i := range disks {
		disks[i] = map[string]any{"size_gb": 1, "raid_level": "0", "share_physical_disks": true}
	}
	o := redfishtest.WithDrives("dell", 4)
	o.Times = bmc.RealisticTimes()
	o.Times.POST = 12 * time.Minute
	m, d := newMachine(t, "dell", o)
	isOn(m)
	m.Pass(20 * time.Minute)
	m.wants(disks...)
	m.withoutImmediate()
	began := m.Now()
	if phases, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil || len(m.Volumes()) != many {
		t.Errorf("%v after %q, %d volumes; want %d", err, phases[len(phases)-1], len(m.Volumes()), many)
	}
	if took := m.Now().Sub(began); took < 2*time.Hour {
		t.Errorf("it took %s, which tests nothing", took)
	}
}

// TestVolumesAreDeletedAtOnceWhereThatCanBeAskedFor has a BMC whose deletions wait for a
// restart unless the request says something else, and one that takes no time with them.
func TestVolumesAreDeletedAtOnceWhereThatCanBeAskedFor(t *testing.T) {
	const name = "@Redfish.OperationApplyTime"
	for test, answer := range map[string]func(w http.ResponseWriter, r *http.Request, given bool, bmc http.Handler){
		"by default at a restart": func(w http.ResponseWriter, r *http.Request, given bool, bmc http.Handler) {
			if !given {
				r = r.Clone(r.Context())
				text := `{"` + name + `": "OnReset"}`
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
			}
			bmc.ServeHTTP(w, r)
		},
		"at no time of choice": func(w http.ResponseWriter, r *http.Request, given bool, bmc http.Handler) {
			if given {
				said(w, http.StatusBadRequest, `{"error": {"message": "see", "@Message.ExtendedInfo": [
					{"MessageId": "Base.1.12.PropertyUnknown", "MessageArgs": ["`+name+`"]}]}}`)
				return
			}
			bmc.ServeHTTP(w, r)
		},
	} {
		t.Run(test, func(t *testing.T) {
			m, d := raidMachine(t, "dell", mirror())
			if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
				t.Fatal(err)
			}
			m.before = len(m.Server.Effects())
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				if r.Method != http.MethodDelete || !strings.Contains(r.URL.Path, "/Volumes/") {
					bmc.ServeHTTP(w, r)
					return
				}
				text, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				r.Body = io.NopCloser(bytes.NewReader(text))
				answer(w, r, strings.Contains(string(text), name), bmc)
			})
			if phases, err := run(m, m.stepTurn(d, raidStep("delete_configuration", nil))); err != nil {
				t.Fatalf("%v after %q", err, phases)
			}
			if got := m.Effects(); !slices.Equal(got, []string{"delete volume"}) || len(m.Volumes()) != 0 {
				t.Errorf("effects = %q, volumes %q; want that the volume is deleted without a restart", got, m.names())
			}
		})
	}
}

// TestDeletionWithoutATimeOfChoiceMayNeedARestart has a BMC that takes no time with a deletion,
// deletes at the next restart and names no task.
func TestDeletionWithoutATimeOfChoiceMayNeedARestart(t *testing.T) {
	const name = "@Redfish.OperationApplyTime"
	m, d := raidMachine(t, "dell", mirror())
	if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
		t.Fatal(err)
	}
	m.before = len(m.Server.Effects())
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		switch {
		case r.Method != http.MethodDelete || !strings.Contains(r.URL.Path, "/Volumes/"):
			bmc.ServeHTTP(w, r)
		case r.ContentLength != 0:
			said(w, http.StatusBadRequest, `{"error": {"message": "see", "@Message.ExtendedInfo": [
				{"MessageId": "Base.1.12.PropertyUnknown", "MessageArgs": ["`+name+`"]}]}}`)
		default:
			text := `{"` + name + `": "OnReset"}`
			r = r.Clone(r.Context())
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
			bmc.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusNoContent)
		}
	})
	if phases, err := run(m, m.stepTurn(d, raidStep("delete_configuration", nil))); err != nil || len(m.Volumes()) != 0 {
		t.Errorf("%v after %q, volumes %q; want none after a restart", err, phases, m.names())
	}
}

// TestDeletionsAtARestartWithoutATimeOfChoiceWaitForOneRestart has a controller that deletes at the
// next restart only, and a BMC that takes no time with a deletion.
func TestDeletionsAtARestartWithoutATimeOfChoiceWaitForOneRestart(t *testing.T) {
	m, d := raidMachine(t, "hpe", mirror(), stripe())
	if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
		t.Fatal(err)
	}
	m.before = len(m.Server.Effects())
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/Volumes/") && r.ContentLength != 0 {
			said(w, http.StatusBadRequest, `{"error": {"message": "see", "@Message.ExtendedInfo": [
				{"MessageId": "Base.1.12.PropertyUnknown", "MessageArgs": ["@Redfish.OperationApplyTime"]}]}}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	phases, err := run(m, m.stepTurn(d, raidStep("delete_configuration", nil)))
	if err != nil {
		t.Fatalf("%v after %q", err, phases)
	}
	if got := m.Effects(); !slices.Equal(got, []string{"delete volume", "delete volume", "power off", "power on"}) {
		t.Errorf("effects = %q, want one restart for both deletions", got)
	}
	if waits := len(slices.DeleteFunc(phases, func(phase string) bool { return phase != "follow" })); waits != 2 {
		t.Errorf("each deletion was waited for: %d turns", waits)
	}
}

// TestTaskInTheAnswerToADeletionIsFollowed has a BMC that names the task there alone.
func TestTaskInTheAnswerToADeletionIsFollowed(t *testing.T) {
	m, d := raidMachine(t, "dell", mirror())
	if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
		t.Fatal(err)
	}
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if r.Method != http.MethodDelete {
			bmc.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		bmc.ServeHTTP(answer, r)
		said(w, answer.Code, `{"@odata.id": "`+strings.Replace(answer.Header().Get("Location"), "/TaskMonitors/", "/Tasks/", 1)+`"}`)
	})
	m.Fail(effect.Faults{FailTask: 1, Only: []string{"delete volume"}})
	_, err := run(m, m.stepTurn(d, raidStep("delete_configuration", nil)))
	if err == nil || !strings.Contains(err.Error(), "the BMC says: Exception") {
		t.Errorf("error = %v, want what the task says", err)
	}
}

func TestControllerThatFailsFailsTheStep(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		for name, fault := range map[string]effect.Faults{"a task that fails": {FailTask: 1}, "a lie": {Lie: 1}} {
			m, d := raidMachine(t, vendor, mirror())
			fault.Only = []string{"create volume"}
			m.Fail(fault)
			_, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil)))
			var failure *node.DriverError
			if !errors.As(err, &failure) || failure.Retryable || len(m.Volumes()) != 0 {
				t.Errorf("%s: %v, want a final failure", name, err)
			}
		}
	})
}

func TestRAIDStepRefusesWhatItCannotDo(t *testing.T) {
	m, d := raidMachine(t, "dell")
	m.wants(stripe())
	for name, step := range map[string]node.Step{
		"no root volume":      raidStep("create_configuration", map[string]any{"create_nonroot_volumes": false}),
		"no configuration":    raidStep("apply_configuration", nil),
		"drives without RAID": raidStep("apply_configuration", map[string]any{"raid_config": map[string]any{"logical_disks": []any{mirror(), map[string]any{"size_gb": "MAX", "raid_level": "JBOD"}}}}),
		"more than there is":  raidStep("apply_configuration", map[string]any{"raid_config": map[string]any{"logical_disks": []any{map[string]any{"size_gb": 1 << 20, "raid_level": "1"}}}}),
	} {
		_, err := run(m, m.stepTurn(d, step))
		var invalid *node.ValidationError
		var failure *node.DriverError
		if !errors.As(err, &invalid) && (!errors.As(err, &failure) || failure.Retryable) || len(m.Effects()) != 0 {
			t.Errorf("%s: %v, effects %q; want a final error and none", name, err, m.Effects())
		}
	}
}

// TestApplyConfigurationKeepsWhatIsThere has no arguments but the configuration: Ironic
// then deletes nothing, and makes the root volume alone.
func TestApplyConfigurationKeepsWhatIsThere(t *testing.T) {
	m, d := raidMachine(t, "supermicro", stripe())
	if _, err := run(m, m.stepTurn(d, raidStep("create_configuration", nil))); err != nil {
		t.Fatal(err)
	}
	m.before = len(m.Server.Effects())
	data := stripe()
	data["volume_name"] = "more"
	config := map[string]any{"logical_disks": []any{mirror(), data}}
	if phases, err := run(m, m.stepTurn(d, raidStep("apply_configuration", map[string]any{"raid_config": config}))); err != nil {
		t.Fatalf("%v after %q", err, phases)
	}
	if got := m.Effects(); !slices.Equal(got, []string{"create volume"}) || !slices.Equal(m.names(), []string{"RAID0 data", "RAID1 root"}) {
		t.Errorf("effects = %q, volumes %q; want the root volume in addition", got, m.names())
	}
}

func TestRAIDArgumentThatIsNeitherTrueNorFalseIsRefused(t *testing.T) {
	m, d := raidMachine(t, "dell", mirror())
	config := map[string]any{"logical_disks": []any{mirror()}}
	for _, name := range []string{"create_root_volume", "create_nonroot_volumes", "delete_existing"} {
		for _, step := range []node.Step{
			raidStep("create_configuration", map[string]any{name: "false"}),
			raidStep("apply_configuration", map[string]any{name: 0.0, "raid_config": config}),
			raidStep("create_configuration", map[string]any{name: nil}),
		} {
			_, err := run(m, m.stepTurn(d, step))
			var invalid *node.ValidationError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), name) || len(m.Effects()) != 0 {
				t.Errorf("%s with %v: %v, effects %q; want that it is refused", step.Step, step.Args[name], err, m.Effects())
			}
		}
	}
}

func TestVolumesAreRead(t *testing.T) {
	m, d := raidMachine(t, "supermicro")
	raid := d.Interfaces()[node.RAIDInterface].(driver.RAID)
	if config, err := raid.RAIDConfig(t.Context(), m.node); err != nil || !config.IsEmpty() {
		t.Errorf("without volumes: %s, %v", config, err)
	}
	if _, _, err := m.CreateVolume(&bmc.Call{}, bmc.Volume{Name: "a", RAIDType: "RAID0", Drives: []int{0}, Capacity: 7 << 30}, ""); err != nil {
		t.Fatal(err)
	}
	config, err := raid.RAIDConfig(t.Context(), m.node)
	want := `{"logical_disks":[{"controller":"1","id":"1","physical_disks":["1"],"raid_level":"0","size_gb":7,"volume_name":"a"}]}`
	if diff := cmp.Diff(want, string(config)); err != nil || diff != "" {
		t.Errorf("%v, config (-want +got):\n%s", err, diff)
	}
}
