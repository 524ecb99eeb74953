package redfish_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// power sends a reset, which must be accepted.
func power(t *testing.T, s *redfishtest.Server, kind bmc.ResetType) {
	t.Helper()
	if err := s.Reset(&bmc.Call{}, kind); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
}

// cdTarget is the boot target of the virtual CD of each vendor.
var cdTarget = map[string]schemas.BootSource{"dell": schemas.CdBootSource, "hpe": schemas.CdBootSource, "supermicro": "UsbCd"}

func TestBootOverrideIsUsedUpByOneBoot(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := redfishtest.Start(t, vendor)
			client := connect(t, s)
			mode := system(t, client).Boot.BootSourceOverrideMode
			boot := &schemas.Boot{
				BootSourceOverrideTarget: cdTarget[vendor], BootSourceOverrideEnabled: schemas.OnceBootSourceOverrideEnabled,
				BootSourceOverrideMode: mode,
			}
			if err := system(t, client).SetBoot(boot); err != nil {
				t.Fatal(err)
			}
			got := system(t, client).Boot
			if got.BootSourceOverrideTarget != cdTarget[vendor] || got.BootSourceOverrideEnabled != schemas.OnceBootSourceOverrideEnabled {
				t.Errorf("boot settings are %s %s", got.BootSourceOverrideTarget, got.BootSourceOverrideEnabled)
			}
			power(t, s, bmc.ResetOn)
			if got := system(t, client).Boot; got.BootSourceOverrideEnabled != schemas.DisabledBootSourceOverrideEnabled || s.Boots() != 1 {
				t.Errorf("after %d boots the override is %s, want it used up by one", s.Boots(), got.BootSourceOverrideEnabled)
			}
		})
	}
}

func TestBootSettingsAreRefusedAsTheVendorDoes(t *testing.T) {
	const once = `"BootSourceOverrideEnabled":"Once"`
	for name, test := range map[string]struct {
		vendor, body, tag string
		status            int
		text              string
	}{
		"without a tag":        {"supermicro", `{"BootSourceOverrideTarget":"Pxe",` + once + `,"BootSourceOverrideMode":"UEFI"}`, "", 428, "PreconditionRequired"},
		"with an old tag":      {"supermicro", `{"BootSourceOverrideTarget":"Pxe",` + once + `,"BootSourceOverrideMode":"UEFI"}`, `W/"1"`, 412, "PreconditionFailed"},
		"without the mode":     {"supermicro", `{"BootSourceOverrideTarget":"Pxe",` + once + `}`, "*", 400, "BootSourceOverrideMode"},
		"unknown target":       {"dell", `{"BootSourceOverrideTarget":"UsbCd"}`, "", 400, "UsbCd"},
		"unknown property":     {"dell", `{"BootTarget":"Pxe"}`, "", 400, "PropertyUnknown"},
		"wrong type":           {"dell", `{"BootSourceOverrideTarget":1}`, "", 400, "PropertyValueTypeError"},
		"continuous CD":        {"hpe", `{"BootSourceOverrideTarget":"Cd","BootSourceOverrideEnabled":"Continuous"}`, "", 400, "Continuous"},
		"other mode":           {"hpe", `{"BootSourceOverrideMode":"OTHER"}`, "", 400, "PropertyNotWritable"},
		"continuous on others": {"dell", `{"BootSourceOverrideTarget":"Cd","BootSourceOverrideEnabled":"Continuous"}`, "", 200, "Success"},
	} {
		t.Run(name, func(t *testing.T) {
			s := redfishtest.Start(t, test.vendor)
			path := "/redfish/v1/Systems/1"
			if test.vendor == "dell" {
				path = "/redfish/v1/Systems/System.Embedded.1"
			}
			other := "Legacy"
			if s.Override().Mode == bmc.Legacy {
				other = "UEFI"
			}
			headers := []string{}
			if test.tag != "" {
				headers = []string{"If-Match", test.tag}
			}
			body := strings.ReplaceAll(`{"Boot":`+test.body+`}`, "OTHER", other)
			status, text, _ := call(t, s, "PATCH", path, body, headers...)
			if status != test.status || !strings.Contains(text, test.text) {
				t.Errorf("status %d, %s; want %d with %q", status, text, test.status, test.text)
			}
			if done := len(s.Effects()); (done == 1) != (test.status == 200) {
				t.Errorf("%d effects", done)
			}
		})
	}
}

func TestBootSettingsCannotBeChangedDuringPOSTOnHPE(t *testing.T) {
	s := redfishtest.Start(t, "hpe", redfishtest.Options{Times: bmc.Times{POST: time.Minute}})
	power(t, s, bmc.ResetOn)
	change := func() (int, string) {
		status, text, _ := call(t, s, "PATCH", "/redfish/v1/Systems/1/", `{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once"}}`)
		return status, text
	}
	if status, text := change(); status != 400 || !strings.Contains(text, "iLO.2.14.UnableToModifyDuringSystemPOST") {
		t.Errorf("in POST: status %d, %s", status, text)
	}
	s.Pass(time.Minute)
	if status, text := change(); status != 200 {
		t.Errorf("after POST: status %d, %s", status, text)
	}
}

// attribute has an attribute of each vendor, with its default and another value.
var attribute = map[string][3]string{
	"dell":       {"LogicalProc", "Enabled", "Disabled"},
	"hpe":        {"ProcHyperthreading", "Enabled", "Disabled"},
	"supermicro": {"HyperThreadingALL", "Enable", "Disable"},
}

func TestBIOSAttributesChangeAtTheNextBoot(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := redfishtest.Start(t, vendor)
			client := connect(t, s)
			name, from, to := attribute[vendor][0], attribute[vendor][1], attribute[vendor][2]
			read := func() (*schemas.Bios, string) {
				bios, err := system(t, client).Bios()
				if err != nil {
					t.Fatal(err)
				}
				return bios, bios.Attributes.String(name)
			}
			bios, before := read()
			when := schemas.SettingsApplyTime("")
			if vendor == "dell" {
				when = schemas.OnResetSettingsApplyTime
			}
			if err := bios.UpdateBiosAttributesApplyAt(schemas.SettingsAttributes{name: to}, when); err != nil {
				t.Fatal(err)
			}
			if _, now := read(); before != from || now != from {
				t.Errorf("%s is %s and then %s before a boot, want %s", name, before, now, from)
			}
			if diff := cmp.Diff(map[string]any{name: to}, s.PendingBIOS()); diff != "" {
				t.Errorf("pending (-want +got):\n%s", diff)
			}
			power(t, s, bmc.ResetOn)
			if _, now := read(); now != to {
				t.Errorf("%s is %s after a boot, want %s", name, now, to)
			}
			if _, err := bios.ResetBios(); err != nil {
				t.Fatal(err)
			}
			power(t, s, bmc.ResetForceRestart)
			if _, now := read(); now != from {
				t.Errorf("%s is %s after a reset of the BIOS, want %s", name, now, from)
			}
		})
	}
}

func TestDellAppliesBIOSChangesInOneJobAtATime(t *testing.T) {
	s := redfishtest.Start(t, "dell")
	const path = "/redfish/v1/Systems/System.Embedded.1/Bios/Settings"
	plain := `{"Attributes":{"LogicalProc":"Disabled"}}`
	if status, _, header := call(t, s, "PATCH", path, plain); status != 200 || header.Get("Location") != "" {
		t.Errorf("without an apply time: status %d, %v", status, header)
	}
	power(t, s, bmc.ResetOn)
	if got := s.BIOS()["LogicalProc"]; got != "Enabled" {
		t.Errorf("without a job, the attribute is %v after a boot", got)
	}
	status, text, header := call(t, s, "PATCH", path, `{"@Redfish.SettingsApplyTime":{"ApplyTime":"OnReset"},"Attributes":{"SysProfile":"Custom"}}`)
	if status != 202 || !strings.Contains(header.Get("Location"), "/TaskService/TaskMonitors/JID_") {
		t.Fatalf("status %d, %s, %v", status, text, header)
	}
	if status, text, _ := call(t, s, "PATCH", path, plain); status != 400 || !strings.Contains(text, "SYS011") {
		t.Errorf("second change: status %d, %s", status, text)
	}
	state := func(want string) {
		t.Helper()
		if _, text, _ := call(t, s, "GET", header.Get("Location"), ""); !strings.Contains(text, want) {
			t.Errorf("task %s, want %s", text, want)
		}
	}
	state(`"JobState":"Scheduled"`)
	power(t, s, bmc.ResetForceRestart)
	state(`"JobState":"Completed"`)
	if got := s.BIOS(); got["LogicalProc"] != "Disabled" || got["SysProfile"] != "Custom" {
		t.Errorf("attributes %v, want both changes", got)
	}
}

func TestDellChangesSecureBootByTheJobOfTheBIOS(t *testing.T) {
	s := redfishtest.Start(t, "dell")
	const system = "/redfish/v1/Systems/System.Embedded.1"
	if status, _, _ := call(t, s, "PATCH", system+"/Bios/Settings", `{"Attributes":{"LogicalProc":"Disabled"}}`); status != 200 {
		t.Fatalf("attributes without an apply time: status %d", status)
	}
	enable := func() (int, string, string) {
		status, text, header := call(t, s, "PATCH", system+"/SecureBoot", `{"SecureBootEnable":true}`)
		return status, text, header.Get("Location")
	}
	status, text, job := enable()
	if status != 202 || !strings.Contains(job, "/TaskService/TaskMonitors/JID_") {
		t.Fatalf("status %d, %s, job %q", status, text, job)
	}
	if status, text, _ := enable(); status != 400 || !strings.Contains(text, "SYS011") {
		t.Errorf("second change: status %d, %s", status, text)
	}
	s.Fail(effect.Faults{FailTask: 1, Only: []string{"secure boot"}})
	power(t, s, bmc.ResetOn)
	if got := s.BIOS()["LogicalProc"]; got != "Disabled" || !s.SecureBoot().Current {
		t.Errorf("attribute %v, secure boot %+v, want both changes", got, s.SecureBoot())
	}
	if status, _, _ := call(t, s, "PATCH", system+"/SecureBoot", `{"SecureBootEnable":false}`); status != 202 {
		t.Fatalf("a job that will fail: status %d", status)
	}
	power(t, s, bmc.ResetForceRestart)
	if got := s.SecureBoot(); !got.Current || !got.Wanted {
		t.Errorf("after a job that failed, secure boot is %+v, want it as before", got)
	}
}

func TestBIOSAttributesAreRefusedByName(t *testing.T) {
	readOnly := map[string]string{"dell": "SystemModelName", "hpe": "ProductId", "supermicro": "BIOSVersion"}
	path := map[string]string{
		"dell": "/redfish/v1/Systems/System.Embedded.1/Bios/Settings", "hpe": "/redfish/v1/systems/1/bios/settings/",
		"supermicro": "/redfish/v1/Systems/1/Bios/SD",
	}
	path["hpe"] = "/redfish/v1/Systems/1/bios/settings/"
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := redfishtest.Start(t, vendor)
			for name, message := range map[string]string{"NoSuch": "PropertyUnknown", readOnly[vendor]: "PropertyNotWritable", attribute[vendor][0]: "PropertyValueNotInList"} {
				status, text, _ := call(t, s, "PATCH", path[vendor], `{"Attributes":{"`+name+`":"maybe"}}`)
				if status != 400 || !strings.Contains(text, message) || !strings.Contains(text, name) {
					t.Errorf("%s: status %d, %s", name, status, text)
				}
			}
			if len(s.PendingBIOS()) != 0 || len(s.Effects()) != 0 {
				t.Errorf("pending %v, effects %v, want nothing", s.PendingBIOS(), s.Effects())
			}
		})
	}
}

func TestRegistryDescribesEveryBIOSAttribute(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			client := connect(t, redfishtest.Start(t, vendor))
			bios, err := system(t, client).Bios()
			if err != nil {
				t.Fatal(err)
			}
			files, err := client.Service.Registries()
			if err != nil || len(files) != 1 || files[0].Registry != bios.AttributeRegistry {
				t.Fatalf("registries %v, %v, want %s", files, err, bios.AttributeRegistry)
			}
			registry, err := schemas.GetAttributeRegistry(client, files[0].Location[0].URI)
			if err != nil {
				t.Fatal(err)
			}
			if len(registry.RegistryEntries.Attributes) != len(bios.Attributes) {
				t.Errorf("%d of %d attributes are in the registry", len(registry.RegistryEntries.Attributes), len(bios.Attributes))
			}
		})
	}
}

func TestSecureBootChangesAtTheNextBoot(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := redfishtest.Start(t, vendor)
			client := connect(t, s)
			read := func() *schemas.SecureBoot {
				state, err := system(t, client).SecureBoot()
				if err != nil {
					t.Fatal(err)
				}
				return state
			}
			state := read()
			state.SecureBootEnable = true
			if err := state.Update(); err != nil {
				t.Fatal(err)
			}
			shows := vendor != "dell" // on Dell a job changes it
			if got := read(); got.SecureBootEnable != shows || got.SecureBootCurrentBoot != schemas.DisabledSecureBootCurrentBootType {
				t.Errorf("secure boot %v, in this boot %s", got.SecureBootEnable, got.SecureBootCurrentBoot)
			}
			power(t, s, bmc.ResetOn)
			if got := read(); !got.SecureBootEnable || got.SecureBootCurrentBoot != schemas.EnabledSecureBootCurrentBootType {
				t.Errorf("after a boot it is %v, in this boot %s", got.SecureBootEnable, got.SecureBootCurrentBoot)
			}
			if _, err := state.ResetKeys(schemas.DeleteAllKeysResetKeysType); err != nil {
				t.Fatal(err)
			}
			if got := read(); got.SecureBootMode != schemas.SetupModeSecureBootModeType {
				t.Errorf("without keys the mode is %s", got.SecureBootMode)
			}
		})
	}
}
