package httpapi

import (
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestBriefQueryReadsAllFieldsOfAShortList(t *testing.T) {
	lean := node.Node{
		ID: 7, UUID: "00000000-0000-4000-8000-000000000007", Name: "rack-7",
		InstanceUUID: "00000000-0000-4000-8000-000000000008",
		PowerState:   node.PowerOn, ProvisionState: node.Active, Maintenance: true,
	}
	full := lean
	full.Driver, full.MaintenanceReason, full.Fault, full.LastError = "redfish", "a fan", "power failure", "no answer"
	full.TargetPowerState, full.TargetProvisionState = node.PowerOff, node.Available
	full.UpdatedAt, full.Retired, full.Owner = time.Now(), true, "ann"
	for version := minVersion; version <= maxVersion; version++ {
		fields := nodeTable.brief[version]
		if !isBrief(fields) {
			t.Fatalf("version 1.%d: the fields of a short list are not brief", version)
		}
		v := &view{version: version, links: newLinkBase("http://engine")}
		got, want := string(appendItem(nil, v, &lean, fields)), string(appendItem(nil, v, &full, fields))
		if got != want {
			t.Errorf("version 1.%d: a brief query shows %s, a full one %s", version, got, want)
		}
	}
}

func TestFieldsOutsideOfShortListsNeedAFullQuery(t *testing.T) {
	fields, err := nodeTable.selected([]string{"uuid", "driver"}, maxVersion)
	if err != nil {
		t.Fatal(err)
	}
	if isBrief(fields) {
		t.Error("driver is not read by a brief query, but the query is brief")
	}
}
