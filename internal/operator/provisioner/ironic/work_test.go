package ironic

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestRequestsForWork(t *testing.T) {
	steps := []node.Step{{Interface: "bios", Step: "apply_configuration", Args: map[string]any{"settings": []any{}}, Priority: 7}, {Interface: "power", Step: "reboot"}}
	const wantSteps = `[{"args":{"settings":[]},"interface":"bios","step":"apply_configuration"},{"interface":"power","step":"reboot"}]`
	live := v1alpha1.FormatLiveISO
	for name, tt := range map[string]struct {
		state string
		node  map[string]any
		do    func(context.Context, *Engine) error
		want  []string
	}{
		"inspect": {do: func(ctx context.Context, e *Engine) error { return e.Inspect(ctx, "a") }, want: []string{`PUT /v1/nodes/a/states/provision {"target":"inspect"}`}},
		"clean": {
			do:   func(ctx context.Context, e *Engine) error { return e.Clean(ctx, "a", steps) },
			want: []string{`PUT /v1/nodes/a/states/provision {"clean_steps":` + wantSteps + `,"target":"clean"}`},
		},
		"service": {
			do: func(ctx context.Context, e *Engine) error {
				return e.Service(ctx, "a", steps)
			},
			want: []string{`PUT /v1/nodes/a/states/provision {"service_steps":` + wantSteps + `,"target":"service"}`},
		},
		"undeploy": {do: func(ctx context.Context, e *Engine) error { return e.Undeploy(ctx, "a") }, want: []string{`PUT /v1/nodes/a/states/provision {"target":"deleted"}`}},
		"adopt":    {do: func(ctx context.Context, e *Engine) error { return e.Adopt(ctx, "a") }, want: []string{`PUT /v1/nodes/a/states/provision {"target":"adopt"}`}},
		"abort":    {do: func(ctx context.Context, e *Engine) error { return e.Abort(ctx, "a") }, want: []string{`PUT /v1/nodes/a/states/provision {"target":"abort"}`}},
		"maintenance": {
			do:   func(ctx context.Context, e *Engine) error { return e.SetMaintenance(ctx, "a", "fan") },
			want: []string{`PUT /v1/nodes/a/maintenance {"reason":"fan"}`},
		},
		"end of maintenance": {
			do:   func(ctx context.Context, e *Engine) error { return e.SetMaintenance(ctx, "a", "") },
			want: []string{`DELETE /v1/nodes/a/maintenance`},
		},
		"power": {
			do: func(ctx context.Context, e *Engine) error {
				return e.SetPower(ctx, "a", provisioner.PowerChange{Action: provisioner.PowerActionSoftOff, Timeout: 3 * time.Minute})
			},
			want: []string{`PUT /v1/nodes/a/states/power {"target":"soft power off","timeout":180}`},
		},
		"image in a drive": {
			do:   func(ctx context.Context, e *Engine) error { return e.AttachImage(ctx, "a", "http://h/data.iso") },
			want: []string{`POST /v1/nodes/a/vmedia {"device_type":"cdrom","image_url":"http://h/data.iso"}`},
		},
		"no image in a drive": {
			do:   func(ctx context.Context, e *Engine) error { return e.DetachImage(ctx, "a") },
			want: []string{`DELETE /v1/nodes/a/vmedia?device_types=cdrom`},
		},
		"end of a subscription": {
			do:   func(ctx context.Context, e *Engine) error { return e.Unsubscribe(ctx, "a", "s1") },
			want: []string{`DELETE /v1/nodes/a/vendor_passthru?method=delete_subscription {"id":"s1"}`},
		},
		"volumes of a controller": {
			state: "manageable", node: map[string]any{"raid_interface": "agent"},
			do: func(ctx context.Context, e *Engine) error {
				size, rotates, count := 10, true, 2
				return e.SetTargetRAID(ctx, "a", &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{
					{Level: "1+0", SizeGibibytes: &size, Name: "root", Rotational: &rotates, Controller: "c", PhysicalDisks: []string{"d1", "d2"}, NumberOfPhysicalDisks: &count},
					{Level: "0"},
				}}, nil)
			},
			want: []string{
				`PATCH /v1/nodes/a [{"op":"remove","path":"/raid_interface"}]`,
				`PUT /v1/nodes/a/states/raid {"logical_disks":[{"controller":"c","disk_type":"hdd","is_root_volume":true,"number_of_physical_disks":2,"physical_disks":["d1","d2"],` +
					`"raid_level":"1+0","size_gb":10,"volume_name":"root"},{"raid_level":"0","size_gb":"MAX"}]}`,
			},
		},
		"volumes of the operating system": {
			state: "manageable", node: map[string]any{"raid_interface": "redfish"},
			do: func(ctx context.Context, e *Engine) error {
				size := 20
				return e.SetTargetRAID(ctx, "a", &v1alpha1.RAIDConfig{SoftwareRAIDVolumes: []v1alpha1.SoftwareRAIDVolume{
					{Level: "0"},
					{Level: "1", SizeGibibytes: &size, RootVolume: true, PhysicalDisks: []v1alpha1.RootDeviceHints{{WWN: "0x1"}, {WWN: "0x2"}}},
				}}, &v1alpha1.RootDeviceHints{})
			},
			want: []string{
				`PATCH /v1/nodes/a [{"op":"add","path":"/raid_interface","value":"agent"}]`,
				`PUT /v1/nodes/a/states/raid {"logical_disks":[{"controller":"software","is_root_volume":true,` +
					`"physical_disks":[{"wwn":"s== 0x1"},{"wwn":"s== 0x2"}],"raid_level":"1","size_gb":20},` +
					`{"controller":"software","raid_level":"0","size_gb":"MAX"}]}`,
			},
		},
		"volumes of a controller beside the root device": {
			state: "manageable",
			do: func(ctx context.Context, e *Engine) error {
				raid := &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "1"}}}
				return e.SetTargetRAID(ctx, "a", raid, &v1alpha1.RootDeviceHints{SerialNumber: "S1"})
			},
			want: []string{`PUT /v1/nodes/a/states/raid {"logical_disks":[{"raid_level":"1","size_gb":"MAX"}]}`},
		},
		"volumes of the operating system beside the root device": {
			state: "manageable", node: map[string]any{"raid_interface": "agent"},
			do: func(ctx context.Context, e *Engine) error {
				raid := &v1alpha1.RAIDConfig{SoftwareRAIDVolumes: []v1alpha1.SoftwareRAIDVolume{{Level: "1"}}}
				return e.SetTargetRAID(ctx, "a", raid, &v1alpha1.RootDeviceHints{SerialNumber: "S1"})
			},
			want: []string{`PUT /v1/nodes/a/states/raid {"logical_disks":[{"controller":"software","raid_level":"1","size_gb":"MAX"}]}`},
		},
		"no volumes": {
			state: "manageable",
			do: func(ctx context.Context, e *Engine) error {
				return e.SetTargetRAID(ctx, "a", &v1alpha1.RAIDConfig{}, nil)
			},
			want: []string{`PUT /v1/nodes/a/states/raid {}`},
		},
		"no volumes of a controller, instead of those of the operating system": {
			state: "manageable", node: map[string]any{"raid_interface": "agent"},
			do: func(ctx context.Context, e *Engine) error {
				return e.SetTargetRAID(ctx, "a", &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{}}, nil)
			},
			want: []string{`PATCH /v1/nodes/a [{"op":"remove","path":"/raid_interface"}]`, `PUT /v1/nodes/a/states/raid {}`},
		},
		"deployment of an image": {
			state: "available", node: map[string]any{"deploy_interface": "ramdisk"},
			do: func(ctx context.Context, e *Engine) error {
				return e.Deploy(ctx, "a", provisioner.Deployment{
					InstanceID: "i1", BootMode: v1alpha1.BootModeUEFISecureBoot, RootDevice: &v1alpha1.RootDeviceHints{SerialNumber: "S1"},
					Image:       &v1alpha1.Image{URL: "http://h/os.raw", Checksum: strings.Repeat("a", 64)},
					ConfigDrive: &provisioner.ConfigDrive{MetaData: map[string]any{"name": "web"}, UserData: "#cloud-config"},
				})
			},
			want: []string{
				`PATCH /v1/nodes/a [{"op":"add","path":"/instance_uuid","value":"i1"},{"op":"add","path":"/instance_info","value":{` +
					`"capabilities":{"boot_mode":"uefi","secure_boot":"true"},"image_os_hash_algo":"sha256","image_os_hash_value":"` + strings.Repeat("a", 64) + `",` +
					`"image_source":"http://h/os.raw","root_device":{"serial":"s== S1"}}},{"op":"remove","path":"/deploy_interface"}]`,
				`PUT /v1/nodes/a/states/provision {"configdrive":{"meta_data":{"name":"web"},"user_data":"#cloud-config"},"target":"active"}`,
			},
		},
		"deployment of a live image": {
			state: "available",
			do: func(ctx context.Context, e *Engine) error {
				return e.Deploy(ctx, "a", provisioner.Deployment{
					InstanceID: "i1", Image: &v1alpha1.Image{URL: "http://h/live.iso", DiskFormat: &live},
					ConfigDrive: &provisioner.ConfigDrive{UserData: "x"},
				})
			},
			want: []string{
				`PATCH /v1/nodes/a [{"op":"add","path":"/instance_uuid","value":"i1"},{"op":"add","path":"/instance_info","value":{` +
					`"boot_iso":"http://h/live.iso","capabilities":{"boot_mode":"uefi"}}},{"op":"add","path":"/deploy_interface","value":"ramdisk"}]`,
				`PUT /v1/nodes/a/states/provision {"target":"active"}`,
			},
		},
		"deployment of a live image of a registry": {
			state: "available",
			do: func(ctx context.Context, e *Engine) error {
				return e.Deploy(ctx, "a", provisioner.Deployment{
					InstanceID: "i1", Image: &v1alpha1.Image{URL: "oci://h/live:1", DiskFormat: &live}, ImagePullSecret: "dTpw",
				})
			},
			want: []string{
				`PATCH /v1/nodes/a [{"op":"add","path":"/instance_uuid","value":"i1"},{"op":"add","path":"/instance_info","value":{` +
					`"boot_iso":"oci://h/live:1","capabilities":{"boot_mode":"uefi"},"image_pull_secret":"dTpw"}},{"op":"add","path":"/deploy_interface","value":"ramdisk"}]`,
				`PUT /v1/nodes/a/states/provision {"target":"active"}`,
			},
		},
		"deployment by a step": {
			state: "deploy failed", node: map[string]any{"deploy_interface": "custom-agent", "instance_uuid": "i1"},
			do: func(ctx context.Context, e *Engine) error {
				return e.Deploy(ctx, "a", provisioner.Deployment{InstanceID: "i1", Step: "install_coreos"})
			},
			want: []string{
				`PATCH /v1/nodes/a [{"op":"add","path":"/instance_info","value":{"capabilities":{"boot_mode":"uefi"}}}]`,
				`PUT /v1/nodes/a/states/provision {"deploy_steps":[{"args":{},"interface":"deploy","priority":80,"step":"install_coreos"}],"target":"active"}`,
			},
		},
		"deployment that is under way": {
			state: "wait call-back", node: map[string]any{"instance_uuid": "i1"},
			do: func(ctx context.Context, e *Engine) error {
				return e.Deploy(ctx, "a", provisioner.Deployment{InstanceID: "i1"})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			fields := merged(map[string]any{"provision_state": tt.state}, tt.node)
			e := &upstream{nodes: []map[string]any{rawNode("a", fields)}}
			if err := tt.do(t.Context(), newEngine(t, e)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, mutations(e)); diff != "" {
				t.Errorf("calls differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEngineWithoutRAIDForANodeIsNoNodeThatIsGone(t *testing.T) {
	e := &upstream{
		nodes:   []map[string]any{rawNode("a", map[string]any{"provision_state": "manageable", "raid_interface": "no-raid"})},
		answers: map[string][]int{"PUT /v1/nodes/a/states/raid": {http.StatusNotFound}},
		refusal: "Driver ipmi does not support raid (disabled or not implemented).",
	}
	err := newEngine(t, e).SetTargetRAID(t.Context(), "a", &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "1"}}}, nil)
	if !errors.Is(err, provisioner.ErrUnsupported) || errors.Is(err, provisioner.ErrNotFound) {
		t.Errorf("error %v, want that the engine does not support it", err)
	}
}

func TestBootDevicesLastAsTheOperatorSaysForTheKindOfDeployment(t *testing.T) {
	iso := v1alpha1.FormatLiveISO
	live, direct := v1alpha1.Image{URL: "http://h/live.iso", DiskFormat: &iso}, v1alpha1.Image{URL: "http://h/os"}
	for name, tt := range map[string]struct {
		boot    PersistentBoot
		image   *v1alpha1.Image
		step    string
		present string // value of the node
		want    string // value that is written; "" for none
	}{
		"nothing is said":                  {image: &live, present: "Always"},
		"live image":                       {boot: PersistentBoot{LiveISO: "Never", DirectDeploy: "Always"}, image: &live, want: "Never"},
		"image on a disk":                  {boot: PersistentBoot{LiveISO: "Never", DirectDeploy: "Always"}, image: &direct, want: "Always"},
		"image on a disk after a live one": {boot: PersistentBoot{LiveISO: "Never"}, image: &direct, present: "Never", want: "Default"},
		"live image after one on a disk":   {boot: PersistentBoot{DirectDeploy: "Always"}, image: &live, present: "Always", want: "Default"},
		"as it is":                         {boot: PersistentBoot{LiveISO: "Never"}, image: &live, present: "Never"},
		"deploy step with an image":        {boot: PersistentBoot{DirectDeploy: "Always"}, image: &direct, step: "install"},
		"deploy step":                      {boot: PersistentBoot{DirectDeploy: "Always"}, step: "install"},
	} {
		e := &upstream{nodes: []map[string]any{rawNode("a", map[string]any{"provision_state": "available", "driver_info": map[string]any{}})}}
		if tt.present != "" {
			e.nodes[0]["driver_info"] = map[string]any{persistentBootKey: tt.present}
		}
		engine := newEngine(t, e)
		engine.opts.PersistentBoot = tt.boot
		if err := engine.Deploy(t.Context(), "a", provisioner.Deployment{InstanceID: "i1", Image: tt.image, Step: tt.step}); err != nil {
			t.Fatal(err)
		}
		change := mutations(e)[0]
		want := `{"op":"add","path":"/driver_info/force_persistent_boot_device","value":"` + tt.want + `"}`
		if tt.want == "" && strings.Contains(change, persistentBootKey) || tt.want != "" && !strings.Contains(change, want) {
			t.Errorf("%s: %s, want the value %q", name, change, tt.want)
		}
	}
}

func TestChecksumsInEveryForm(t *testing.T) {
	md5, sha512 := strings.Repeat("a", 32), strings.Repeat("b", 128)
	for _, tt := range []struct {
		image v1alpha1.Image
		want  map[string]any
	}{
		{v1alpha1.Image{}, map[string]any{}},
		{v1alpha1.Image{Checksum: md5}, map[string]any{"image_checksum": md5}},
		{v1alpha1.Image{Checksum: md5, ChecksumType: v1alpha1.ChecksumMD5}, map[string]any{"image_checksum": md5}},
		{v1alpha1.Image{Checksum: sha512, ChecksumType: v1alpha1.ChecksumAuto}, map[string]any{"image_os_hash_algo": "sha512", "image_os_hash_value": sha512}},
		{v1alpha1.Image{Checksum: "http://h/SHA256SUMS"}, map[string]any{"image_checksum": "http://h/SHA256SUMS"}},
		{v1alpha1.Image{Checksum: "http://h/x", ChecksumType: v1alpha1.ChecksumSHA256}, map[string]any{"image_os_hash_algo": "sha256", "image_os_hash_value": "http://h/x"}},
	} {
		got := map[string]any{}
		addChecksum(got, tt.image)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.image, diff)
		}
	}
}

func TestDeploymentNeedsAFreeNode(t *testing.T) {
	for _, fields := range []map[string]any{
		{"provision_state": "available", "instance_uuid": "other"},
		{"provision_state": "active", "instance_uuid": "other"},
		{"provision_state": "manageable"},
	} {
		e := &upstream{nodes: []map[string]any{rawNode("a", fields)}}
		err := newEngine(t, e).Deploy(t.Context(), "a", provisioner.Deployment{InstanceID: "i1"})
		if !errors.Is(err, provisioner.ErrConflict) || mutations(e) != nil {
			t.Errorf("%v: error %v after %v, want a conflict and no change", fields, err, mutations(e))
		}
	}
}

func TestLostAnswerCountsWhenTheNodeShowsTheEffect(t *testing.T) {
	for _, tt := range []struct {
		verb   func(context.Context, *Engine) error
		fields map[string]any
		want   error
	}{
		{func(ctx context.Context, e *Engine) error { return e.Undeploy(ctx, "a") }, map[string]any{"provision_state": "deleting"}, nil},
		{func(ctx context.Context, e *Engine) error { return e.Undeploy(ctx, "a") }, map[string]any{"provision_state": "error"}, provisioner.ErrConflict},
		{func(ctx context.Context, e *Engine) error {
			return e.Clean(ctx, "a", nil)
		}, map[string]any{"provision_state": "clean wait", "target_provision_state": "available"}, provisioner.ErrConflict},
		{func(ctx context.Context, e *Engine) error { return e.Inspect(ctx, "a") }, map[string]any{"provision_state": "inspect wait"}, nil},
	} {
		e := &upstream{
			nodes:   []map[string]any{rawNode("a", tt.fields)},
			answers: map[string][]int{"PUT /v1/nodes/a/states/provision": {400}}, refusal: `The requested action "x" can not be performed on node "a" while it is in state "y".`,
		}
		if err := tt.verb(t.Context(), newEngine(t, e)); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%v: error %v, want %v", tt.fields, err, tt.want)
		}
	}
}

func TestAbilitiesThatCameLater(t *testing.T) {
	steps := []node.Step{{Interface: "power", Step: "reboot"}}
	for version, want := range map[string][]bool{
		"1.82": {true, true, true}, "1.87": {false, true, false}, "1.89": {false, false, false},
	} {
		e := &upstream{version: version, replies: map[string]any{"GET /v1/nodes/a/firmware": map[string]any{"firmware": []any{map[string]any{"component": "bmc"}}}}}
		engine, ctx := newEngine(t, e), t.Context()
		_, firmware := engine.Components(ctx, "a")
		for i, err := range []error{
			engine.Service(ctx, "a", steps),
			engine.AttachImage(ctx, "a", "http://h/x"),
			firmware,
		} {
			if errors.Is(err, provisioner.ErrUnsupported) != want[i] {
				t.Errorf("engine %s, ability %d: %v, want unsupported: %v", version, i, err, want[i])
			}
		}
	}
}

func TestDrivesAreReadWhereTheEngineShowsThem(t *testing.T) {
	for name, tt := range map[string]struct {
		version     string
		drives      []any
		there       bool
		unsupported bool
	}{
		"an image":        {version: "1.93", drives: []any{map[string]any{"media_types": []string{"cdrom"}, "inserted": true, "image": "http://h/x"}}, there: true},
		"an empty drive":  {version: "1.93", drives: []any{map[string]any{"media_types": []string{"cdrom"}, "inserted": false, "image": ""}}},
		"no drive":        {version: "1.110", drives: []any{}},
		"an older engine": {version: "1.92", unsupported: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := &upstream{version: tt.version, replies: map[string]any{"GET /v1/nodes/a/vmedia": tt.drives}}
			there, err := newEngine(t, e).HasImage(t.Context(), "a")
			if there != tt.there || errors.Is(err, provisioner.ErrUnsupported) != tt.unsupported || err != nil && !tt.unsupported {
				t.Errorf("HasImage = %v, %v; want %v, unsupported %v", there, err, tt.there, tt.unsupported)
			}
		})
	}
}

func TestLaterFieldsAreReadWhereTheEngineHasThem(t *testing.T) {
	for version, want := range map[string][]string{"1.82": nil, "1.87": {"service_step"}, "1.108": {"service_step"}, "1.109": {"service_step", "health"}} {
		fields, err := newEngine(t, &upstream{version: version}).fields(t.Context())
		if err != nil || !slices.Equal(fields[len(nodeFields):], want) {
			t.Errorf("engine %s: fields %v, %v; want %v at the end", version, fields, err, want)
		}
	}
}

func TestHealthIsThatOfTheNode(t *testing.T) {
	e := &upstream{version: "1.109", nodes: []map[string]any{rawNode("a", map[string]any{"health": "Warning"})}}
	if n, err := newEngine(t, e).Node(t.Context(), "a"); err != nil || n.Health != "Warning" {
		t.Errorf("health %q, %v; want Warning", n.Health, err)
	}
}

func TestSettingsAndFirmwareAreReadWithTheirSchema(t *testing.T) {
	e := &upstream{replies: map[string]any{
		"GET /v1/nodes/a/bios": map[string]any{"bios": []any{map[string]any{
			"name": "Boot", "value": "5", "attribute_type": "Integer", "lower_bound": 0, "upper_bound": 9, "allowable_values": nil, "read_only": false,
		}}},
		"GET /v1/nodes/a/firmware": map[string]any{"firmware": []any{map[string]any{
			"component": "bmc", "initial_version": "1", "current_version": "2", "last_version_flashed": nil,
			"created_at": "2026-01-02T03:04:05+00:00", "updated_at": "2026-01-02T03:04:06+00:00",
		}}},
	}}
	engine := newEngine(t, e)
	settings, err := engine.Settings(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	lowest, highest, no := 0, 9, false
	wantSettings := []provisioner.Setting{{Name: "Boot", Value: "5", Schema: v1alpha1.SettingSchema{
		AttributeType: v1alpha1.AttributeInteger, LowerBound: &lowest, UpperBound: &highest, ReadOnly: &no,
	}}}
	if diff := cmp.Diff(wantSettings, settings); diff != "" {
		t.Errorf("settings differ (-want +got):\n%s", diff)
	}
	components, err := engine.Components(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	want := []provisioner.Component{{Name: "bmc", InitialVersion: "1", CurrentVersion: "2", UpdatedAt: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)}}
	if diff := cmp.Diff(want, components); diff != "" {
		t.Errorf("components differ (-want +got):\n%s", diff)
	}
}

func TestEmptyListsOfDriversWithoutThatAbility(t *testing.T) {
	for _, tt := range []struct {
		bios, firmware string
		want           bool
	}{{"no-bios", "no-firmware", true}, {"redfish", "redfish", false}} {
		e := &upstream{
			nodes: []map[string]any{rawNode("a", map[string]any{"bios_interface": tt.bios, "firmware_interface": tt.firmware})},
			replies: map[string]any{
				"GET /v1/nodes/a/bios": map[string]any{"bios": []any{}}, "GET /v1/nodes/a/firmware": map[string]any{"firmware": []any{}},
			},
		}
		engine := newEngine(t, e)
		_, bios := engine.Settings(t.Context(), "a")
		_, firmware := engine.Components(t.Context(), "a")
		if errors.Is(bios, provisioner.ErrUnsupported) != tt.want || errors.Is(firmware, provisioner.ErrUnsupported) != tt.want {
			t.Errorf("%+v: %v, %v", tt, bios, firmware)
		}
	}
}

func TestSubscriptionReturnsItsID(t *testing.T) {
	e := &upstream{replies: map[string]any{"POST /v1/nodes/a/vendor_passthru": map[string]any{"Id": "s1"}}}
	id, err := newEngine(t, e).Subscribe(t.Context(), "a", provisioner.Subscription{Destination: "https://h/", Context: "c", Headers: []map[string]string{{"A": "b"}}})
	if err != nil || id != "s1" {
		t.Errorf("subscription %q, %v", id, err)
	}
	want := []string{`POST /v1/nodes/a/vendor_passthru?method=create_subscription {"Context":"c","Destination":"https://h/","HttpHeaders":[{"A":"b"}]}`}
	if diff := cmp.Diff(want, mutations(e)); diff != "" {
		t.Errorf("calls differ (-want +got):\n%s", diff)
	}
}

func TestRefusalOfABMCDoesNotMeanThatTheEngineIsAway(t *testing.T) {
	for status, want := range map[int]error{500: provisioner.ErrFailed, 502: provisioner.ErrUnreachable, 503: provisioner.ErrUnreachable, 504: provisioner.ErrUnreachable} {
		const path = " /v1/nodes/a/vendor_passthru"
		e := &upstream{
			answers: map[string][]int{"POST" + path: {status}, "GET" + path: {status, status}, "DELETE" + path: {status}},
			refusal: "Redfish exception occurred. Error: Failed to create subscription on node a.",
		}
		engine := newEngine(t, e)
		_, subscribe := engine.Subscribe(t.Context(), "a", provisioner.Subscription{Destination: "https://h/"})
		_, list := engine.Subscriptions(t.Context(), "a")
		for call, err := range map[string]error{"subscribe": subscribe, "list": list, "unsubscribe": engine.Unsubscribe(t.Context(), "a", "s1")} {
			if !errors.Is(err, want) || errors.Is(err, provisioner.ErrUnreachable) != (status != 500) {
				t.Errorf("%s, answer %d: %v, want %v", call, status, err, want)
			}
		}
	}
}

func TestOnlyAMissingSubscriptionHasEnded(t *testing.T) {
	there := map[string]any{"Members": []any{map[string]any{"@odata.id": "/redfish/v1/EventService/Subscriptions/s1"}}}
	const path = " /v1/nodes/a/vendor_passthru"
	lists, resets := map[string]any{"get_all_subscriptions": map[string]any{}}, map[string]any{"bmc_reset": map[string]any{}}
	for name, tt := range map[string]struct {
		answer  int            // to the request to end it
		list    []int          // statuses of the list before it has s1
		gone    bool           // the node is gone, too
		methods map[string]any // of the driver
		id      string
		want    error
	}{
		"it is not there":                     {500, nil, false, lists, "gone", nil},
		"it is not there, the engine says":    {400, nil, false, lists, "gone", nil},
		"it is not there, nothing is found":   {404, nil, false, lists, "gone", nil},
		"the BMC fails":                       {500, nil, false, lists, "s1", provisioner.ErrFailed},
		"the BMC fails, and nothing is found": {404, nil, false, lists, "s1", provisioner.ErrFailed},
		"the BMC does not answer":             {404, []int{500}, false, lists, "s1", provisioner.ErrFailed},
		"the node has no conductor":           {404, []int{404}, false, lists, "s1", provisioner.ErrUnreachable},
		"the node is gone":                    {404, []int{404}, true, lists, "s1", nil},
		"the engine is busy":                  {503, nil, false, lists, "s1", provisioner.ErrUnreachable},
		"the driver has no such methods":      {400, []int{400}, false, resets, "s1", provisioner.ErrUnsupported},
		"the access to the BMC lacks a file":  {400, []int{400}, false, lists, "s1", provisioner.ErrInvalid},
	} {
		e := &upstream{
			nodes:   []map[string]any{rawNode("a", nil)},
			answers: map[string][]int{"DELETE" + path: {tt.answer}, "GET" + path: tt.list}, refusal: "Failed to delete",
			replies: map[string]any{"GET" + path: there, "GET" + path + "/methods": tt.methods},
		}
		if tt.gone {
			e.nodes = nil
		}
		if err := newEngine(t, e).Unsubscribe(t.Context(), "a", tt.id); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestSubscriptionsAreReadOneByOne(t *testing.T) {
	e := &upstream{replies: map[string]any{"GET /v1/nodes/a/vendor_passthru": map[string]any{
		"Members": []any{map[string]any{"@odata.id": "/redfish/v1/EventService/Subscriptions/s1"}},
		"Id":      "s1", "Destination": "https://events/", "Context": "rack1", "Protocol": "Redfish", "EventTypes": []string{"Alert"},
	}}}
	got, err := newEngine(t, e).Subscriptions(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	want := []provisioner.ActiveSubscription{{ID: "s1", Destination: "https://events/", Context: "rack1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subscriptions differ (-want +got):\n%s", diff)
	}
}
