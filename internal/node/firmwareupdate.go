package node

import (
	"slices"
	"time"
)

// FirmwareUpdatesKey is the key of driver_internal_info for the FirmwareUpdates of a node.
const FirmwareUpdatesKey = "firmware_updates"

// FirmwareUpdate is a firmware update that the engine has requested from the BMC of a node and
// whose end it has not seen. The engine stores it before the request, and keeps it beyond the work
// that made the request, so that no later operation cuts the machine's power while its firmware is
// written.
type FirmwareUpdate struct {
	Request   string    `json:"request"`   // the operation that made the request, see driver.Origin
	Component string    `json:"component"` // such as "bios"
	AskedAt   time.Time `json:"asked_at"`
	// Task is the path of the BMC's task. It is empty when the BMC named none or its answer was
	// lost. EarlierTasks then has the tasks that the BMC listed before the request.
	Task         string   `json:"task,omitempty"`
	EarlierTasks []string `json:"earlier_tasks,omitempty"`
	// AwaitedSince is when an operation began to wait for the end of the present write of firmware;
	// zero while no operation has waited.
	AwaitedSince time.Time `json:"awaited_since,omitzero"`
}

// FirmwareUpdatesOf returns the node's updates whose end the engine has not seen, the oldest first.
func FirmwareUpdatesOf(n *Node) []FirmwareUpdate {
	var updates []FirmwareUpdate
	n.DriverInternalInfo.Get(FirmwareUpdatesKey, &updates)
	return updates
}

// StoreFirmwareUpdates replaces the node's list of updates whose end the engine has not seen.
func StoreFirmwareUpdates(n *Node, updates []FirmwareUpdate) {
	if len(updates) == 0 {
		n.DriverInternalInfo = n.DriverInternalInfo.Without(FirmwareUpdatesKey)
		return
	}
	n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{FirmwareUpdatesKey: updates})
}

// Same reports whether both are updates of the same component by the same request.
func (u FirmwareUpdate) Same(o FirmwareUpdate) bool {
	return u.Request == o.Request && u.Component == o.Component
}

// Equal reports whether all fields of both are equal.
func (u FirmwareUpdate) Equal(o FirmwareUpdate) bool {
	return u.Same(o) && u.Task == o.Task && u.AskedAt.Equal(o.AskedAt) && u.AwaitedSince.Equal(o.AwaitedSince) &&
		slices.Equal(u.EarlierTasks, o.EarlierTasks)
}
