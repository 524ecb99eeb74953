package host

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

var errTest = errors.New("it does not work")

func TestDecidePower(t *testing.T) {
	on, off := provisioner.Node{Power: node.PowerOn}, provisioner.Node{Power: node.PowerOff}
	held := map[string]string{"reboot.metal3.io/a": "1"}
	record := []v1alpha1.PowerOffHold{{Key: "reboot.metal3.io/a", Value: "1"}}
	none, accepted := v1alpha1.OperationStatus{}, v1alpha1.OperationStatus{Request: askOff, Accepted: true}
	intended, restarted := v1alpha1.OperationStatus{Request: askReboot}, v1alpha1.OperationStatus{Request: askReboot, Accepted: true}
	restart := powerRequests{online: true, neverOff: true, cycle: true}
	for _, tt := range []struct {
		name     string
		requests powerRequests
		records  []v1alpha1.PowerOffHold
		stored   bool
		node     provisioner.Node
		last     v1alpha1.OperationStatus
		want     powerStep
	}{
		{"on and to be on", powerRequests{online: true}, nil, false, on, none, powerStay},
		{"off and to be on", powerRequests{online: true}, nil, false, off, none, powerOn},
		{"on and to be off", powerRequests{}, nil, false, on, none, powerOff},
		{"off and to be off", powerRequests{}, nil, false, off, none, powerStay},
		{"changes already", powerRequests{online: true}, nil, false, provisioner.Node{Power: node.PowerOff, TargetPower: node.PowerOn}, none, powerWait},
		{"engine is at work", powerRequests{}, nil, false, provisioner.Node{Power: node.PowerOn, Busy: true}, none, powerWait},
		{"power is not known", powerRequests{online: true}, nil, false, provisioner.Node{}, none, powerWait},
		{"one cycle", powerRequests{online: true, cycle: true}, nil, false, on, none, powerOff},
		{"one cycle, off now", powerRequests{online: true, cycle: true}, nil, false, off, none, powerServed},
		{"one cycle of a host that is to be off", powerRequests{cycle: true}, nil, false, off, none, powerServed},
		{"one cycle of a host that is to be off, for something later", powerRequests{cycle: true, later: true}, nil, false, off, none, powerStay},
		{"one cycle of a host that is held off, for something later", powerRequests{online: true, cycle: true, later: true, holds: held}, record, true, off, none, powerStay},
		{"one cycle for something later, off now", powerRequests{online: true, cycle: true, later: true}, nil, false, off, none, powerServed},
		{"new hold", powerRequests{online: true, holds: held}, nil, false, on, none, powerOff},
		{"new hold on a machine that is off already", powerRequests{online: true, holds: held}, nil, false, off, none, powerOff},
		{"new hold while the power is not known", powerRequests{online: true, holds: held}, nil, false, provisioner.Node{}, none, powerOff},
		{"hold with another value", powerRequests{online: true, holds: map[string]string{"reboot.metal3.io/a": "2"}}, record, true, off, none, powerOff},
		{"second hold", powerRequests{online: true, holds: map[string]string{"reboot.metal3.io/a": "1", "reboot.metal3.io/b": ""}}, record, true, off, none, powerOff},
		{"held off", powerRequests{online: true, holds: held}, record, true, off, none, powerStay},
		{"held and somebody powered it on", powerRequests{online: true, holds: held}, record, true, on, none, powerOff},
		{"last hold is gone: records are removed first", powerRequests{online: true}, nil, true, off, none, powerForget},
		{"held, never off now", powerRequests{online: true, neverOff: true, holds: held}, record, true, off, none, powerForget},
		{"held, never off now, cycle", powerRequests{online: true, neverOff: true, cycle: true, holds: held}, record, true, off, intended, powerForget},
		{"records are gone", powerRequests{online: true}, nil, false, off, none, powerOn},
		{"power off failed", powerRequests{}, nil, false, provisioner.Node{Power: node.PowerOn, LastError: "no"}, accepted, powerRefused},
		{"error of before", powerRequests{}, nil, false, provisioner.Node{Power: node.PowerOn, LastError: "no"}, none, powerOff},
		{"never off, cycle", restart, nil, false, on, none, powerIntend},
		{"never off, cycle, after it was powered on", restart, nil, false, on, v1alpha1.OperationStatus{Request: askOn, Accepted: true}, powerIntend},
		{"never off, cycle recorded", restart, nil, false, on, intended, powerReboot},
		{"never off, cycle recorded, it runs", restart, nil, false, provisioner.Node{Power: node.PowerOn, TargetPower: "rebooting"}, intended, powerWait},
		{"never off, cycle is over", restart, nil, false, on, restarted, powerServed},
		{"never off, cycle failed", restart, nil, false, provisioner.Node{Power: node.PowerOn, LastError: "no"}, restarted, powerRefused},
		{"never off, hold", powerRequests{online: true, neverOff: true, holds: held}, nil, false, on, none, powerStay},
		{"never off, lost its power", powerRequests{online: true, neverOff: true}, nil, false, off, none, powerOn},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decidePower(tt.requests, tt.records, tt.stored, tt.node, tt.last); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestHoldIsConfirmedOnlyByAReadingAfterItsRequest(t *testing.T) {
	r := powerRequests{online: true, holds: map[string]string{"reboot.metal3.io/a": "1"}}
	asked := recorded(r, nil, testNow)
	if len(asked) != 1 || asked[0].ConfirmedAt != nil {
		t.Fatalf("records after the request: %+v, want one that is not confirmed", asked)
	}
	for name, n := range map[string]provisioner.Node{
		"still on":        {Power: node.PowerOn},
		"still changing":  {Power: node.PowerOff, TargetPower: node.PowerOff},
		"still at work":   {Power: node.PowerOff, Busy: true},
		"request failed":  {Power: node.PowerOff, LastError: "the BMC did not answer"},
		"engine is blind": {Power: node.PowerOff, Fault: "power failure"},
		"not known":       {},
	} {
		if got := confirmed(r, asked, n, testNow); len(got) != 1 || got[0].ConfirmedAt != nil {
			t.Errorf("%s: %+v, want the record unconfirmed", name, got)
		}
	}
	at := metav1.NewTime(testNow.Add(time.Second))
	sure := confirmed(r, asked, provisioner.Node{Power: node.PowerOff}, at.Time)
	want := []v1alpha1.PowerOffHold{{Key: "reboot.metal3.io/a", Value: "1", RequestedAt: metav1.NewTime(testNow), ConfirmedAt: &at}}
	if diff := cmp.Diff(want, sure); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if got := confirmed(r, sure, provisioner.Node{Power: node.PowerOn}, at.Time); len(got) != 0 {
		t.Errorf("somebody powered the machine on: %+v, want the hold to be new", got)
	}
	if got := confirmed(powerRequests{}, sure, provisioner.Node{Power: node.PowerOff}, at.Time); len(got) != 0 {
		t.Errorf("annotation gone: %+v, want no record", got)
	}
}

func TestRequestsForPowerAreRead(t *testing.T) {
	long := make([]byte, 300)
	for name, tt := range map[string]struct {
		annotations map[string]string
		want        powerRequests
		invalid     int
	}{
		"none":       {nil, powerRequests{}, 0},
		"cycle":      {map[string]string{"reboot.metal3.io": ""}, powerRequests{cycle: true}, 0},
		"hard cycle": {map[string]string{"reboot.metal3.io": `{"mode":"hard"}`}, powerRequests{cycle: true, hard: true}, 0},
		"two holds, one hard": {
			map[string]string{"reboot.metal3.io/a": "", "reboot.metal3.io/b": `{"mode":"hard","owner":"me"}`},
			powerRequests{hard: true, holds: map[string]string{"reboot.metal3.io/a": "", "reboot.metal3.io/b": `{"mode":"hard","owner":"me"}`}},
			0,
		},
		"no JSON":      {map[string]string{"reboot.metal3.io/a": "{"}, powerRequests{holds: map[string]string{"reboot.metal3.io/a": "{"}}, 1},
		"unknown mode": {map[string]string{"reboot.metal3.io": `{"mode":"gentle"}`}, powerRequests{cycle: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, invalid := powerRequestsOf(testHost(func(h *v1alpha1.BareMetalHost) { h.Annotations = tt.annotations }))
			if tt.want.holds == nil {
				tt.want.holds = map[string]string{}
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(powerRequests{})); diff != "" || len(invalid) != tt.invalid {
				t.Errorf("invalid %q, requests (-want +got):\n%s", invalid, diff)
			}
		})
	}
	if got := holdValue(string(long)); len(got) != 71 || got[:7] != "sha256:" {
		t.Errorf("long value is kept as %q, want its digest", got)
	}
}
