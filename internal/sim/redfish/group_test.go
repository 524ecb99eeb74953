package redfish_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

func TestUpdateNamesOneOfSeveralSystems(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			s := redfishtest.Start(t, vendor, redfishtest.Options{Systems: 2, Times: bmc.Times{BMCRestart: time.Minute}})
			file := redfishtest.Serve(t, "ingot-firmware component=bmc version=9.9")
			const action = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate"
			if status, text, _ := call(t, s, "POST", action, `{"ImageURI":"`+file+`"}`); status != 400 || !strings.Contains(text, "Targets") {
				t.Errorf("without Targets: status %d, %s", status, text)
			}
			if status, text, _ := call(t, s, "POST", action, `{"ImageURI":"`+file+`","Targets":["`+s.SystemPath(1)+`"]}`); status >= 300 {
				t.Fatalf("status %d, %s", status, text)
			}
			if first, second := s.EffectsOf("m1"), s.EffectsOf("m2"); len(first) != 0 || len(second) != 1 || second[0] != "flash" {
				t.Errorf("effects %q and %q", first, second)
			}
			if _, err := s.Client().Get(s.URL + "/redfish/v1"); err == nil {
				t.Error("the BMC answers for one system while it restarts for another")
			}
		})
	}
}

func TestSessionsAreOfTheWholeBMC(t *testing.T) {
	s := redfishtest.Start(t, "dell", redfishtest.Options{Systems: 3})
	status, _, header := call(t, s, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName":"`+redfishtest.User+`","Password":"`+redfishtest.Password+`"}`)
	if status != http.StatusCreated {
		t.Fatalf("status %d", status)
	}
	for i := range 3 {
		if status, _, _ := call(t, s, "GET", s.SystemPath(i), "", "X-Auth-Token", header.Get("X-Auth-Token")); status != http.StatusOK {
			t.Errorf("system %d with the session: status %d", i, status)
		}
	}
}

func TestTasksAndFirmwareOfAllSystemsAreListed(t *testing.T) {
	s := redfishtest.Start(t, "dell", redfishtest.Options{Systems: 2})
	for i, file := range []string{"bios", "bios"} {
		url := redfishtest.Serve(t, "ingot-firmware component="+file+" version=9.9")
		if _, err := s.Systems[i].Update(t.Context(), &bmc.Call{}, url, ""); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]int{"/redfish/v1/TaskService/Tasks": 2, "/redfish/v1/UpdateService/FirmwareInventory": len(s.Systems[0].Components()) + len(s.Systems[1].Components())} {
		_, text, _ := call(t, s, "GET", path, "")
		var list struct {
			Members []struct {
				ID string `json:"@odata.id"`
			}
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Members) != want {
			t.Errorf("%s: %v, %s, want %d members", path, err, text, want)
		}
		for _, member := range list.Members {
			if status, _, _ := call(t, s, "GET", member.ID, ""); status != http.StatusOK {
				t.Errorf("%s: status %d", member.ID, status)
			}
		}
	}
}
