package inspect

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// maxSkips limits the remarks of one run. A machine with thousands of unusable interfaces does not need
// thousands of sentences.
const maxSkips = 50

// Input is everything a pipeline may know about a machine and its node. Run only
// reads it.
type Input struct {
	// Document is what the agent posted: from inventory.Parse in the process that received the
	// post, from inventory.Restore after a restart.
	Document *inventory.Document
	// Properties of the node before inspection.
	Properties node.Object
	// Ports of the node before inspection.
	Ports []Port
	// Previous is the inventory of the last successful inspection, for hooks that compare. It is
	// nil when there was none or no hook asks for it.
	Previous *inventory.Inventory
	// Taken maps MAC addresses of the inventory to the UUIDs of other nodes that have ports with
	// them or keep them otherwise.
	Taken map[string]string
	// Claimed are the MAC addresses that may become ports; nil means all.
	Claimed map[string]bool
	// OutOfBand says that the document comes from the machine's BMC. It may lack data that a
	// ramdisk always knows; the hooks then leave everything that depends on the data as it is. The
	// hooks memory, boot-mode and root-device run even if they are not configured.
	OutOfBand bool
	// Logger receives debug remarks; nil discards them.
	Logger *slog.Logger
}

// Result is what the caller of a successful run has to store, in one commit.
type Result struct {
	// Properties has only the changed keys, for node.Object.With.
	Properties map[string]any
	// PluginData is the whole JSON object, keys sorted.
	PluginData    []byte
	PortsToCreate []Port
	PortsToUpdate []Port
	PortsToDelete []Port
	// Skipped has sentences about what hooks skipped and why.
	Skipped []string
}

// Context is the data that hooks work on during one run.
type Context struct {
	// Inventory is the typed view of what the agent sent; read-only.
	Inventory *inventory.Inventory
	// RawInventory is Inventory as JSON; read-only.
	RawInventory json.RawMessage
	// PluginData may be changed freely. Values must be valid JSON and are
	// replaced, never edited in place.
	PluginData map[string]json.RawMessage
	Properties *Properties
	Ports      *Ports
	Config     Config
	Log        *slog.Logger
	// Previous is the inventory of the inspection before this one, or nil.
	Previous *inventory.Inventory
	// OutOfBand is Input.OutOfBand.
	OutOfBand bool

	// interfaces are the results of validate-interfaces, for the hooks after it.
	interfaces []candidate
	lldp       map[string]*inventory.LLDP // see neighbours
	pci        *pciList                   // see pciDevices
	taken      map[string]string
	claimed    map[string]bool
	skipped    []string
}

func newContext(in Input, cfg Config) *Context {
	log := in.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Context{
		Inventory:    &in.Document.Hardware,
		RawInventory: in.Document.Inventory,
		PluginData:   maps.Clone(in.Document.PluginData),
		Properties:   &Properties{before: in.Properties},
		Ports:        newPorts(in.Ports),
		Config:       cfg,
		Log:          log,
		Previous:     in.Previous,
		OutOfBand:    in.OutOfBand,
		taken:        in.Taken,
		claimed:      in.Claimed,
	}
}

// SetPluginData sets a key of the plugin data to a value that JSON can express. It panics on other
// values, which are programming errors.
func (c *Context) SetPluginData(key string, value any) {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("inspect: plugin data %s of a value that cannot be encoded: %v", key, err))
	}
	c.PluginData[key] = encoded
}

// unknown handles data that is missing in the inventory. A ramdisk always knows such data, so its
// absence is an error. A BMC may not know it, so the node keeps what it has.
func (c *Context) unknown(what string, missing error) error {
	if !c.OutOfBand {
		return missing
	}
	c.Skip("The BMC does not tell %s, so what the node has stays as it is", what)
	return nil
}

// Skip records that a hook skipped a part of the data, as a sentence without a full stop. Outside
// text in the sentence must go through inventory.Quote.
func (c *Context) Skip(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.Log.Debug("Inspection hook skipped a part of the data", "reason", text)
	switch {
	case len(c.skipped) < maxSkips:
		c.skipped = append(c.skipped, text)
	case len(c.skipped) == maxSkips:
		c.skipped = append(c.skipped, "More was skipped; the list ends here")
	}
}

func (c *Context) result() *Result {
	created, updated, deleted := c.Ports.changes()
	return &Result{
		Properties:    c.Properties.changed,
		PluginData:    inventory.AppendObject(nil, c.PluginData),
		PortsToCreate: created,
		PortsToUpdate: updated,
		PortsToDelete: deleted,
		Skipped:       c.skipped,
	}
}
