//go:build compat

package compat_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/inventory"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/conductors"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/drivers"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
)

// TestGophercloudReadsEveryPage reads lists in pages of every size. gophercloud follows nodes_links
// and ports_links.
func TestGophercloudReadsEveryPage(t *testing.T) {
	t.Parallel()
	const count = 27
	c, ctx := client(t, serveEngine(t), "1.50"), t.Context()
	var want, wantPorts []string
	for i := range count {
		n, err := nodes.Create(ctx, c, nodes.CreateOpts{Driver: "fake-hardware"}).Extract()
		must(t, "create node", err)
		port, err := ports.Create(ctx, c, ports.CreateOpts{NodeUUID: n.UUID, Address: fmt.Sprintf("52:54:00:01:00:%02x", i)}).Extract()
		must(t, "create port", err)
		want, wantPorts = append(want, n.UUID), append(wantPorts, port.UUID)
	}
	for _, limit := range []int{0, 1, 9, 25, 26, 27, 28} {
		for _, c.Microversion = range microversions {
			for _, detail := range []bool{false, true} {
				if diff := cmp.Diff(want, listNodes(t, c, detail, nodes.ListOpts{Limit: limit})); diff != "" {
					t.Errorf("nodes, detail %v, limit %d at %s (-want +got):\n%s", detail, limit, c.Microversion, diff)
				}
			}
			if diff := cmp.Diff(wantPorts, listPorts(t, c, ports.ListOpts{Limit: limit})); diff != "" {
				t.Errorf("ports, limit %d at %s (-want +got):\n%s", limit, c.Microversion, diff)
			}
		}
	}
	got := listNodes(t, c, false, nodes.ListOpts{Limit: 4, SortKey: "uuid", SortDir: "desc", Driver: "fake-hardware"})
	slices.Reverse(got)
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), got); diff != "" {
		t.Errorf("pages with a filter and an order (-want +got):\n%s", diff)
	}
}

// TestGophercloudReadsBeyondTheLargestPage lists more nodes than one answer has, without a limit.
func TestGophercloudReadsBeyondTheLargestPage(t *testing.T) {
	t.Parallel()
	const creators, each = 16, 65
	url := serveEngine(t)
	created := make(chan string, creators*each)
	var creating sync.WaitGroup
	for range creators {
		creating.Go(func() {
			for range each {
				n, err := nodes.Create(t.Context(), client(t, url, "1.50"), nodes.CreateOpts{Driver: "fake-hardware"}).Extract()
				if err != nil {
					t.Errorf("create node: %v", err)
					return
				}
				created <- n.UUID
			}
		})
	}
	creating.Wait()
	close(created)
	var want []string
	for uuid := range created {
		want = append(want, uuid)
	}
	slices.Sort(want)
	for _, detail := range []bool{false, true} {
		got := listNodes(t, client(t, url, "1.84"), detail, nodes.ListOpts{})
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || len(want) <= 1000 {
			t.Errorf("detail %v: %d nodes were created, %d listed (-want +got):\n%s", detail, len(want), len(got), diff)
		}
	}
}

// listNodes reads all pages of a list of nodes.
func listNodes(t *testing.T, c *gophercloud.ServiceClient, detail bool, opts nodes.ListOpts) []string {
	t.Helper()
	pager := nodes.List(c, opts)
	if detail {
		pager = nodes.ListDetail(c, opts)
	}
	pages, err := pager.AllPages(t.Context())
	must(t, "list nodes", err)
	listed, err := nodes.ExtractNodes(pages)
	must(t, "extract nodes", err)
	uuids := make([]string, len(listed))
	for i, n := range listed {
		uuids[i] = n.UUID
	}
	return uuids
}

// listPorts reads all pages of a list of ports.
func listPorts(t *testing.T, c *gophercloud.ServiceClient, opts ports.ListOpts) []string {
	t.Helper()
	pages, err := ports.List(c, opts).AllPages(t.Context())
	must(t, "list ports", err)
	listed, err := ports.ExtractPorts(pages)
	must(t, "extract ports", err)
	uuids := make([]string, len(listed))
	for i, p := range listed {
		uuids[i] = p.UUID
	}
	return uuids
}

// document is what an invented machine posts.
const document = `{"inventory":{"interfaces":[{"name":"eno1","mac_address":"52:54:00:12:34:56","ipv4_address":"192.0.2.101","ipv6_address":null,` +
	`"has_carrier":true,"vendor":"0x8086","product":"0x1533","lldp":[[1,"04112233aabb01"],[2,"0545746831"],[0,""]],"speed_mbps":1000,"pci_address":"0000:01:00.0"},` +
	`{"name":"eno2","mac_address":"52:54:00:12:34:57","ipv4_address":null,"ipv6_address":null,"has_carrier":false,"vendor":"0x8086","product":"0x1533","lldp":null,"speed_mbps":null}],` +
	`"cpu":{"model_name":"ACME 9000","frequency":"3100.0","count":16,"architecture":"x86_64","flags":["vmx","aes"],"socket_count":1},` +
	`"memory":{"total":67108864000,"physical_mb":65536},"disks":[{"name":"/dev/sda","model":"ACME SSD","size":480103981056,"rotational":false,` +
	`"wwn":"0x5000c500a1","serial":"S1","vendor":"ACME","hctl":"0:0:0:0","by_path":"/dev/disk/by-path/pci-0000:00:1f.2-ata-1"}],` +
	`"bmc_address":"192.0.2.17","bmc_v6address":"::/0","hostname":"ramdisk","system_vendor":{"product_name":"Box 1","serial_number":"SN42",` +
	`"manufacturer":"ACME","firmware":{"vendor":"ACME","version":"1.2","build_date":"01/02/2030"}},"boot":{"current_boot_mode":"uefi","pxe_interface":"52:54:00:12:34:56"}},` +
	`"root_disk":{"name":"/dev/sda","size":480103981056,"serial":"S1"},"boot_interface":"52:54:00:12:34:56","error":null,` +
	`"configuration":{"collectors":["default","logs"],"managers":[{"name":"generic_hardware_manager","version":"1.2"}]},"logs":"H4sIAAAA"}`

func TestGophercloudReadsInventories(t *testing.T) {
	url := serveEngine(t)
	uuid := postInspection(t, url, document)
	for _, microversion := range []string{"1.81", "1.84"} {
		c := client(t, url, microversion)
		data, err := nodes.GetInventory(t.Context(), c, uuid).Extract()
		must(t, "get inventory", err)
		first := inventory.InterfaceType{
			Name: "eno1", MACAddress: "52:54:00:12:34:56", IPV4Address: "192.0.2.101", HasCarrier: true,
			Vendor: "0x8086", Product: "0x1533", SpeedMbps: 1000, PCIAddress: "0000:01:00.0",
		}
		second := inventory.InterfaceType{Name: "eno2", MACAddress: "52:54:00:12:34:57", Vendor: "0x8086", Product: "0x1533"}
		disk := inventory.RootDiskType{
			Name: "/dev/sda", Model: "ACME SSD", Size: 480103981056, Wwn: "0x5000c500a1", Serial: "S1", Vendor: "ACME",
			Hctl: "0:0:0:0", ByPath: "/dev/disk/by-path/pci-0000:00:1f.2-ata-1",
		}
		want := inventory.InventoryType{
			BmcAddress: "192.0.2.17", Hostname: "ramdisk",
			Boot:       inventory.BootInfoType{CurrentBootMode: "uefi", PXEInterface: "52:54:00:12:34:56"},
			CPU:        inventory.CPUType{Architecture: "x86_64", Count: 16, Flags: []string{"vmx", "aes"}, Frequency: "3100.0", ModelName: "ACME 9000", RealFrequency: "3100.0"},
			Disks:      []inventory.RootDiskType{disk},
			Interfaces: []inventory.InterfaceType{first, second},
			Memory:     inventory.MemoryType{PhysicalMb: 65536, Total: 67108864000},
			SystemVendor: inventory.SystemVendorType{
				Manufacturer: "ACME", ProductName: "Box 1", SerialNumber: "SN42",
				Firmware: inventory.SystemFirmwareType{Vendor: "ACME", Version: "1.2", BuildDate: "01/02/2030"},
			},
		}
		if diff := cmp.Diff(want, data.Inventory); diff != "" {
			t.Errorf("inventory at %s (-want +got):\n%s", microversion, diff)
		}
		plugins, err := data.PluginData.AsStandardData()
		must(t, "read plugin data", err)
		booted := inventory.ProcessedInterfaceType{InterfaceType: first, PXEEnabled: true}
		if diff := cmp.Diff(booted, plugins.AllInterfaces["eno1"]); diff != "" || plugins.AllInterfaces["eno2"].PXEEnabled {
			t.Errorf("all_interfaces (-want +got):\n%s", diff)
		}
		if plugins.RootDisk.Serial != "S1" || plugins.BootInterface != first.MACAddress || plugins.Error != "" || len(plugins.ValidInterfaces) != 2 || len(plugins.Configuration.Managers) != 1 {
			t.Errorf("plugin data is %+v", plugins)
		}
		slices.Sort(plugins.MACs)
		if diff := cmp.Diff([]string{first.MACAddress, second.MACAddress}, plugins.MACs); diff != "" {
			t.Errorf("macs (-want +got):\n%s", diff)
		}
	}
	if _, err := nodes.GetInventory(t.Context(), client(t, url, "1.80"), uuid).Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("inventory at 1.80: got %v, want 404", err)
	}
}

func TestGophercloudReadsDriversAndConductors(t *testing.T) {
	url := serveEngine(t)
	for _, microversion := range microversions {
		t.Run(microversion, func(t *testing.T) {
			c, ctx := client(t, url, microversion), t.Context()
			pages, err := drivers.ListDrivers(c, drivers.ListDriversOpts{}).AllPages(ctx)
			must(t, "list drivers", err)
			listed, err := drivers.ExtractDrivers(pages)
			must(t, "extract drivers", err)
			var names []string
			for _, d := range listed {
				names = append(names, d.Name)
				if diff := cmp.Diff([]string{"conductor.example.org"}, d.Hosts); diff != "" {
					t.Errorf("hosts of %s (-want +got):\n%s", d.Name, diff)
				}
			}
			if diff := cmp.Diff([]string{"fake-hardware", "ipmi", "manual-management", "redfish"}, names); diff != "" {
				t.Errorf("drivers (-want +got):\n%s", diff)
			}
			one, err := drivers.GetDriverDetails(ctx, c, "manual-management").Extract()
			must(t, "get driver", err)
			if dynamic := microversion != "1.22"; dynamic && (one.Type != "dynamic" || one.DefaultPowerInterface != "agent" || !slices.Contains(one.EnabledDeployInterfaces, "direct")) {
				t.Errorf("driver is %+v", one)
			}
			properties, err := drivers.GetDriverProperties(ctx, c, "fake-hardware").Extract()
			must(t, "get driver properties", err)
			for name, text := range *properties {
				if text, ok := text.(string); !ok || text == "" {
					t.Errorf("property %s is not described: %v", name, text)
				}
			}
			if _, err := drivers.GetDriverDetails(ctx, c, "toaster").Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
				t.Errorf("get unknown driver: got %v, want 404", err)
			}
			if microversion == "1.22" {
				return // conductors came with 1.49
			}
			checkConductor(t, c)
		})
	}
}

func checkConductor(t *testing.T, c *gophercloud.ServiceClient) {
	t.Helper()
	for _, detail := range []bool{false, true} {
		pages, err := conductors.List(c, conductors.ListOpts{Detail: detail}).AllPages(t.Context())
		must(t, "list conductors", err)
		listed, err := conductors.ExtractConductors(pages)
		must(t, "extract conductors", err)
		if len(listed) != 1 || !listed[0].Alive || listed[0].Hostname != "conductor.example.org" || detail != (len(listed[0].Drivers) == 4) {
			t.Errorf("conductors with detail %v are %+v", detail, listed)
		}
	}
	one, err := conductors.Get(t.Context(), c, "conductor.example.org").Extract()
	must(t, "get conductor", err)
	if !one.Alive || len(one.Drivers) != 4 {
		t.Errorf("conductor is %+v", one)
	}
	if _, err := conductors.Get(t.Context(), c, "nobody").Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("get unknown conductor: got %v, want 404", err)
	}
}
