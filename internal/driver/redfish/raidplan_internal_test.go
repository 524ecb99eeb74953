package redfish

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/node"
)

// drivesOf makes drives of a kind with sizes in GiB, named after their position.
func drivesOf(prefix, media, protocol string, sizes ...int64) []drive {
	var drives []drive
	for i, size := range sizes {
		id := fmt.Sprintf("%s%d", prefix, i)
		drives = append(drives, drive{path: "/" + id, driveDocument: driveDocument{
			ID: id, SerialNumber: "S-" + id, MediaType: media, Protocol: protocol, CapacityBytes: size * bytesPerGiB,
		}})
	}
	return drives
}

// unitOf is a controller that makes volumes of its drives.
func unitOf(id string, drives []drive, changes ...func(*storageUnit)) storageUnit {
	unit := storageUnit{path: "/" + id, id: id, names: []string{id, "Model of " + id}, volumesPath: "/" + id + "/Volumes", drives: drives}
	for _, change := range changes {
		change(&unit)
	}
	return unit
}

// withVolume makes a change to a controller: a volume on some of its drives.
func withVolume(raidType string, drives ...string) func(*storageUnit) {
	return func(u *storageUnit) {
		v := volume{path: u.volumesPath + "/1", volumeDocument: volumeDocument{ID: "1", RAIDType: raidType}}
		for _, path := range drives {
			v.Links.Drives = append(v.Links.Drives, schemas.Link(path))
		}
		u.volumes = append(u.volumes, v)
	}
}

func ofSize(level string, gib int64, changes ...func(*logicalDisk)) logicalDisk {
	d := logicalDisk{Level: level, Bytes: gib * bytesPerGiB}
	for _, change := range changes {
		change(&d)
	}
	return d
}

func onDrives(names ...string) func(*logicalDisk) { return func(d *logicalDisk) { d.Drives = names } }
func counted(n int) func(*logicalDisk)            { return func(d *logicalDisk) { d.Count = n } }
func isShared(d *logicalDisk)                     { d.Shared = true }
func isRoot(d *logicalDisk)                       { d.Root = true }

func TestVolumesArePlanned(t *testing.T) {
	six := func(changes ...func(*storageUnit)) []storageUnit {
		return []storageUnit{unitOf("A", drivesOf("h", "HDD", "SAS", 100, 100, 100, 100, 100, 100), changes...)}
	}
	mixed := []storageUnit{
		unitOf("A", append(drivesOf("h", "HDD", "SAS", 100, 300, 200, 200), drivesOf("s", "SSD", "SATA", 50, 50)...)),
		unitOf("B", drivesOf("n", "SSD", "NVMe", 400, 400)),
	}
	for name, tc := range map[string]struct {
		disks []logicalDisk
		units []storageUnit
		want  []plannedVolume // without Bytes when it is that of the disk
		err   string
	}{
		"level 0":           {[]logicalDisk{ofSize("0", 60)}, six(), []plannedVolume{{RAIDType: "RAID0", Drives: []string{"/h0"}}}, ""},
		"level 0, large":    {[]logicalDisk{ofSize("0", 150)}, six(), []plannedVolume{{RAIDType: "RAID0", Drives: []string{"/h0", "/h1"}}}, ""},
		"level 1":           {[]logicalDisk{ofSize("1", 100)}, six(), []plannedVolume{{RAIDType: "RAID1", Drives: []string{"/h0", "/h1"}}}, ""},
		"level 5":           {[]logicalDisk{ofSize("5", 200)}, six(), []plannedVolume{{RAIDType: "RAID5", Drives: []string{"/h0", "/h1", "/h2"}}}, ""},
		"level 5, larger":   {[]logicalDisk{ofSize("5", 201)}, six(), []plannedVolume{{RAIDType: "RAID5", Drives: []string{"/h0", "/h1", "/h2", "/h3"}}}, ""},
		"level 6":           {[]logicalDisk{ofSize("6", 200)}, six(), []plannedVolume{{RAIDType: "RAID6", Drives: []string{"/h0", "/h1", "/h2", "/h3"}}}, ""},
		"level 1+0":         {[]logicalDisk{ofSize("1+0", 201)}, six(), []plannedVolume{{RAIDType: "RAID10", Drives: []string{"/h0", "/h1", "/h2", "/h3", "/h4", "/h5"}}}, ""},
		"level 5+0":         {[]logicalDisk{ofSize("5+0", 400)}, six(), []plannedVolume{{RAIDType: "RAID50", Drives: []string{"/h0", "/h1", "/h2", "/h3", "/h4", "/h5"}}}, ""},
		"level 6+0":         {[]logicalDisk{ofSize("6+0", 1)}, six(), nil, "at least 8 free drives"},
		"all there is":      {[]logicalDisk{ofSize("6", 0)}, six(), []plannedVolume{{RAIDType: "RAID6", Drives: []string{"/h0", "/h1", "/h2", "/h3", "/h4", "/h5"}}}, ""},
		"all of a mirror":   {[]logicalDisk{ofSize("1", 0)}, mixed, []plannedVolume{{RAIDType: "RAID1", Drives: []string{"/n0", "/n1"}}}, ""},
		"all of unequal":    {[]logicalDisk{ofSize("5", 0, func(d *logicalDisk) { d.DiskType = "hdd" })}, mixed, []plannedVolume{{RAIDType: "RAID5", Drives: []string{"/h2", "/h3", "/h1"}}}, ""},
		"smallest that fit": {[]logicalDisk{ofSize("1", 150, func(d *logicalDisk) { d.DiskType = "hdd" })}, mixed, []plannedVolume{{RAIDType: "RAID1", Drives: []string{"/h2", "/h3"}}}, ""},
		"a number":          {[]logicalDisk{ofSize("5", 10, counted(5))}, six(), []plannedVolume{{RAIDType: "RAID5", Drives: []string{"/h0", "/h1", "/h2", "/h3", "/h4"}}}, ""},
		"a number, all":     {[]logicalDisk{ofSize("0", 0, counted(2))}, six(), []plannedVolume{{RAIDType: "RAID0", Drives: []string{"/h4", "/h5"}}}, ""},
		"an odd number":     {[]logicalDisk{ofSize("1+0", 10, counted(5))}, six(), nil, "cannot have 5 drives"},
		"one kind only":     {[]logicalDisk{ofSize("0", 600)}, mixed, []plannedVolume{{RAIDType: "RAID0", Drives: []string{"/n0", "/n1"}}}, ""},
		"ssd":               {[]logicalDisk{ofSize("0", 40, func(d *logicalDisk) { d.DiskType = "ssd" })}, mixed, []plannedVolume{{RAIDType: "RAID0", Drives: []string{"/s0"}}}, ""},
		"sata":              {[]logicalDisk{ofSize("0", 100, func(d *logicalDisk) { d.Interface = "sata" })}, mixed, []plannedVolume{{RAIDType: "RAID0", Drives: []string{"/s0", "/s1"}}}, ""},
		"a controller":      {[]logicalDisk{ofSize("0", 40, func(d *logicalDisk) { d.Controller = "Model of B" })}, mixed, []plannedVolume{{RAIDType: "RAID0", Drives: []string{"/n0"}}}, ""},
		"no controller":     {[]logicalDisk{ofSize("0", 40, func(d *logicalDisk) { d.Controller = "C" })}, mixed, nil, "none that may be used"},
		"named drives":      {[]logicalDisk{ofSize("1", 0, onDrives("h5", "S-h2"))}, six(), []plannedVolume{{RAIDType: "RAID1", Drives: []string{"/h5", "/h2"}}}, ""},
		"named first": {
			[]logicalDisk{ofSize("0", 50), ofSize("1", 100, onDrives("h0", "h1"))},
			six(),
			[]plannedVolume{{RAIDType: "RAID0", Drives: []string{"/h2"}}, {RAIDType: "RAID1", Drives: []string{"/h0", "/h1"}}},
			"",
		},
		"the rest last": {
			[]logicalDisk{ofSize("5", 0), ofSize("1", 100)},
			six(),
			[]plannedVolume{{RAIDType: "RAID5", Drives: []string{"/h2", "/h3", "/h4", "/h5"}}, {RAIDType: "RAID1", Drives: []string{"/h0", "/h1"}}},
			"",
		},
		"the root first": {
			[]logicalDisk{ofSize("0", 50), ofSize("1", 100, isRoot)},
			six(),
			[]plannedVolume{{RAIDType: "RAID1", Drives: []string{"/h1", "/h2"}}, {RAIDType: "RAID0", Drives: []string{"/h0"}}},
			"",
		},
		"named twice":        {[]logicalDisk{ofSize("1", 0, onDrives("h5", "S-h5"))}, six(), nil, "twice"},
		"not there":          {[]logicalDisk{ofSize("1", 0, onDrives("h5", "h9"))}, six(), nil, `"h9", which is not there`},
		"of two controllers": {[]logicalDisk{ofSize("1", 0, onDrives("h0", "n0"))}, mixed, nil, "several controllers"},
		"named too small":    {[]logicalDisk{ofSize("1", 101, onDrives("h0", "h1"))}, six(), nil, "is larger than the drives"},
		"named too few":      {[]logicalDisk{ofSize("5", 10, onDrives("h0", "h1"))}, six(), nil, "cannot have the 2 drives"},
		"too large":          {[]logicalDisk{ofSize("1", 101)}, six(), nil, "logical disk 0 (RAID 1, 101 GiB) does not fit: it needs at least 2 free drives of one kind at one controller, with room for it; free are 6 SAS HDD of up to 100 GiB at A"},
		"too many":           {[]logicalDisk{ofSize("1", 1), ofSize("1", 1), ofSize("5", 1)}, six(), nil, "logical disk 2"},
		"shared": {
			[]logicalDisk{ofSize("5", 120, isShared, counted(3)), ofSize("5", 60, isShared, counted(3))},
			six(),
			[]plannedVolume{{RAIDType: "RAID5", Drives: []string{"/h0", "/h1", "/h2"}, Shared: true}, {RAIDType: "RAID5", Drives: []string{"/h0", "/h1", "/h2"}, Shared: true}},
			"",
		},
		"shared until full": {
			[]logicalDisk{ofSize("5", 120, isShared, counted(3)), ofSize("5", 100, isShared, counted(3))},
			six(),
			[]plannedVolume{{RAIDType: "RAID5", Drives: []string{"/h0", "/h1", "/h2"}, Shared: true}, {RAIDType: "RAID5", Drives: []string{"/h3", "/h4", "/h5"}, Shared: true}},
			"",
		},
		"not with one that shares": {
			[]logicalDisk{ofSize("0", 10, isShared), ofSize("0", 10)},
			six(),
			[]plannedVolume{{RAIDType: "RAID0", Drives: []string{"/h0"}, Shared: true}, {RAIDType: "RAID0", Drives: []string{"/h1"}}},
			"",
		},
		"beside volumes": {
			[]logicalDisk{ofSize("1", 10)},
			six(withVolume("RAID5", "/h0", "/h1", "/h2")),
			[]plannedVolume{{RAIDType: "RAID1", Drives: []string{"/h3", "/h4"}}},
			"",
		},
		"on drives that are shown as volumes": {
			[]logicalDisk{ofSize("1", 10)},
			six(withVolume("None", "/h0")),
			[]plannedVolume{{RAIDType: "RAID1", Drives: []string{"/h0", "/h1"}}},
			"",
		},
		"not on broken drives": {
			[]logicalDisk{ofSize("0", 10)},
			six(func(u *storageUnit) { u.drives[0].Status.Health = "Critical" }),
			[]plannedVolume{{RAIDType: "RAID0", Drives: []string{"/h1"}}},
			"",
		},
		"not without volumes":         {[]logicalDisk{ofSize("0", 10)}, six(func(u *storageUnit) { u.volumesPath = "" }), nil, "none that may be used"},
		"not on an unknown state":     {[]logicalDisk{ofSize("0", 10)}, six(func(u *storageUnit) { u.incomplete = true }), nil, "none that may be used"},
		"not without RAID":            {[]logicalDisk{ofSize("0", 10)}, six(func(u *storageUnit) { u.has("", "", []string{}) }), nil, "none that may be used"},
		"not with unsupported levels": {[]logicalDisk{ofSize("5", 10)}, six(func(u *storageUnit) { u.has("", "", []string{"RAID0", "RAID1"}) }), nil, "none that may be used"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := planVolumes(tc.disks, tc.units, nothingChanged)
			var failure *node.DriverError
			if tc.err != "" {
				if !errors.As(err, &failure) || failure.Retryable || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("plan %+v, error %v; want a final one with %q", got, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(plannedVolume{}, "Bytes"), cmpopts.IgnoreUnexported(plannedVolume{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRAIDConfigurationIsRead(t *testing.T) {
	n := &node.Node{UUID: "n"}
	disks, err := logicalDisksOf(n, node.Object(`{"logical_disks": [
		{"size_gb": 100, "raid_level": "5", "is_root_volume": true, "volume_name": "root", "disk_type": "hdd", "interface_type": "sas",
		 "controller": "A", "number_of_physical_disks": 3, "physical_disks": ["h0", "h1", "h2"], "share_physical_disks": true},
		{"size_gb": "MAX", "raid_level": "0"}]}`))
	want := []logicalDisk{
		{Bytes: 100 << 30, Level: "5", Root: true, Name: "root", DiskType: "hdd", Interface: "sas", Controller: "A", Drives: []string{"h0", "h1", "h2"}, Count: 3, Shared: true},
		{Level: "0"},
	}
	if diff := cmp.Diff(want, disks); err != nil || diff != "" {
		t.Errorf("%v, disks (-want +got):\n%s", err, diff)
	}
	for name, config := range map[string]string{
		"empty": `{}`, "no size": `{"logical_disks": [{"raid_level": "1"}]}`, "no level": `{"logical_disks": [{"size_gb": 1}]}`,
		"level 2": `{"logical_disks": [{"size_gb": 1, "raid_level": "2"}]}`, "a size of nothing": `{"logical_disks": [{"size_gb": 0, "raid_level": "1"}]}`,
		"hints":         `{"logical_disks": [{"size_gb": 1, "raid_level": "1", "physical_disks": [{"size": ">1"}, {"size": ">1"}]}]}`,
		"software RAID": `{"logical_disks": [{"size_gb": 1, "raid_level": "1", "controller": "software"}]}`,
	} {
		var invalid *node.ValidationError
		if disks, err := logicalDisksOf(n, node.Object(config)); !errors.As(err, &invalid) {
			t.Errorf("%s: %+v, %v, want a ValidationError", name, disks, err)
		}
	}
}

func TestChangesAreSentUntilEachControllerHasAJobThatWaits(t *testing.T) {
	waits := volumeChange{Collection: "/A", Sent: true, Task: "/1"}
	lost := volumeChange{Collection: "/A", Sent: true, Doubt: true}
	unseen := volumeChange{Collection: "/A", Sent: true}
	done := volumeChange{Collection: "/A", Sent: true, Task: "/1", Done: true}
	for name, tc := range map[string]struct {
		changes []volumeChange
		want    int
	}{
		"the same controller":        {[]volumeChange{waits, {Collection: "/A"}}, -1},
		"a request in doubt":         {[]volumeChange{lost, {Collection: "/A"}}, -1},
		"another controller":         {[]volumeChange{waits, {Collection: "/A"}, {Collection: "/B"}}, 2},
		"after the restart":          {[]volumeChange{done, {Collection: "/A"}, {Collection: "/B", Sent: true, Done: true}}, 1},
		"a controller without jobs":  {[]volumeChange{unseen, {Collection: "/A"}}, 1},
		"nothing that is to be sent": {[]volumeChange{waits, done}, -1},
	} {
		work := raidWork{Changes: tc.changes, Restart: true}
		if got := work.toSend(); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
