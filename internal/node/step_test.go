package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func one(name string, priority int) Step {
	kind, name, _ := strings.Cut(name, ".")
	return Step{Interface: kind, Step: name, Priority: priority}
}

func names(steps []Step) []string {
	all := make([]string, len(steps))
	for i, s := range steps {
		all[i] = s.Name()
	}
	return all
}

func TestStepsComeByPriorityThenInterfaceThenName(t *testing.T) {
	got := names(SortSteps([]Step{
		one("raid.z", 10), one("deploy.b", 10), one("deploy.a", 10), one("vendor.x", 10), one("bios.first", 99), one("bios.never", 0),
		one("power.p", 10), one("management.m", 10), one("firmware.f", 10),
	}))
	want := []string{"bios.first", "vendor.x", "power.p", "management.m", "firmware.f", "deploy.a", "deploy.b", "raid.z"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestListedStepsKeepTheirPlaceUnlessTheyNameOne(t *testing.T) {
	offered := []Step{{Interface: "deploy", Step: "erase", Priority: 7, Abortable: true}, one("raid.build", 0)}
	first, second := 1, 2
	got, err := ListedSteps([]Step{
		{Interface: "raid", Step: "build", Order: &second, Args: map[string]any{"a": 1}},
		{Interface: "deploy", Step: "erase", Order: &first},
		{Interface: "deploy", Step: "reboot"},
	}, offered)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"deploy.reboot", "deploy.erase", "raid.build"}, names(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !got[1].Abortable || got[1].Priority != 7 || got[2].Args["a"] != 1 {
		t.Errorf("steps %+v lack what drivers and clients say of them", got)
	}
	var invalid *ValidationError
	if _, err := ListedSteps([]Step{one("raid.paint", 0)}, offered); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "build") {
		t.Errorf("unknown step: %v, want the names there are", err)
	}
}

func TestDeployStepsMerge(t *testing.T) {
	offered := []Step{one("deploy.deploy", 100), one("raid.apply", 0), one("bios.apply", 50)}
	for name, tc := range map[string]struct {
		templates, asked []Step
		want             []string
		refused          string
	}{
		"alone":                      {nil, nil, []string{"deploy.deploy", "bios.apply"}, ""},
		"template adds":              {[]Step{one("raid.apply", 120)}, nil, []string{"raid.apply", "deploy.deploy", "bios.apply"}, ""},
		"request wins over template": {[]Step{one("raid.apply", 120)}, []Step{one("raid.apply", 60)}, []string{"deploy.deploy", "raid.apply", "bios.apply"}, ""},
		"driver step left out":       {nil, []Step{one("bios.apply", 0)}, []string{"deploy.deploy"}, ""},
		"core step left out":         {nil, []Step{one("deploy.deploy", 0)}, []string{"bios.apply"}, ""},
		"core step changed":          {nil, []Step{one("deploy.deploy", 5)}, nil, "every deployment"},
		"own step":                   {nil, []Step{one("power.reboot", 1)}, []string{"deploy.deploy", "bios.apply", "power.reboot"}, ""},
		"unknown step":               {nil, []Step{one("raid.paint", 1)}, nil, "raid.paint"},
	} {
		got, err := DeploySteps(offered, tc.templates, tc.asked)
		switch {
		case tc.refused != "":
			if err == nil || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%s: %v, want it refused because of %q", name, err, tc.refused)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		default:
			if diff := cmp.Diff(tc.want, names(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestCheckSteps(t *testing.T) {
	wait := func(seconds any) Step {
		return Step{Interface: "deploy", Step: StepWait, Args: map[string]any{"seconds": seconds}}
	}
	for name, tc := range map[string]struct {
		step Step
		want string // empty: fine
	}{
		"known":           {one("deploy.erase", 0), ""},
		"no name":         {Step{Interface: "deploy"}, "no name"},
		"other interface": {one("boot.x", 0), `"boot"`},
		"negative":        {one("deploy.x", -1), "-1"},
		"wait":            {one("deploy.wait", 0), ""},
		"wait a while":    {wait(30), ""},
		"wait too long":   {wait(31), "from 0 to 30"},
		"wait backwards":  {wait(-1), "from 0 to 30"},
		"wait for a word": {wait("long"), "from 0 to 30"},
	} {
		err := CheckSteps([]Step{tc.step})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if got, err := wait(1.5).WaitSeconds(); err != nil || got != 1500*time.Millisecond {
		t.Errorf("wait of 1.5 = %v, %v", got, err)
	}
}

func TestStepSurvivesBeingShown(t *testing.T) {
	order := 3
	want := Step{Interface: "raid", Step: "build", Args: map[string]any{"a": "b"}, Priority: 5, Order: &order, Abortable: true, AbortAfter: true}
	got, ok := StepOf(want.Object())
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, ok := StepOf(nil); ok {
		t.Error("the empty object is a step")
	}
}

func TestHardwareKeepsTheTimesOfCreationAndChange(t *testing.T) {
	first, later := time.Unix(1000, 0).UTC(), time.Unix(2000, 0).UTC()
	before := Hardware{
		BIOS:     []BIOSSetting{{Name: "a", Value: "1"}, {Name: "b", Value: "1"}},
		Firmware: []FirmwareComponent{{Component: "bmc", InitialVersion: "1", CurrentVersion: "1"}},
	}.DatedFrom(Hardware{}, first)
	after := Hardware{
		BIOS:     []BIOSSetting{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}, {Name: "c", Value: "1"}},
		Firmware: []FirmwareComponent{{Component: "bmc", InitialVersion: "2", CurrentVersion: "2"}},
	}.DatedFrom(before, later)
	want := Hardware{
		BIOS: []BIOSSetting{
			{Name: "a", Value: "1", CreatedAt: first}, {Name: "b", Value: "2", CreatedAt: first, UpdatedAt: later}, {Name: "c", Value: "1", CreatedAt: later},
		},
		Firmware: []FirmwareComponent{{Component: "bmc", InitialVersion: "1", CurrentVersion: "2", CreatedAt: first, UpdatedAt: later}},
	}
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if after.Equal(before) || !after.Equal(want) {
		t.Error("Equal is wrong")
	}
}

func TestStepsForChildNodesKeepTheirRules(t *testing.T) {
	on := func(name string, children ...string) Step {
		s := one(name, 0)
		s.ExecuteOnChildNodes, s.LimitChildNodeExecution = true, children
		return s
	}
	limited := one("bios.apply", 0)
	limited.LimitChildNodeExecution = []string{"blade1"}
	for what, tt := range map[string]struct {
		step Step
		ok   bool
	}{
		"on all":              {on("bios.apply"), true},
		"on one":              {on("power.power_on", "blade1"), true},
		"limited for nothing": {limited, false},
		"hold":                {on("deploy.hold"), false},
		"wait":                {on("deploy.wait"), false},
	} {
		if err := CheckSteps([]Step{tt.step}); (err == nil) != tt.ok {
			t.Errorf("%s: %v, want accepted %v", what, err, tt.ok)
		}
	}
	listed, err := ListedSteps([]Step{on("bios.known_to_the_child_alone")}, nil)
	if err != nil || !listed[0].ExecuteOnChildNodes {
		t.Errorf("steps %+v, %v; want it kept for the child to judge", listed, err)
	}
}

func TestRamdiskIsNeededForStepsThatRunInIt(t *testing.T) {
	offered := []Step{{Interface: "deploy", Step: "erase", RequiresRamdisk: true}, one("bios.apply", 0)}
	forChild := one("deploy.erase", 0)
	forChild.ExecuteOnChildNodes = true
	pause := one("deploy.wait", 0)
	pause.Args = map[string]any{"seconds": 1}
	for what, tt := range map[string]struct {
		step              Step
		outOfBand, inside bool
	}{
		"in the ramdisk":        {one("deploy.erase", 0), false, true},
		"out of band":           {one("bios.apply", 0), true, false},
		"unknown":               {one("raid.paint", 0), false, false},
		"the engine's own":      {one("deploy.reboot", 0), true, false},
		"a pause":               {pause, true, false},
		"until a heartbeat":     {one("deploy.wait", 0), false, true},
		"on the children alone": {forChild, true, false},
	} {
		steps := []Step{one("bios.apply", 0), tt.step}
		if _, in := InRamdisk(steps, offered); in != tt.inside || OutOfBand(steps, offered) != tt.outOfBand {
			t.Errorf("%s: in the ramdisk %v, out of band %v; want %v and %v", what, in, OutOfBand(steps, offered), tt.inside, tt.outOfBand)
		}
	}
}
