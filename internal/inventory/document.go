package inventory

import "encoding/json"

// maxPluginKeys limits the top-level keys of a document besides the inventory. Agents send about
// ten; every collector adds one.
const maxPluginKeys = 1024

// Document is one inspection document. It shares memory with the bytes it was
// parsed from, which must not change while it is in use.
type Document struct {
	// Inventory is the inventory object exactly as sent.
	Inventory json.RawMessage
	// Hardware is the typed view of Inventory.
	Hardware Inventory
	// PluginData holds every other top-level key as sent, without the logs.
	PluginData map[string]json.RawMessage
	// Logs is the agent's log archive (text, base64 of a tar.gz), nil when none
	// was sent. It is never stored with the inspection data.
	Logs json.RawMessage
}

// Parse reads the body that an agent posts to continue_inspection. It returns an *Error unless the
// body is one JSON object with an inventory that has at least one interface, and all known keys
// have their proper types. Every interface must have a well-formed hardware address, and at least
// one of them an Ethernet address that identifies the machine.
func Parse(body []byte) (*Document, error) {
	r := newReader(body)
	if err := r.start(); err != nil {
		return nil, err
	}
	doc := &Document{PluginData: make(map[string]json.RawMessage, 8)}
	found := false
	err := r.object(func(key string) (err error) {
		switch key {
		case "inventory":
			found = true
			start := r.pos
			if err = r.inventory(&doc.Hardware); err == nil {
				err = doc.Hardware.checkInterfaces()
			}
			doc.Inventory = r.since(start)
		case "logs":
			doc.Logs, err = r.rawValue()
		default:
			err = r.pluginValue(doc.PluginData, key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	if !found {
		return nil, inKey("inventory", errorf("is missing, want an object"))
	}
	return doc, nil
}

// Restore rebuilds a document from its two stored parts, so that hooks can run again in another
// process. The errors are those of ParseInventory.
func Restore(inventory, pluginData []byte) (*Document, error) {
	hardware, err := ParseInventory(inventory)
	if err != nil {
		return nil, err
	}
	doc := &Document{Inventory: inventory, Hardware: *hardware, PluginData: make(map[string]json.RawMessage, 8)}
	r := newReader(pluginData)
	if err := r.start(); err != nil {
		return nil, inKey("plugin_data", err)
	}
	err = r.object(func(key string) error { return r.pluginValue(doc.PluginData, key) })
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return nil, inKey("plugin_data", err)
	}
	return doc, nil
}

// ParseInventory reads an inventory object by itself, as the Bare Metal API returns it. The errors
// are those of Parse, but an inventory without interfaces is valid, because an inspection through a
// BMC may have found none.
func ParseInventory(raw []byte) (*Inventory, error) {
	r := newReader(raw)
	inv := &Inventory{}
	err := r.start()
	if err == nil {
		err = r.inventory(inv)
	}
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return nil, inKey("inventory", err)
	}
	return inv, nil
}

func (r *reader) pluginValue(into map[string]json.RawMessage, key string) error {
	value, err := r.rawValue()
	if err != nil {
		return err
	}
	if into[key] = value; len(into) > maxPluginKeys {
		return errorf("more than %d keys beside the inventory", maxPluginKeys)
	}
	return nil
}
