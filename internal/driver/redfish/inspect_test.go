package redfish_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// inspect reads the inventory of a machine.
func inspect(m *machine, d redfish.Driver) *inventory.Document {
	m.t.Helper()
	body, err := d.Interfaces()[node.InspectInterface].(driver.InventoryReader).ReadInventory(m.t.Context(), m.node)
	if err != nil {
		m.t.Fatal(err)
	}
	document, err := inventory.JoinOutOfBand(body, nil)
	if err != nil {
		m.t.Fatalf("%v in %s", err, body)
	}
	return document
}

// leftOut is what a document says that the BMC could not show.
func leftOut(t *testing.T, document *inventory.Document) (all []string) {
	t.Helper()
	if err := json.Unmarshal(document.PluginData["bmc_left_out"], &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestInventoryIsWhatTheRamdiskWouldFind(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		document := inspect(m, d)
		got, want := document.Hardware, m.Hardware().Inspection.Inventory
		if len(got.Interfaces) != len(want.Interfaces) || len(got.Disks) != len(want.Disks) {
			t.Fatalf("%d interfaces and %d disks, want %d and %d", len(got.Interfaces), len(got.Disks), len(want.Interfaces), len(want.Disks))
		}
		for i, nic := range want.Interfaces {
			if got.Interfaces[i].MACAddress != nic.MACAddress || got.Interfaces[i].HasCarrier != nic.HasCarrier {
				t.Errorf("interface %d = %+v, want %s", i, got.Interfaces[i], nic.MACAddress)
			}
		}
		for i, disk := range want.Disks {
			if got.Disks[i].Size != disk.Size || got.Disks[i].Rotational != disk.Rotational || disk.Serial != nil && got.Disks[i].Serial != *disk.Serial {
				t.Errorf("disk %d = %+v, want %d bytes", i, got.Disks[i], disk.Size)
			}
		}
		type facts struct {
			cpu, sockets, memory                             int64
			arch, model, serial, manufacturer, version, mode string
		}
		product, _, _ := strings.Cut(want.SystemVendor.ProductName, " (")
		if diff := cmp.Diff(facts{
			int64(want.CPU.Count), int64(want.CPU.SocketCount), int64(want.Memory.PhysicalMB), want.CPU.Architecture, product,
			want.SystemVendor.SerialNumber, want.SystemVendor.Manufacturer, want.SystemVendor.Firmware.Version, want.Boot.CurrentBootMode,
		}, facts{
			got.CPU.Count, got.CPU.SocketCount, got.Memory.PhysicalMB, got.CPU.Architecture, got.SystemVendor.ProductName,
			got.SystemVendor.SerialNumber, got.SystemVendor.Manufacturer, got.SystemVendor.Firmware.Version, got.Boot.CurrentBootMode,
		}, cmp.AllowUnexported(facts{})); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
		if size, err := inventory.DiskSize(document.PluginData["root_disk"]); err != nil || size != m.Hardware().Inspection.RootDisk.Size {
			t.Errorf("the root disk has %d bytes, %v, want %d as the agent chooses", size, err, m.Hardware().Inspection.RootDisk.Size)
		}
		if remarks := leftOut(t, document); len(remarks) != 0 || len(m.Effects()) != 0 {
			t.Errorf("left out %q, effects %q, want nothing", remarks, m.Effects())
		}
	})
}

func TestDrivesOfAVolumeAreOneDisk(t *testing.T) {
	m, d := newMachine(t, "supermicro", redfishtest.WithDrives("supermicro", 4))
	all := len(m.Hardware().Inspection.Inventory.Disks)
	if _, _, err := m.CreateVolume(&bmc.Call{}, bmc.Volume{Name: "data", RAIDType: "RAID5", Drives: []int{all - 1, all - 2, all - 3}, Capacity: 5 << 30}, ""); err != nil {
		t.Fatal(err)
	}
	document := inspect(m, d)
	if got := document.Hardware.Disks; len(got) != all-2 || got[0].Size != 5<<30 || got[0].Model != "data" {
		t.Errorf("disks = %+v, want the volume and %d drives", got, all-3)
	}
	if size, _ := inventory.DiskSize(document.PluginData["root_disk"]); size != 5<<30 {
		t.Errorf("the root disk has %d bytes, want the smallest that is large enough", size)
	}
}

// without has a BMC answer requests for paths that end so with a status and a body.
func (m *machine) without(suffix string, status int, body string) {
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if strings.Contains(strings.TrimRight(r.URL.Path, "/"), suffix) {
			said(w, status, body)
			return
		}
		bmc.ServeHTTP(w, r)
	})
}

func TestWhatTheBMCCannotShowIsLeftOut(t *testing.T) {
	for name, test := range map[string]struct {
		suffix string
		status int
		body   string
	}{
		"a missing collection": {"/Processors", http.StatusNotFound, `{}`},
		"a broken one":         {"/Processors", http.StatusInternalServerError, `{}`},
		"no JSON":              {"/Processors", http.StatusOK, `<html>`},
		"an endless document":  {"/Processors", http.StatusOK, `{"Members": [` + strings.Repeat(" ", 1<<20) + `]}`},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "dell")
			m.without(test.suffix, test.status, test.body)
			document := inspect(m, d)
			if document.Hardware.CPU.Architecture != "" || document.Hardware.Memory.PhysicalMB == 0 || len(document.Hardware.Disks) == 0 {
				t.Errorf("hardware = %+v, want all but the architecture", document.Hardware)
			}
			if remarks := leftOut(t, document); len(remarks) != 1 || !strings.Contains(remarks[0], test.suffix) {
				t.Errorf("left out %q, want the processors", remarks)
			}
		})
	}
}

// notReady is what an iDRAC answers with 400 while it starts.
const notReady = `{"error": {"@Message.ExtendedInfo": [{"MessageId": "IDRAC.2.8.SWC0700"}]}}`

func TestInventoryOfABMCThatIsNotReadyIsReadLater(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.without("/Processors", http.StatusBadRequest, notReady)
	_, err := d.Interfaces()[node.InspectInterface].(driver.InventoryReader).ReadInventory(t.Context(), m.node)
	var failure *node.DriverError
	if !errors.As(err, &failure) || !failure.Retryable || !strings.Contains(failure.Reason, "SWC0700") {
		t.Errorf("error = %v, want a temporary failure with the message", err)
	}
}

func TestPCIFunctionsAreListedAsAgentsDo(t *testing.T) {
	m, d := newMachine(t, "dell")
	const devices = "/redfish/v1/Chassis/System.Embedded.1/PCIeDevices"
	documents := map[string]string{
		devices + "/1":                 `{"PCIeFunctions": {"@odata.id": "` + devices + `/1/PCIeFunctions"}}`,
		devices + "/1/PCIeFunctions":   `{"Members": [{"@odata.id": "` + devices + `/1/PCIeFunctions/1"}]}`,
		devices + "/1/PCIeFunctions/1": `{"VendorId": "0x10DE", "DeviceId": "0x20b5", "ClassCode": "0x030200", "RevisionId": "0xA1"}`,
		devices + "/2":                 `{"Links": {"PCIeFunctions": [{"@odata.id": "` + devices + `/2/Functions/1"}]}}`, // an older schema
		devices + "/2/Functions/1":     `{"VendorId": "0x8086", "DeviceId": "0x1533"}`,
	}
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if document, ok := documents[r.URL.Path]; ok {
			said(w, http.StatusOK, document)
			return
		}
		if !strings.HasSuffix(r.URL.Path, "/Systems/System.Embedded.1") {
			bmc.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		bmc.ServeHTTP(answer, r)
		said(w, answer.Code, `{"PCIeDevices": [{"@odata.id": "`+devices+`/1"}, {"@odata.id": "`+devices+`/2"}],`+strings.TrimPrefix(answer.Body.String(), "{"))
	})
	want := `[{"vendor_id":"8086","product_id":"1533"},{"vendor_id":"10de","product_id":"20b5","class":"030200","revision":"a1"}]`
	if got := string(inspect(m, d).PluginData["pci_devices"]); got != want {
		t.Errorf("pci_devices = %s, want %s", got, want)
	}
}

func TestDisksOfSimpleStorageCountWhereThereAreNoDrives(t *testing.T) {
	m, d := newMachine(t, "dell")
	const simple = "/redfish/v1/Systems/System.Embedded.1/SimpleStorage"
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		switch r.URL.Path {
		case simple:
			said(w, http.StatusOK, `{"Members": [{"@odata.id": "`+simple+`/1"}]}`)
		case simple + "/1":
			said(w, http.StatusOK, `{"Devices": [{"Name": "disk 0", "CapacityBytes": 64424509440, "Model": "M"}, {"Name": "bay 1", "Status": {"State": "Absent"}, "CapacityBytes": 1}]}`)
		case "/redfish/v1/Systems/System.Embedded.1":
			answer := httptest.NewRecorder()
			bmc.ServeHTTP(answer, r)
			said(w, answer.Code, strings.Replace(answer.Body.String(), `"Storage":`, `"SimpleStorage": {"@odata.id": "`+simple+`"}, "Elsewhere":`, 1))
		default:
			bmc.ServeHTTP(w, r)
		}
	})
	if got := inspect(m, d).Hardware.Disks; len(got) != 1 || got[0].Name != "disk 0" || got[0].Size != 60<<30 {
		t.Errorf("disks = %+v, want the one that is there", got)
	}
}

func TestPropertyOfAnotherTypeLeavesTheOthers(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.without("/Processors/", http.StatusOK, `{"ProcessorType": "CPU", "MaxSpeedMHz": "fast", "InstructionSet": "ARM-A64"}`)
	if got := inspect(m, d).Hardware.CPU; got.Architecture != "aarch64" || got.Frequency != "" {
		t.Errorf("cpu = %+v, want the architecture without a frequency", got)
	}
}

func TestInventoryIsBounded(t *testing.T) {
	m, d := newMachine(t, "dell")
	var members []string
	for i := range 5000 {
		members = append(members, fmt.Sprintf(`{"@odata.id": "/redfish/v1/Systems/System.Embedded.1/EthernetInterfaces/%d"}`, i))
	}
	page := `{"Members": [` + strings.Join(members, ",") + `], "Members@odata.nextLink": "/redfish/v1/Systems/System.Embedded.1/EthernetInterfaces"}`
	asked := 0
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		switch _, id, inside := strings.Cut(r.URL.Path, "/EthernetInterfaces"); {
		case inside && id == "":
			said(w, http.StatusOK, page)
		case inside:
			asked++
			said(w, http.StatusOK, fmt.Sprintf(`{"Id": "%d", "MACAddress": "52:54:00:00:%02x:%02x"}`, asked, asked/256, asked%256))
		default:
			bmc.ServeHTTP(w, r)
		}
	})
	document := inspect(m, d)
	if got := len(document.Hardware.Interfaces); got != 256 || asked != 256 || len(leftOut(t, document)) == 0 {
		t.Errorf("%d interfaces of %d requests, left out %q; want 256 and a remark", got, asked, leftOut(t, document))
	}
}

func TestInspectionOfABMCThatIsBusyIsTriedAgain(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.Fail(effect.Faults{Refuse: 1, Only: []string{"read"}})
	_, err := d.Interfaces()[node.InspectInterface].(driver.InventoryReader).ReadInventory(t.Context(), m.node)
	var failure *node.DriverError
	if !errors.As(err, &failure) || !failure.Retryable {
		t.Errorf("error = %v, want a temporary one", err)
	}
}

func TestLinksToBMCsThatManyMachinesHaveAreNotShown(t *testing.T) {
	m, d := newMachine(t, "dell")
	links := inspect(m, d).Hardware.Interfaces
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/EthernetInterfaces/"+links[0].Name) {
			said(w, http.StatusOK, `{"Id": "ToManager", "MACAddress": "B0:3A:F2:B6:05:9F"}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	got := inspect(m, d).Hardware.Interfaces
	if len(got) != len(links)-1 || got[0].MACAddress != links[1].MACAddress {
		t.Errorf("interfaces = %+v, want those of %+v but the first", got, links)
	}
}

func TestPortsHaveTheAddressThatTheMachineBootsWith(t *testing.T) {
	m, d := newMachine(t, "hpe")
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if _, id, inside := strings.Cut(strings.TrimSuffix(r.URL.Path, "/"), "/EthernetInterfaces/"); inside && strings.Contains(r.URL.Path, "/Systems/") && id != "" {
			said(w, http.StatusOK, `{"Id": "`+id+`", "MACAddress": "02:00:00:00:00:01", "PermanentMACAddress": "b0:26:28:00:00:01"}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	interfaces := inspect(m, d).Hardware.Interfaces
	if len(interfaces) != 1 || interfaces[0].MACAddress != "02:00:00:00:00:01" {
		t.Errorf("interfaces = %+v, want the assigned address once", interfaces)
	}
}
