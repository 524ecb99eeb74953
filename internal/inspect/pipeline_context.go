package inspect

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"

	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
)

// maxSkips bounds the remarks of one run; a machine with thousands of odd
// interfaces needs no thousand sentences.
const maxSkips = 50

// Input is everything a pipeline may know about a machine and its node. Run only
// reads it.
type Input struct {
	// Document is what the agent posted: inventory.Parse in the process that
	// took the post, inventory.Restore after a restart.
	Document *inventory.Document
	// Properties of the node before inspection.
	Properties node.Object
	// Ports of the node before inspection.
	Ports []Port
	// Previous is the inventory of the last successful inspection, for hooks that
	// compare; nil when there was none or no hook asks for it.
	Previous *inventory.Inventory
	// Taken maps MAC addresses of the inventory that are ports of other nodes, or stay those
	// of other nodes, to these nodes' UUIDs.
	Taken map[string]string
	// Claimed are the MAC addresses that may become ports; nil means all.
	Claimed map[string]bool
	// OutOfBand says that the document is what the machine's BMC has shown. It may lack
	// what a ramdisk always knows: then the hooks leave alone what depends on that. The
	// hooks memory, boot-mode and root-device run even if they are not configured.
	OutOfBand bool
	// Logger receives debug remarks; nil discards them.
	Logger *slog.Logger
}

// Result is what a successful run wants stored, in one commit.
type Result struct {
	// Properties holds the changed keys only, for node.Object.With.
	Properties map[string]any
	// PluginData is the whole JSON object, keys sorted.
	PluginData    []byte
	PortsToCreate []Port
	PortsToUpdate []Port
	PortsToDelete []Port
	// Skipped says in sentences what hooks passed over and why.
	Skipped []string
}

// Context is what hooks work on during one run.
type Context struct {
	// Inventory is the typed view of what the agent sent; read-only.
	Inventory *inventory.Inventory
	// RawInventory is the same as JSON; read-only.
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
	// OutOfBand is that of the Input.
	OutOfBand bool

	// interfaces is what validate-interfaces found, for the hooks behind it.
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

// SetPluginData sets a key of the plugin data to a value that JSON can express;
// anything else is a programming error and panics.
func (c *Context) SetPluginData(key string, value any) {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("inspect: plugin data %s of a value that cannot be encoded: %v", key, err))
	}
	c.PluginData[key] = encoded
}

// unknown handles that the inventory lacks what a ramdisk always knows, and a BMC may not:
// then what the node has stays.
func (c *Context) unknown(what string, missing error) error {
	if !c.OutOfBand {
		return missing
	}
	c.Skip("The BMC does not tell %s, so what the node has stays as it is", what)
	return nil
}

// Skip records that a hook passed over a part of the data, as a sentence without
// a full stop. Outside text in it goes through inventory.Quote.
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
