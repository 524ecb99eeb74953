package ironic

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	client "github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// accessTo returns the access to a BMC by its address.
func accessTo(t *testing.T, address string) *bmc.Access {
	t.Helper()
	access, err := bmc.Parse(v1alpha1.BMCDetails{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	return &access
}

func webHost(t *testing.T) provisioner.Registration {
	t.Helper()
	return provisioner.Registration{
		Name: "metal~web", Mark: "c1/metal/web", BootMAC: "00:00:5E:00:53:01", Architecture: "x86_64",
		Access:      accessTo(t, "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1"),
		Credentials: bmc.Credentials{Username: "admin", Password: "secret"},
	}
}

// webNode returns the node of webHost, as engines show it.
func webNode(change map[string]any) map[string]any {
	return rawNode("a", merged(map[string]any{
		"name": "metal~web", "driver": "redfish", "extra": map[string]any{"ingot_host": "c1/metal/web", "rack": "7"},
		"boot_interface": "redfish-virtual-media", "firmware_interface": "redfish", "raid_interface": "redfish", "inspect_interface": "agent",
		"automated_clean": true, "provision_state": "manageable",
		"driver_info": map[string]any{
			"redfish_address": "https://192.0.2.1", "redfish_system_id": "/redfish/v1/Systems/1",
			"redfish_username": "admin", "redfish_password": "******", "redfish_auth_type": "basic",
		},
		"properties": map[string]any{"cpu_arch": "x86_64", "capabilities": "cpu_vt:true,boot_mode:uefi", "memory_mb": 4096},
	}, change))
}

func merged(base, change map[string]any) map[string]any {
	maps.Copy(base, change)
	return base
}

// decoded returns a node as the client decodes it.
func decoded(t *testing.T, document map[string]any) client.Node {
	t.Helper()
	var n client.Node
	text, err := json.Marshal(document)
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// operationsOf returns the operations as "op path value".
func operationsOf(t *testing.T, p patch) []string {
	t.Helper()
	var all []string
	for _, o := range p {
		value, err := json.Marshal(o.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSuffix(fmt.Sprintf("%s %s %s", o.Op, o.Path, value), " null"))
	}
	return all
}

var everything = engineAbilities{firmware: true, disablePowerOff: true, inspection: "agent"}

func TestOnlyDifferencesAreWritten(t *testing.T) {
	floppy := true
	ipmi := "ipmi://192.0.2.1"
	for name, tt := range map[string]struct {
		host    func(r *provisioner.Registration)
		node    map[string]any
		opts    provisioner.UpdateOptions
		ramdisk Ramdisk
		boot    PersistentBoot
		want    []string
	}{
		"nothing differs":                        {},
		"name":                                   {node: map[string]any{"name": nil}, want: []string{`add /name "metal~web"`}},
		"lock of an operator that came too late": {node: map[string]any{"instance_uuid": provisioner.Mark("c2/metal/web").Lock("a")}},
		"address": {
			host: func(r *provisioner.Registration) { r.Access = accessTo(t, "redfish-virtualmedia://192.0.2.2") },
			want: []string{
				`add /driver_info/redfish_address "https://192.0.2.2"`, `add /driver_info/redfish_password "secret"`,
				`add /driver_info/redfish_username "admin"`, `remove /driver_info/redfish_system_id`,
			},
		},
		"address, with credentials like those that are shown": {
			host: func(r *provisioner.Registration) {
				r.Access = accessTo(t, "redfish-virtualmedia://192.0.2.2/redfish/v1/Systems/1")
				r.Credentials.Password = "******"
			},
			want: []string{
				`add /driver_info/redfish_address "https://192.0.2.2"`, `add /driver_info/redfish_password "******"`,
				`add /driver_info/redfish_username "admin"`,
			},
		},
		"user name": {
			host: func(r *provisioner.Registration) { r.Credentials.Username = "root" },
			want: []string{`add /driver_info/redfish_password "secret"`, `add /driver_info/redfish_username "root"`},
		},
		"password, not known to differ": {host: func(r *provisioner.Registration) { r.Credentials.Password = "new" }},
		"password": {
			host: func(r *provisioner.Registration) { r.Credentials.Password = "new" },
			opts: provisioner.UpdateOptions{WithCredentials: true},
			want: []string{`add /driver_info/redfish_password "new"`, `add /driver_info/redfish_username "admin"`},
		},
		"certificate": {
			host: func(r *provisioner.Registration) { r.Access.Settings["redfish_verify_ca"] = false },
			want: []string{
				`add /driver_info/redfish_password "secret"`, `add /driver_info/redfish_username "admin"`, `add /driver_info/redfish_verify_ca false`,
			},
		},
		"verification of certificates is on again": {
			node: map[string]any{"driver_info": merged(maps.Clone(webNode(nil)["driver_info"].(map[string]any)), map[string]any{"redfish_verify_ca": false})},
			want: []string{
				`add /driver_info/redfish_password "secret"`, `add /driver_info/redfish_username "admin"`, `remove /driver_info/redfish_verify_ca`,
			},
		},
		"authority that a person named": {
			node: map[string]any{"driver_info": merged(maps.Clone(webNode(nil)["driver_info"].(map[string]any)), map[string]any{"redfish_verify_ca": "/etc/ca.pem"})},
		},
		"ramdisk that is kept": {
			host: func(r *provisioner.Registration) { r.KeepRamdisk = true },
			node: map[string]any{"network_data": map[string]any{"links": []any{}}, "driver_info": merged(maps.Clone(webNode(nil)["driver_info"].(map[string]any)), map[string]any{"deploy_iso": "http://h/built.iso"})},
		},
		"ramdisk that is not kept": {
			node: map[string]any{"driver_info": merged(maps.Clone(webNode(nil)["driver_info"].(map[string]any)), map[string]any{"deploy_iso": "http://h/built.iso"})},
			want: []string{`remove /driver_info/deploy_iso`},
		},
		"boot mode at another place": {
			node: map[string]any{"properties": map[string]any{"cpu_arch": "x86_64", "capabilities": "boot_mode:uefi,cpu_vt:true"}},
		},
		"another driver": {
			host: func(r *provisioner.Registration) { r.Access = accessTo(t, ipmi) },
			want: []string{
				`add /driver "ipmi"`, `add /boot_interface "ipxe"`, `add /inspect_interface "agent"`, `add /raid_interface "no-raid"`,
				`add /driver_info/ipmi_address "192.0.2.1"`, `add /driver_info/ipmi_password "secret"`, `add /driver_info/ipmi_port "623"`,
				`add /driver_info/ipmi_priv_level "ADMINISTRATOR"`, `add /driver_info/ipmi_username "admin"`,
				`remove /driver_info/redfish_address`, `remove /driver_info/redfish_auth_type`, `remove /driver_info/redfish_password`,
				`remove /driver_info/redfish_system_id`, `remove /driver_info/redfish_username`,
			},
		},
		"discovered machine gets a BMC": {
			node: map[string]any{
				"driver": "manual-management", "boot_interface": "ipxe", "firmware_interface": "no-firmware", "raid_interface": "agent",
				"provision_state": "available", "driver_info": map[string]any{"bmc_address": "192.0.2.1"},
			},
			want: []string{
				`add /driver "redfish"`, `add /boot_interface "redfish-virtual-media"`, `add /firmware_interface "redfish"`,
				`add /inspect_interface "agent"`, `add /raid_interface "redfish"`,
				`add /driver_info/redfish_address "https://192.0.2.1"`, `add /driver_info/redfish_password "secret"`,
				`add /driver_info/redfish_system_id "/redfish/v1/Systems/1"`, `add /driver_info/redfish_username "admin"`,
			},
		},
		"no BMC that we know": {
			host: func(r *provisioner.Registration) { r.Access = nil },
			node: map[string]any{"driver": "manual-management", "driver_info": map[string]any{"deploy_iso": "http://h/x"}},
		},
		"volumes of the operating system keep their interface": {node: map[string]any{"raid_interface": "agent"}},
		"interface of an active node waits": {
			host: func(r *provisioner.Registration) { r.InspectionMode = v1alpha1.InspectionModeFast },
			node: map[string]any{"provision_state": "active"},
		},
		"interface of a node that is inspected waits": {
			host: func(r *provisioner.Registration) { r.InspectionMode = v1alpha1.InspectionModeFast },
			node: map[string]any{"provision_state": "inspect wait"},
		},
		"interface of an active node in maintenance": {
			host: func(r *provisioner.Registration) { r.InspectionMode = v1alpha1.InspectionModeFast },
			node: map[string]any{"provision_state": "active", "maintenance": true},
			want: []string{`add /inspect_interface "redfish"`},
		},
		"ramdisk of the engine": {
			node: map[string]any{"driver_info": merged(maps.Clone(webNode(nil)["driver_info"].(map[string]any)), map[string]any{"deploy_iso": "http://h/old.iso"})},
			want: []string{`remove /driver_info/deploy_iso`},
		},
		"ramdisk of the operator": {
			ramdisk: Ramdisk{Kernel: "http://h/k", Ramdisk: "http://h/r", ISO: "http://h/i", Bootloader: "http://h/b"},
			want:    []string{`add /driver_info/bootloader "http://h/b"`, `add /driver_info/deploy_iso "http://h/i"`},
		},
		"ramdisk of the host": {
			host: func(r *provisioner.Registration) {
				r.RamdiskImage = &provisioner.RamdiskImage{Ramdisk: "http://h/own", KernelParams: "a=b"}
			},
			ramdisk: Ramdisk{Kernel: "http://h/k", Ramdisk: "http://h/r", ISO: "http://h/i"},
			want: []string{
				`add /driver_info/deploy_kernel "http://h/k"`, `add /driver_info/deploy_ramdisk "http://h/own"`,
				`add /driver_info/kernel_append_params "%default% a=b"`,
			},
		},
		"secure boot": {
			host: func(r *provisioner.Registration) { r.BootMode = v1alpha1.BootModeUEFISecureBoot },
			want: []string{`add /properties/capabilities "cpu_vt:true,boot_mode:uefi,secure_boot:true"`},
		},
		"no more secure boot": {
			host: func(r *provisioner.Registration) { r.BootMode = v1alpha1.BootModeLegacy },
			node: map[string]any{"properties": map[string]any{"cpu_arch": "x86_64", "capabilities": "boot_mode:uefi, secure_boot:true"}},
			want: []string{`add /properties/capabilities "boot_mode:bios"`},
		},
		"hints": {
			host: func(r *provisioner.Registration) {
				r.RootDevice = &v1alpha1.RootDeviceHints{DeviceName: "/dev/sda", Model: "Fast", MinSizeGigabytes: 9, Rotational: &floppy}
			},
			want: []string{`add /properties/root_device {"model":"\u003cin\u003e Fast","name":"s== /dev/sda","rotational":"true","size":"\u003e= 9"}`},
		},
		"hints that are gone": {
			node: map[string]any{"properties": merged(maps.Clone(webNode(nil)["properties"].(map[string]any)), map[string]any{"root_device": map[string]any{"name": "s== /dev/sda"}})},
			want: []string{`remove /properties/root_device`},
		},
		"root volume": {
			node: map[string]any{
				"properties":  merged(maps.Clone(webNode(nil)["properties"].(map[string]any)), map[string]any{"root_device": map[string]any{"wwn": "0x1"}}),
				"raid_config": map[string]any{"logical_disks": []any{map[string]any{"root_device_hint": map[string]any{"wwn": "0x1"}}}},
			},
		},
		"cleaning is off": {
			host: func(r *provisioner.Registration) { r.SkipAutomatedCleaning = true },
			want: []string{`add /automated_clean false`},
		},
		"cleaning is on again":       {node: map[string]any{"automated_clean": false}, want: []string{`add /automated_clean true`}},
		"cleaning was never decided": {node: map[string]any{"automated_clean": nil}, want: []string{`add /automated_clean true`}},
		"power stays on": {
			host: func(r *provisioner.Registration) { r.DisablePowerOff = true },
			want: []string{`add /disable_power_off true`},
		},
		"network of the ramdisk": {
			host: func(r *provisioner.Registration) { r.NetworkData = []byte(`{"links": []}`) },
			want: []string{`add /network_data {"links":[]}`},
		},
		"no network of the ramdisk": {node: map[string]any{"network_data": map[string]any{"links": []any{}}}, want: []string{`remove /network_data`}},
		"left by a deployment": {
			node: map[string]any{"provision_state": "available", "instance_info": map[string]any{"image_source": "http://h/x"}, "instance_uuid": "i1"},
			want: []string{`add /instance_info {}`, `remove /instance_uuid`},
		},
		"deployment of an active node": {node: map[string]any{"provision_state": "active", "instance_info": map[string]any{"image_source": "http://h/x"}, "instance_uuid": "i1"}},
		"adoption": {
			host: func(r *provisioner.Registration) {
				r.Deployed = &provisioner.Deployment{InstanceID: "i1", Image: &v1alpha1.Image{URL: "http://h/os", Checksum: "http://h/sums"}}
			},
			want: []string{
				`add /instance_info/capabilities {"boot_mode":"uefi"}`, `add /instance_info/image_checksum "http://h/sums"`,
				`add /instance_info/image_source "http://h/os"`, `add /instance_uuid "i1"`,
			},
		},
		"adoption with boot devices that do not last": {
			host: func(r *provisioner.Registration) {
				r.Deployed = &provisioner.Deployment{InstanceID: "i1", Image: &v1alpha1.Image{URL: "http://h/os"}}
			},
			boot: PersistentBoot{DirectDeploy: "Never"},
			want: []string{
				`add /instance_info/capabilities {"boot_mode":"uefi"}`, `add /instance_info/image_source "http://h/os"`,
				`add /instance_uuid "i1"`, `add /driver_info/force_persistent_boot_device "Never"`,
			},
		},
		"adoption of what somebody else deployed": {
			host: func(r *provisioner.Registration) { r.Deployed = &provisioner.Deployment{InstanceID: "i1"} },
			want: []string{`add /instance_info/capabilities {"boot_mode":"uefi"}`, `add /instance_uuid "i1"`, `add /deploy_interface "custom-agent"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := webHost(t)
			if tt.host != nil {
				tt.host(&r)
			}
			got, _, err := changesOf(decoded(t, webNode(tt.node)), r, tt.opts, everything, Options{Ramdisk: tt.ramdisk, PersistentBoot: tt.boot})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, operationsOf(t, got)); diff != "" {
				t.Errorf("operations differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUpdateSaysThatAnInterfaceHasToWaitForAnotherState(t *testing.T) {
	fast := func(r *provisioner.Registration) { r.InspectionMode = v1alpha1.InspectionModeFast }
	deployed := func(r *provisioner.Registration) { r.Deployed = &provisioner.Deployment{InstanceID: "i1"} }
	for name, tt := range map[string]struct {
		host func(r *provisioner.Registration)
		node map[string]any
		want bool
	}{
		"none differs after a failed inspection":   {func(*provisioner.Registration) {}, map[string]any{"provision_state": "inspect failed"}, false},
		"one differs after a failed inspection":    {fast, map[string]any{"provision_state": "inspect failed"}, true},
		"one differs in maintenance":               {fast, map[string]any{"provision_state": "inspect failed", "maintenance": true}, false},
		"one differs during an inspection":         {fast, map[string]any{"provision_state": "inspect wait"}, true},
		"one differs once the node is managed":     {fast, map[string]any{"provision_state": "manageable"}, false},
		"one differs while something is deployed":  {fast, map[string]any{"provision_state": "active"}, true},
		"the driver is replaced with all of them":  {fast, map[string]any{"provision_state": "inspect failed", "driver": "manual-management"}, false},
		"that of a deployment to be adopted":       {deployed, map[string]any{"provision_state": "adopt failed"}, true},
		"that of a deployment, before it is asked": {deployed, map[string]any{"provision_state": "manageable"}, false},
		"that of a deployment, which is there":     {deployed, map[string]any{"provision_state": "adopt failed", "deploy_interface": "custom-agent"}, false},
	} {
		e := &upstream{nodes: []map[string]any{webNode(tt.node)}, ports: []string{"00:00:5e:00:53:01"}, answers: map[string][]int{
			"PUT /v1/nodes/a/maintenance": {202}, "DELETE /v1/nodes/a/maintenance": {202},
		}}
		r := webHost(t)
		tt.host(&r)
		n, err := newEngine(t, e).Update(t.Context(), "a", r, provisioner.UpdateOptions{})
		if err != nil || n.PutOff != tt.want {
			t.Errorf("%s: put off %v, %v; want %v", name, n.PutOff, err, tt.want)
		}
	}
}

func TestDriverOfANodeInUseIsReplacedInMaintenance(t *testing.T) {
	const patched, set, unset = "PATCH /v1/nodes/a?reset_interfaces=true", "PUT /v1/nodes/a/maintenance", "DELETE /v1/nodes/a/maintenance"
	other := map[string]any{"driver": "manual-management", "driver_info": map[string]any{}, "provision_state": "active"}
	person := map[string]any{"maintenance": true, "maintenance_reason": "new disk"}
	ended := map[string]any{"maintenance": true, "maintenance_reason": driverChange}
	for name, tt := range map[string]struct {
		node map[string]any
		want []string
	}{
		"in use":                          {other, []string{set, patched, unset}},
		"free":                            {merged(maps.Clone(other), map[string]any{"provision_state": "available"}), []string{patched}},
		"in maintenance of a person":      {merged(maps.Clone(other), person), []string{patched}},
		"the process ended before":        {merged(maps.Clone(other), ended), []string{patched, unset}},
		"the process ended after":         {merged(map[string]any{"provision_state": "active"}, ended), []string{unset}},
		"nothing differs, and a person's": {merged(map[string]any{"provision_state": "active"}, person), nil},
	} {
		e := &upstream{nodes: []map[string]any{webNode(tt.node)}, ports: []string{"00:00:5e:00:53:01"}, answers: map[string][]int{
			"PUT /v1/nodes/a/maintenance": {202}, "DELETE /v1/nodes/a/maintenance": {202},
		}}
		if _, err := newEngine(t, e).Update(t.Context(), "a", webHost(t), provisioner.UpdateOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for _, call := range mutations(e) {
			method, _, _ := strings.Cut(call, " [")
			method, _, _ = strings.Cut(method, " {")
			got = append(got, method)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: calls differ (-want +got):\n%s", name, diff)
		}
	}
}

func TestReplacedDriverGetsItsOwnInterfaces(t *testing.T) {
	e := &upstream{nodes: []map[string]any{webNode(map[string]any{"driver": "manual-management", "driver_info": map[string]any{}})}, ports: []string{"00:00:5e:00:53:01"}}
	if _, err := newEngine(t, e).Update(t.Context(), "a", webHost(t), provisioner.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := mutations(e); len(got) != 1 || !strings.HasPrefix(got[0], "PATCH /v1/nodes/a?reset_interfaces=true [") {
		t.Errorf("calls %v, want one that resets the interfaces", got)
	}
}

func TestInstanceOfTheClusterThatAHostCameFromIsRemovedBeforeItsOwnIsSet(t *testing.T) {
	const own, former = "70c857e9-f6bb-4138-b0ac-eddbc52b3b8c", "0b1f0fd3-0c3c-4e0c-9e5e-8d2e6f5d1a11"
	removed, set := `{"op":"remove","path":"/instance_uuid"}`, `{"op":"add","path":"/instance_uuid","value":"`+own+`"}`
	for name, tt := range map[string]struct {
		node map[string]any
		want []string // operations on the instance ID, by request
	}{
		"adoption has not ended": {map[string]any{"provision_state": "manageable", "instance_uuid": former}, []string{removed, set}},
		"adoption has failed":    {map[string]any{"provision_state": "adopt failed", "instance_uuid": former}, []string{removed, set}},
		"its own":                {map[string]any{"provision_state": "manageable", "instance_uuid": own}, nil},
		"none":                   {map[string]any{"provision_state": "manageable"}, []string{set}},
		"in use":                 {map[string]any{"provision_state": "active", "instance_uuid": former}, nil},
	} {
		e := &upstream{nodes: []map[string]any{webNode(tt.node)}, ports: []string{"00:00:5e:00:53:01"}}
		r := webHost(t)
		r.Deployed = &provisioner.Deployment{InstanceID: own}
		if _, err := newEngine(t, e).Update(t.Context(), "a", r, provisioner.UpdateOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for _, call := range mutations(e) {
			for _, operation := range []string{removed, set} {
				if strings.Contains(call, operation) {
					got = append(got, operation)
				}
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: operations differ (-want +got):\n%s", name, diff)
		}
	}
}

func TestUpdateWithoutDifferenceChangesNothing(t *testing.T) {
	e := &upstream{nodes: []map[string]any{webNode(nil)}, ports: []string{"00:00:5e:00:53:01"}}
	n, err := newEngine(t, e).Update(t.Context(), "a", webHost(t), provisioner.UpdateOptions{})
	if err != nil || n.ID != "a" {
		t.Errorf("node %+v, %v", n, err)
	}
	if got := mutations(e); got != nil {
		t.Errorf("calls %v", got)
	}
}

func TestEngineThatChecksNetworkDataLetsThemBeRemoved(t *testing.T) {
	network := map[string]any{"links": []any{}, "networks": []any{}, "services": []any{}}
	e := &upstream{nodes: []map[string]any{webNode(map[string]any{"network_data": network})}, ports: []string{"00:00:5e:00:53:01"}}
	if _, err := newEngine(t, e).Update(t.Context(), "a", webHost(t), provisioner.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := []string{`PATCH /v1/nodes/a [{"op":"remove","path":"/network_data"}]`}
	if diff := cmp.Diff(want, mutations(e)); diff != "" {
		t.Errorf("calls differ (-want +got):\n%s", diff)
	}
}

func TestUpdateCreatesAMissingPort(t *testing.T) {
	e := &upstream{nodes: []map[string]any{webNode(nil)}}
	if _, err := newEngine(t, e).Update(t.Context(), "a", webHost(t), provisioner.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := []string{`POST /v1/ports {"address":"00:00:5e:00:53:01","node_uuid":"a","pxe_enabled":true}`}
	if diff := cmp.Diff(want, mutations(e)); diff != "" {
		t.Errorf("calls differ (-want +got):\n%s", diff)
	}
}

func TestNodeGetsPortsForTheKnownNICsOfItsMachineThatNoOtherNodeHas(t *testing.T) {
	port := func(nic byte, pxe bool) string {
		return fmt.Sprintf(`POST /v1/ports {"address":"00:00:5e:00:53:0%c","node_uuid":"a","pxe_enabled":%v}`, nic, pxe)
	}
	nics := []provisioner.NIC{{MAC: "00:00:5e:00:53:01"}, {MAC: "00:00:5e:00:53:02", PXE: true}, {MAC: "00:00:5e:00:53:03"}}
	for name, tt := range map[string]struct {
		boot    string
		present []string
		answers []int // to the requests for ports
		want    []string
		err     error
	}{
		"beside the one that boots": {"00:00:5E:00:53:01", nil, nil, []string{port('1', true), port('2', true), port('3', false)}, nil},
		"nobody knows which boots":  {"", nil, nil, []string{port('1', false), port('2', true), port('3', false)}, nil},
		"one is there":              {"", []string{"00:00:5e:00:53:02"}, nil, []string{port('1', false), port('3', false)}, nil},
		"another node has one":      {"", nil, []int{409}, []string{port('1', false), port('2', true), port('3', false)}, nil},
		"another node has that":     {"00:00:5E:00:53:01", nil, []int{409}, []string{port('1', true)}, provisioner.ErrConflict},
		"the engine is down":        {"", nil, []int{503}, []string{port('1', false)}, provisioner.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			e := &upstream{
				nodes: []map[string]any{webNode(map[string]any{"provision_state": "enroll"})}, ports: tt.present,
				answers: map[string][]int{"POST /v1/ports": tt.answers}, refusal: "A port with this MAC address already exists.",
			}
			r := webHost(t)
			r.BootMAC, r.NICs = tt.boot, nics
			if _, err := newEngine(t, e).Update(t.Context(), "a", r, provisioner.UpdateOptions{}); !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, mutations(e)); diff != "" {
				t.Errorf("calls differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodeWithoutTheMarkOfTheHostIsNotUpdated(t *testing.T) {
	for _, extra := range []map[string]any{{"ingot_host": "c1/metal/db"}, {}} {
		e := &upstream{nodes: []map[string]any{webNode(map[string]any{"extra": extra})}}
		if _, err := newEngine(t, e).Update(t.Context(), "a", webHost(t), provisioner.UpdateOptions{}); !errors.Is(err, provisioner.ErrNotOwned) {
			t.Errorf("%v: error = %v, want not owned", extra, err)
		}
		if got := mutations(e); got != nil {
			t.Errorf("%v: calls %v", extra, got)
		}
	}
}

func TestNodeIsCreatedWithItsPort(t *testing.T) {
	e := &upstream{}
	r := webHost(t)
	r.DisablePowerOff = true
	if _, err := newEngine(t, e).Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`POST /v1/nodes {"automated_clean":true,"boot_interface":"redfish-virtual-media","disable_power_off":true,"driver":"redfish",` +
			`"driver_info":{"redfish_address":"https://192.0.2.1","redfish_password":"secret","redfish_system_id":"/redfish/v1/Systems/1","redfish_username":"admin"},` +
			`"extra":{"ingot_host":"c1/metal/web"},"firmware_interface":"redfish","inspect_interface":"agent","name":"metal~web",` +
			`"properties":{"capabilities":"boot_mode:uefi","cpu_arch":"x86_64"},"raid_interface":"redfish"}`,
		`POST /v1/ports {"address":"00:00:5e:00:53:01","node_uuid":"a","pxe_enabled":true}`,
	}
	if diff := cmp.Diff(want, mutations(e)); diff != "" {
		t.Errorf("calls differ (-want +got):\n%s", diff)
	}
}

func TestAdoptedNodeIsCreatedWithWhatRunsOnIt(t *testing.T) {
	created := webNode(map[string]any{"provision_state": "enroll", "properties": map[string]any{"cpu_arch": "x86_64", "capabilities": "boot_mode:uefi"}})
	e := &upstream{nodes: []map[string]any{created}, ports: []string{"00:00:5e:00:53:01"}}
	r := webHost(t)
	r.Deployed = &provisioner.Deployment{InstanceID: "i1"}
	if _, err := newEngine(t, e).Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	want := `PATCH /v1/nodes/a [{"op":"add","path":"/instance_info/capabilities","value":{"boot_mode":"uefi"}},` +
		`{"op":"add","path":"/instance_uuid","value":"i1"},{"op":"add","path":"/deploy_interface","value":"custom-agent"}]`
	if got := mutations(e); len(got) != 2 || got[1] != want {
		t.Errorf("calls %q, want the second to be %s", got, want)
	}
}

func TestOldEngineIsNotAskedForWhatItLacks(t *testing.T) {
	e := &upstream{version: "1.82", inspects: []string{"inspector"}}
	engine, r := newEngine(t, e), webHost(t)
	if _, err := engine.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"firmware_interface", "disable_power_off"} {
		if strings.Contains(mutations(e)[0], field) {
			t.Errorf("the node is created with %s: %s", field, mutations(e)[0])
		}
	}
	r.DisablePowerOff = true
	if _, err := engine.Create(t.Context(), r); !errors.Is(err, provisioner.ErrUnsupported) {
		t.Errorf("disabled power-off: %v, want unsupported", err)
	}
}

func TestMachinesAreInspectedWithWhatTheEngineHas(t *testing.T) {
	for name, tt := range map[string]struct {
		version  string
		inspects []string
		mode     v1alpha1.InspectionMode
		want     string // part of the request, or of the error
	}{
		"a recent engine is not asked":  {"1.88", nil, "", `"inspect_interface":"agent"`},
		"with the ramdisk alone":        {"1.87", []string{"inspector", "agent"}, "", `"inspect_interface":"agent"`},
		"with ironic-inspector":         {"1.82", []string{"no-inspect", "inspector"}, "", `"inspect_interface":"inspector"`},
		"through the BMC":               {"1.82", []string{"redfish"}, v1alpha1.InspectionModeFast, `"inspect_interface":"redfish"`},
		"nothing boots the ramdisk":     {"1.82", []string{"redfish", "no-inspect"}, "", "enable agent or inspector there"},
		"nothing does, and nobody asks": {"1.82", []string{"no-inspect"}, v1alpha1.InspectionModeDisabled, `"driver":"redfish"`},
	} {
		t.Run(name, func(t *testing.T) {
			e := &upstream{version: tt.version, inspects: tt.inspects}
			r := webHost(t)
			r.InspectionMode = tt.mode
			_, err := newEngine(t, e).Create(t.Context(), r)
			if text := strings.Join(mutations(e), "\n") + fmt.Sprint(err); !strings.Contains(text, tt.want) {
				t.Errorf("got %s, want %s", text, tt.want)
			}
		})
	}
}

func TestDriverOfAVendorIsReplacedWhereTheEngineLacksIt(t *testing.T) {
	for _, tt := range []struct {
		drivers       []string
		want, inspect string
	}{
		{[]string{"idrac", "redfish"}, `"driver":"idrac"`, `"inspect_interface":"idrac-redfish"`},
		{[]string{"redfish"}, `"driver":"redfish"`, `"inspect_interface":"redfish"`},
	} {
		e := &upstream{drivers: tt.drivers}
		r := webHost(t)
		r.InspectionMode = v1alpha1.InspectionModeFast
		r.Access = accessTo(t, "idrac-virtualmedia://192.0.2.1/redfish/v1/Systems/1")
		if _, err := newEngine(t, e).Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if got := mutations(e)[0]; !strings.Contains(got, tt.want) || !strings.Contains(got, tt.inspect) {
			t.Errorf("engine with %v: %s", tt.drivers, got)
		}
	}
}

func TestTakenNameOrAddressIsAConflict(t *testing.T) {
	for _, tt := range []struct{ call, text string }{
		{"POST /v1/nodes", "A node with name metal~web already exists."},
		{"POST /v1/ports", "A port with MAC address 00:00:5e:00:53:01 already exists."},
	} {
		e := &upstream{answers: map[string][]int{tt.call: {409}}, refusal: tt.text}
		if _, err := newEngine(t, e).Create(t.Context(), webHost(t)); !errors.Is(err, provisioner.ErrConflict) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want a conflict", tt.call, err)
		}
	}
}
