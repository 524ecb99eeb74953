package redfish_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// update begins an update from a file with this text.
func update(t *testing.T, client *gofish.APIClient, text string) *schemas.TaskMonitorInfo {
	t.Helper()
	service, err := client.Service.UpdateService()
	if err != nil {
		t.Fatal(err)
	}
	monitor, err := service.SimpleUpdate(&schemas.UpdateServiceSimpleUpdateParameters{ImageURI: redfishtest.Serve(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	return monitor
}

// taskState is the state of the only task.
func taskState(t *testing.T, client *gofish.APIClient) schemas.TaskState {
	t.Helper()
	service, err := client.Service.Tasks()
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := service.Tasks()
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%d tasks, %v, want one", len(tasks), err)
	}
	return tasks[0].TaskState
}

// hpeState is the state of the newest update of an HPE machine.
func hpeState(t *testing.T, s *redfishtest.Server) string {
	t.Helper()
	_, text, _ := call(t, s, "GET", "/redfish/v1/UpdateService/", "")
	_, after, _ := strings.Cut(text, `"State":"`)
	state, _, _ := strings.Cut(after, `"`)
	return state
}

func TestBIOSUpdateWaitsForABoot(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := redfishtest.Start(t, vendor, redfishtest.Options{Times: bmc.Times{Flash: 3 * time.Minute, POST: time.Minute}})
			client := connect(t, s)
			before := system(t, client).BiosVersion
			monitor := update(t, client, "ingot-firmware component=bios version=9.19.1\n")
			if (monitor == nil) != (vendor == "hpe") {
				t.Errorf("task monitor %v", monitor)
			}
			s.Pass(20 * time.Minute)
			if got := system(t, client).BiosVersion; got != before {
				t.Errorf("BIOS version is %s before a boot", got)
			}
			if vendor == "hpe" {
				if got := hpeState(t, s); got != "Complete" {
					t.Errorf("state %s before a boot", got)
				}
			}
			power(t, s, bmc.ResetOn)
			s.Pass(3*time.Minute - time.Second)
			if got := taskState(t, client); got != schemas.RunningTaskState {
				t.Errorf("task is %s while the BIOS is written", got)
			}
			s.Pass(time.Second)
			if got := system(t, client).BiosVersion; got != "9.19.1" || s.InPOST() != true {
				t.Errorf("BIOS version is %s after the update, POST %v", got, s.InPOST())
			}
			if got := taskState(t, client); got != schemas.CompletedTaskState {
				t.Errorf("task is %s", got)
			}
			if monitor != nil {
				if status, text, _ := call(t, s, "GET", monitor.TaskMonitor, ""); status != 200 {
					t.Errorf("monitor %s: status %d, %s", monitor.TaskMonitor, status, text)
				}
			}
		})
	}
}

func TestBMCIsUnreachableAfterItsUpdateAndForgetsSessions(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := redfishtest.Start(t, vendor, redfishtest.Options{Times: bmc.Times{Flash: time.Minute, BMCRestart: 4 * time.Minute}})
			client := connect(t, s)
			update(t, client, "ingot-firmware component=bmc version=9.1")
			if got := taskState(t, client); got != schemas.RunningTaskState {
				t.Errorf("task is %s at its start", got)
			}
			s.Pass(time.Minute)
			if _, err := client.Get("/redfish/v1"); err == nil || statusOf(err) != 0 {
				t.Errorf("during its restart: %v, want no answer", err)
			}
			s.Pass(4 * time.Minute)
			if _, err := client.Get("/redfish/v1/Managers"); statusOf(err) != 401 {
				t.Errorf("session of before: %v, want status 401", err)
			}
			managers, err := connect(t, s).Service.Managers()
			if err != nil || managers[0].FirmwareVersion != "9.1" {
				t.Errorf("managers %v, %v, want the new version", managers, err)
			}
		})
	}
}

func TestNetworkAdaptersAreUpdated(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := redfishtest.Start(t, vendor)
			client := connect(t, s)
			update(t, client, "ingot-firmware component=nic version=30.1")
			power(t, s, bmc.ResetOn)
			chassis, err := client.Service.Chassis()
			if err != nil {
				t.Fatal(err)
			}
			adapters, err := chassis[0].NetworkAdapters()
			if err != nil || len(adapters) == 0 {
				t.Fatalf("adapters %v, %v", adapters, err)
			}
			for _, a := range adapters {
				if got := a.Controllers[0].FirmwarePackageVersion; got != "30.1" {
					t.Errorf("adapter %s has version %s", a.ID, got)
				}
			}
		})
	}
}

func TestFileThatIsNoFirmwareFailsTheTask(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			for _, text := range []string{"MZ\x90", "ingot-firmware component=gpu version=1", "ingot-firmware component=bios version=1" + strings.Repeat(" ", 8<<10)} {
				s := redfishtest.Start(t, vendor)
				client := connect(t, s)
				update(t, client, text)
				if got := taskState(t, client); got != schemas.ExceptionTaskState {
					t.Errorf("%.50q: task is %s", text, got)
				}
				if vendor == "hpe" && hpeState(t, s) != "Error" {
					t.Errorf("%.50q: state is %s", text, hpeState(t, s))
				}
			}
		})
	}
}

func TestUpdateFailsWhenItIsToldTo(t *testing.T) {
	s := redfishtest.Start(t, "dell")
	client := connect(t, s)
	s.Fail(effect.Faults{FailTask: 1, TaskTime: effect.Duration(time.Hour), Only: []string{"flash"}})
	update(t, client, "ingot-firmware component=bmc version=9.1")
	if got := taskState(t, client); got != schemas.RunningTaskState {
		t.Errorf("task is %s, want it to run for an hour", got)
	}
	s.EndTasks()
	if got := taskState(t, client); got != schemas.ExceptionTaskState {
		t.Errorf("task is %s, want it failed", got)
	}
	s.ForgetTasks()
	if len(s.Tasks()) != 0 {
		t.Errorf("tasks %v, want none", s.Tasks())
	}
}

// waitForCall returns when the BMC has logged a call, or when ctx ends.
func waitForCall(ctx context.Context, s *redfishtest.Server) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for ctx.Err() == nil && len(s.Recorder.Calls(0)) == 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func TestFaultsMeetCallsOverHTTP(t *testing.T) {
	const path = "/redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset"
	for name, test := range map[string]struct {
		faults  effect.Faults
		status  int // 0 for no answer
		effects int
		on      bool
	}{
		"refuse":      {effect.Faults{Refuse: 1}, http.StatusConflict, 0, false},
		"error":       {effect.Faults{Error: 1}, http.StatusInternalServerError, 0, false},
		"lie":         {effect.Faults{Lie: 1}, http.StatusNoContent, 0, false},
		"hang":        {effect.Faults{Hang: 1}, 0, 0, false},
		"lose answer": {effect.Faults{LoseAnswer: 1}, 0, 1, true},
		"unreachable": {effect.Faults{Unreachable: 1}, 0, 0, false},
		"fail task":   {effect.Faults{FailTask: 1}, http.StatusNoContent, 1, false},
		"others only": {effect.Faults{Refuse: 1, Only: []string{"flash"}}, http.StatusNoContent, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redfishtest.Start(t, "dell")
			s.Fail(test.faults)
			ctx, hangUp := context.WithTimeout(t.Context(), time.Minute)
			defer hangUp()
			if test.status == 0 {
				go func() {
					waitForCall(ctx, s)
					hangUp()
				}()
			}
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader(`{"ResetType":"On"}`))
			if err != nil {
				t.Fatal(err)
			}
			request.SetBasicAuth(redfishtest.User, redfishtest.Password)
			request.Header.Set("X-Request-Id", "req-7")
			status := 0
			if response, err := s.Client().Do(request); err == nil {
				status = response.StatusCode
				response.Body.Close()
			}
			s.Heal()
			if status != test.status || len(s.Effects()) != test.effects || (s.Power() == bmc.On) != test.on {
				t.Errorf("status %d, effects %v, power %s; want %d, %d, on %v", status, s.Effects(), s.Power(), test.status, test.effects, test.on)
			}
			calls := s.Recorder.Calls(0)
			if len(calls) != 1 || calls[0].User != redfishtest.User || calls[0].Client != "127.0.0.1" || calls[0].Request != "req-7" || calls[0].Kind != "power on" {
				t.Errorf("calls %+v, want one by %s", calls, redfishtest.User)
			}
			if name != "others only" && calls[0].Fault != name {
				t.Errorf("fault %q", calls[0].Fault)
			}
		})
	}
}

func TestReadsAreCountedAndRefusedByThemselves(t *testing.T) {
	s := redfishtest.Start(t, "hpe")
	s.Fail(effect.Faults{Refuse: 1, Only: []string{"read"}})
	if status, text, header := call(t, s, "GET", "/redfish/v1/Systems/1/", ""); status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("status %d, %s", status, text)
	}
	if status, text, _ := call(t, s, "POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset/", `{"ResetType":"On"}`); status != 200 {
		t.Errorf("status %d, %s", status, text)
	}
	if status, text, _ := call(t, s, "POST", "/redfish/v1/SessionService/Sessions/", `{"UserName":"operator","Password":"x"}`); status != 503 {
		t.Errorf("login: status %d, %s", status, text)
	}
	s.Heal()
	call(t, s, "GET", "/redfish/v1/Systems/1/", "")
	if got := s.Recorder.Reads(redfishtest.Name); got != 3 {
		t.Errorf("%d reads, want 3", got)
	}
}

func TestSupermicroAcceptsAnUpdateWithAMessageInsteadOfTheTask(t *testing.T) {
	s := redfishtest.Start(t, "supermicro")
	status, text, header := call(t, s, "POST", "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate",
		`{"ImageURI":"`+redfishtest.Serve(t, "ingot-firmware component=bios version=9.1")+`"}`)
	if status != 202 || header.Get("Location") != "/redfish/v1/TaskService/TaskMonitors/1" {
		t.Errorf("status %d, Location %q", status, header.Get("Location"))
	}
	for _, want := range []string{`{"Accepted":{`, `"SMC.1.0.OemSimpleupdateAcceptedMessage"`, `["/redfish/v1/TaskService/Tasks/1"]`} {
		if !strings.Contains(text, want) {
			t.Errorf("answer %s, want %s in it", text, want)
		}
	}
}
