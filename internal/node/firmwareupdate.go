package node

import (
	"slices"
	"time"
)

// FirmwareUpdatesKey is the key of driver_internal_info for the FirmwareUpdates of a node.
const FirmwareUpdatesKey = "firmware_updates"

// FirmwareUpdate is an update of firmware that the engine asked the BMC of a node for, and
// whose end it has not seen. It is stored before the request, and outlives the work that made
// it, so that no later operation takes the machine's power while its firmware is written.
type FirmwareUpdate struct {
	Request   string    `json:"request"`   // the operation that asked, see driver.Origin
	Component string    `json:"component"` // such as "bios"
	AskedAt   time.Time `json:"asked_at"`
	// Task is the path of the BMC's task; empty when the BMC named none, or its answer was
	// lost. EarlierTasks are then the tasks that it listed before the request.
	Task         string   `json:"task,omitempty"`
	EarlierTasks []string `json:"earlier_tasks,omitempty"`
	// AwaitedSince is when an operation first waited for the end of the write that is in
	// progress; zero when none has.
	AwaitedSince time.Time `json:"awaited_since,omitzero"`
}

// FirmwareUpdatesOf returns the updates whose end nobody has seen, the oldest first.
func FirmwareUpdatesOf(n *Node) []FirmwareUpdate {
	var updates []FirmwareUpdate
	n.DriverInternalInfo.Get(FirmwareUpdatesKey, &updates)
	return updates
}

// StoreFirmwareUpdates makes these the updates whose end nobody has seen.
func StoreFirmwareUpdates(n *Node, updates []FirmwareUpdate) {
	if len(updates) == 0 {
		n.DriverInternalInfo = n.DriverInternalInfo.Without(FirmwareUpdatesKey)
		return
	}
	n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{FirmwareUpdatesKey: updates})
}

// Same reports whether both are of one request for one component.
func (u FirmwareUpdate) Same(o FirmwareUpdate) bool {
	return u.Request == o.Request && u.Component == o.Component
}

// Equal reports whether both say the same.
func (u FirmwareUpdate) Equal(o FirmwareUpdate) bool {
	return u.Same(o) && u.Task == o.Task && u.AskedAt.Equal(o.AskedAt) && u.AwaitedSince.Equal(o.AwaitedSince) &&
		slices.Equal(u.EarlierTasks, o.EarlierTasks)
}
