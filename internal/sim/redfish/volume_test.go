package redfish_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// volumeAnswers has the status and a part of the answer to a request for a volume, and the status
// of the answer to its deletion.
var volumeAnswers = map[string]struct {
	made    int
	said    string
	deleted int
	reset   bool // both wait for a boot
}{
	"dell": {made: 202, deleted: 202}, "hpe": {made: 200, said: "SystemResetRequired", deleted: 200, reset: true},
	"supermicro": {made: 201, said: "RAID1", deleted: 204},
}

// storage is the only storage of the system that has volumes.
func storage(t *testing.T, s *redfishtest.Server) *schemas.Storage {
	t.Helper()
	all, err := system(t, connect(t, s)).Storage()
	if err != nil || len(all) != 1 {
		t.Fatalf("storage: %d, %v, want one", len(all), err)
	}
	return all[0]
}

// volumeBody returns a request for a volume on the last drives of a storage.
func volumeBody(t *testing.T, of *schemas.Storage, raidType string, drives int, more string) string {
	t.Helper()
	all, err := of.Drives()
	if err != nil || len(all) < drives {
		t.Fatalf("drives: %d, %v, want %d", len(all), err, drives)
	}
	slices.SortFunc(all, func(a, b *schemas.Drive) int { // the library reads them concurrently
		return cmp.Or(cmp.Compare(len(a.ODataID), len(b.ODataID)), cmp.Compare(a.ODataID, b.ODataID))
	})
	var links []string
	for _, drive := range all[len(all)-drives:] { // the last ones are equal
		links = append(links, fmt.Sprintf(`{"@odata.id": %q}`, drive.ODataID))
	}
	return fmt.Sprintf(`{"RAIDType": %q, "Links": {"Drives": [%s]}%s}`, raidType, strings.Join(links, ","), more)
}

func TestVolumesAreMadeAndDeletedAsTheVendorDoes(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			o := redfishtest.WithDrives(vendor, 2)
			o.Times = bmc.Times{Volume: time.Minute}
			s, want := redfishtest.Start(t, vendor, o), volumeAnswers[vendor]
			power(t, s, bmc.ResetOn)
			owner := storage(t, s)
			path := strings.TrimRight(owner.ODataID, "/") + "/Volumes"
			status, text, header := call(t, s, "POST", path, volumeBody(t, owner, "RAID1", 2, `,"Name":"root","CapacityBytes":1073741824`))
			if status != want.made || !strings.Contains(text, want.said) || (status == 201) != strings.Contains(header.Get("Location"), "/Volumes/") {
				t.Errorf("made: status %d, %s, %v; want %d with %q", status, text, header, want.made, want.said)
			}
			pass := func() {
				if s.Pass(time.Minute); want.reset {
					power(t, s, bmc.ResetForceRestart)
				}
			}
			if volumes, err := owner.Volumes(); err != nil || len(volumes) != map[bool]int{true: 1}[vendor == "supermicro"] {
				t.Errorf("at once: %d volumes, %v", len(volumes), err)
			}
			pass()
			volumes, err := owner.Volumes()
			if err != nil || len(volumes) != 1 || volumes[0].Name != "root" || volumes[0].RAIDType != schemas.RAID1RAIDType || *volumes[0].CapacityBytes != 1<<30 {
				t.Fatalf("volumes %+v, %v, want the one", volumes, err)
			}
			drives, err := volumes[0].Drives()
			if err != nil || len(drives) != 2 {
				t.Errorf("%d drives, %v", len(drives), err)
			}
			if status, text, _ := call(t, s, "DELETE", volumes[0].ODataID, ""); status != want.deleted {
				t.Errorf("deleted: status %d, %s; want %d", status, text, want.deleted)
			}
			pass()
			if volumes, err := owner.Volumes(); err != nil || len(volumes) != 0 {
				t.Errorf("after its end: %d volumes, %v", len(volumes), err)
			}
			effects := slices.DeleteFunc(s.Effects(), func(kind string) bool { return kind == "power on" || kind == "reboot" })
			if !slices.Equal(effects, []string{"create volume", "delete volume"}) {
				t.Errorf("effects = %q", effects)
			}
		})
	}
}

func TestStorageIsShownWhenTheMachineHasStarted(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			o := redfishtest.WithDrives(vendor, 2)
			o.Times = bmc.Times{POST: time.Minute}
			s := redfishtest.Start(t, vendor, o)
			if _, _, err := s.CreateVolume(&bmc.Call{}, bmc.Volume{RAIDType: "RAID0", Drives: []int{0}}, ""); err != nil {
				t.Fatal(err)
			}
			power(t, s, bmc.ResetOn)
			shown := func() (drives, volumes int) {
				t.Helper()
				owner := storage(t, s)
				all, err := owner.Volumes()
				if err != nil {
					t.Fatal(err)
				}
				return owner.DrivesCount, len(all)
			}
			if drives, volumes := shown(); vendor == "hpe" && drives+volumes != 0 || vendor != "hpe" && drives == 0 {
				t.Errorf("in POST: %d drives, %d volumes", drives, volumes)
			}
			s.Pass(2 * time.Minute)
			if drives, volumes := shown(); drives == 0 || volumes != 1 {
				t.Errorf("after it: %d drives, %d volumes; want all, and one", drives, volumes)
			}
		})
	}
}

func TestVolumeIsRefusedWhileAJobWaitsForTheNextBoot(t *testing.T) {
	s := redfishtest.Start(t, "dell", redfishtest.WithDrives("dell", 2))
	power(t, s, bmc.ResetOn)
	owner := storage(t, s)
	body := volumeBody(t, owner, "RAID0", 1, `,"CapacityBytes":1073741824,"@Redfish.OperationApplyTime":"OnReset"`)
	for _, want := range []int{http.StatusAccepted, http.StatusBadRequest} {
		if status, text, _ := call(t, s, "POST", owner.ODataID+"/Volumes", body); status != want {
			t.Errorf("status %d, %s; want %d", status, text, want)
		}
	}
	power(t, s, bmc.ResetForceRestart)
	if status, text, _ := call(t, s, "POST", owner.ODataID+"/Volumes", body); status != http.StatusAccepted {
		t.Errorf("after a restart: status %d, %s", status, text)
	}
}

func TestVolumesThatCannotBeAreRefused(t *testing.T) {
	s := redfishtest.Start(t, "supermicro", redfishtest.WithDrives("supermicro", 4))
	owner := storage(t, s)
	path := owner.ODataID + "/Volumes"
	if status, text, _ := call(t, s, "POST", path, volumeBody(t, owner, "RAID5", 3, "")); status != http.StatusCreated {
		t.Fatalf("status %d, %s", status, text)
	}
	before := len(s.Effects())
	for name, body := range map[string]string{
		"too few drives":    volumeBody(t, owner, "RAID6", 3, ""),
		"too many drives":   volumeBody(t, owner, "RAID1", 3, ""),
		"full drives":       volumeBody(t, owner, "RAID0", 1, ""),
		"too large":         volumeBody(t, owner, "RAID10", 4, `,"CapacityBytes":1e18`),
		"no such type":      volumeBody(t, owner, "RAID7", 4, ""),
		"no such drive":     `{"RAIDType":"RAID0","Links":{"Drives":[{"@odata.id":"/redfish/v1/Drives/none"}]}}`,
		"no drives":         `{"RAIDType":"RAID0"}`,
		"no type":           volumeBody(t, owner, "", 1, ""),
		"another time":      volumeBody(t, owner, "RAID0", 1, `,"@Redfish.OperationApplyTime":"OnReset"`),
		"a size that is no": volumeBody(t, owner, "RAID0", 1, `,"CapacityBytes":"all"`),
	} {
		if status, text, _ := call(t, s, "POST", path, body); status != http.StatusBadRequest || !strings.Contains(text, "error") {
			t.Errorf("%s: status %d, %s", name, status, text)
		}
	}
	if got := len(s.Effects()); got != before {
		t.Errorf("%d effects of refused requests", got-before)
	}
}
