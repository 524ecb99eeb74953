package redfish

import (
	"encoding/json"
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
)

// bootMark is what a BMC shows of the last boot of its machine. Two marks show whether a machine
// that restarts itself has done so in between. A mark is stored, and later releases read it.
type bootMark struct {
	// Reset is when the machine was reset last (DSP0268, LastResetTime of the system).
	Reset string `json:"reset,omitempty"`
	// State is how far it has booted, and At since when (DSP0268, BootProgress of the system).
	State string `json:"state,omitempty"`
	At    string `json:"at,omitempty"`
	// Restarted: the machine was seen to restart since.
	Restarted bool `json:"restarted,omitempty"`
}

// bootStates are the states of a boot in their order: those of BootProgress, and those of an iLO
// (PostState in Oem.Hpe of the system). Others say nothing.
var bootStates = [][]string{
	{
		string(schemas.PrimaryProcessorInitializationStartedBootProgressTypes), string(schemas.BusInitializationStartedBootProgressTypes),
		string(schemas.MemoryInitializationStartedBootProgressTypes), string(schemas.SecondaryProcessorInitializationStartedBootProgressTypes),
		string(schemas.PCIResourceConfigStartedBootProgressTypes), string(schemas.SystemHardwareInitializationCompleteBootProgressTypes),
		string(schemas.SetupEnteredBootProgressTypes), string(schemas.OSBootStartedBootProgressTypes), string(schemas.OSRunningBootProgressTypes),
	},
	{"PowerOff", "Reset", "InPost", "InPostDiscoveryComplete", "FinishedPost"},
}

func bootMarkOf(system *schemas.ComputerSystem) bootMark {
	mark := bootMark{Reset: system.LastResetTime, State: string(system.BootProgress.LastState), At: system.BootProgress.LastStateTime}
	var shown struct {
		OEM struct {
			HPE struct{ PostState string } `json:"Hpe"`
		} `json:"Oem"`
	}
	if mark.State == "" && json.Unmarshal(system.RawData, &shown) == nil {
		mark.State, mark.At = shown.OEM.HPE.PostState, ""
	}
	return mark
}

// restartedBy reports whether a later mark shows that the machine has restarted.
func (m bootMark) restartedBy(later bootMark) bool {
	if m.Reset != "" && later.Reset != "" && later.Reset != m.Reset {
		return true
	}
	for _, states := range bootStates {
		before, now := slices.Index(states, m.State), slices.Index(states, later.State)
		if before >= 0 && now >= 0 && (now < before || now == before && m.At != "" && later.At != "" && later.At != m.At) {
			return true
		}
	}
	return false
}

// awaitSoftRestart makes a turn of waiting for a restart that the operating system was asked for.
// The machine shows On all the time. The outcome is done when the change of power goes on: before
// the request, and once the restart is seen. If nobody sees it in time, the machine is restarted
// without being asked, because what the step wants may wait for a restart.
func (c *call) awaitSoftRestart(turn driver.Turn, r *record) (driver.Outcome, error) {
	system, err := c.system()
	if err != nil {
		return driver.Outcome{}, err
	}
	mark := bootMarkOf(system)
	switch {
	case turn.Phase == legSoftRestart.phase, turn.Phase == legSoftRestart.waits():
		r.Boot = &mark
		return driver.Outcome{}, nil
	case r.Boot == nil: // an earlier release has made the request
		r.Boot = &bootMark{}
	}
	r.Boot.Restarted = r.Boot.Restarted || system.PowerState == schemas.PoweringOnPowerState || r.Boot.restartedBy(mark)
	switch {
	case r.Boot.Restarted, system.PowerState == schemas.OffPowerState: // it is switched on
		return driver.Outcome{}, nil
	case r.took(turn) > softOffWithin:
		return driver.Outcome{Again: driver.NextTurn, Phase: legRestart.phase}, nil
	}
	return driver.Outcome{Again: driver.PollPause(r.took(turn), shortestPoll), Phase: legSoftRestart.sent()}, nil
}
