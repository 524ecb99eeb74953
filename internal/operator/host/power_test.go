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
	for _, tt := range []struct {
		name     string
		requests powerRequests
		records  []v1alpha1.PowerOffHold
		stored   bool
		node     provisioner.Node
		asked    bool
		want     powerStep
	}{
		{"on and to be on", powerRequests{online: true}, nil, false, on, false, powerStay},
		{"off and to be on", powerRequests{online: true}, nil, false, off, false, powerOn},
		{"on and to be off", powerRequests{}, nil, false, on, false, powerOff},
		{"off and to be off", powerRequests{}, nil, false, off, false, powerStay},
		{"changes already", powerRequests{online: true}, nil, false, provisioner.Node{Power: node.PowerOff, TargetPower: node.PowerOn}, false, powerWait},
		{"engine is at work", powerRequests{}, nil, false, provisioner.Node{Power: node.PowerOn, Busy: true}, false, powerWait},
		{"power is not known", powerRequests{online: true}, nil, false, provisioner.Node{}, false, powerWait},
		{"one cycle", powerRequests{online: true, cycle: true}, nil, false, on, false, powerOff},
		{"one cycle, off now", powerRequests{online: true, cycle: true}, nil, false, off, false, powerServed},
		{"one cycle of a host that is to be off", powerRequests{cycle: true}, nil, false, off, false, powerServed},
		{"new hold", powerRequests{online: true, holds: held}, nil, false, on, false, powerOff},
		{"new hold on a machine that is off already", powerRequests{online: true, holds: held}, nil, false, off, false, powerOff},
		{"new hold while the power is not known", powerRequests{online: true, holds: held}, nil, false, provisioner.Node{}, false, powerOff},
		{"hold with another value", powerRequests{online: true, holds: map[string]string{"reboot.metal3.io/a": "2"}}, record, true, off, false, powerOff},
		{"second hold", powerRequests{online: true, holds: map[string]string{"reboot.metal3.io/a": "1", "reboot.metal3.io/b": ""}}, record, true, off, false, powerOff},
		{"held off", powerRequests{online: true, holds: held}, record, true, off, false, powerStay},
		{"held and somebody powered it on", powerRequests{online: true, holds: held}, record, true, on, false, powerOff},
		{"last hold is gone: records are removed first", powerRequests{online: true}, nil, true, off, false, powerForget},
		{"held, never off now", powerRequests{online: true, neverOff: true, holds: held}, record, true, off, false, powerForget},
		{"held, never off now, cycle", powerRequests{online: true, neverOff: true, cycle: true, holds: held}, record, true, off, false, powerForget},
		{"records are gone", powerRequests{online: true}, nil, false, off, false, powerOn},
		{"power off failed", powerRequests{}, nil, false, provisioner.Node{Power: node.PowerOn, LastError: "no"}, true, powerRefused},
		{"error of before", powerRequests{}, nil, false, provisioner.Node{Power: node.PowerOn, LastError: "no"}, false, powerOff},
		{"never off, cycle", powerRequests{online: true, neverOff: true, cycle: true}, nil, false, on, false, powerReboot},
		{"never off, hold", powerRequests{online: true, neverOff: true, holds: held}, nil, false, on, false, powerStay},
		{"never off, lost its power", powerRequests{online: true, neverOff: true}, nil, false, off, false, powerOn},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decidePower(tt.requests, tt.records, tt.stored, tt.node, tt.asked); got != tt.want {
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
