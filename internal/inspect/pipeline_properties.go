package inspect

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// capabilitiesKey is the property that holds capabilities as text,
// "boot_mode:uefi,cpu_vt:true".
const capabilitiesKey = "capabilities"

// Properties are the node's properties while hooks change them.
type Properties struct {
	before  node.Object
	changed map[string]any
}

// Text returns a property if it is text, else "".
func (p *Properties) Text(key string) string {
	if value, ok := p.changed[key]; ok {
		text, _ := value.(string)
		return text
	}
	return p.before.Text(key)
}

// Has reports whether a property is set, whatever its value.
func (p *Properties) Has(key string) bool {
	_, changed := p.changed[key]
	_, before := p.before.Fields()[key]
	return changed || before
}

// Get decodes a property into target, and reports whether the property exists and fits target.
func (p *Properties) Get(key string, target any) bool {
	if value, ok := p.changed[key]; ok {
		encoded, err := json.Marshal(value)
		return err == nil && json.Unmarshal(encoded, target) == nil
	}
	return p.before.Get(key, target)
}

// Set sets a property to a value that JSON can express. Setting the value that the node already has
// is not a change.
func (p *Properties) Set(key string, value any) {
	var stored json.RawMessage
	encoded, err := json.Marshal(value)
	if err == nil && p.before.Get(key, &stored) && bytes.Equal(stored, encoded) {
		delete(p.changed, key)
		return
	}
	if p.changed == nil {
		p.changed = map[string]any{}
	}
	p.changed[key] = value
}

// Capability returns the value of a capability, or "" when the node lacks it.
func (p *Properties) Capability(name string) string {
	for entry := range strings.SplitSeq(p.Text(capabilitiesKey), ",") {
		if key, value, ok := strings.Cut(strings.TrimSpace(entry), ":"); ok && key == name {
			return value
		}
	}
	return ""
}

// SetCapability sets one capability and keeps the others in their order.
func (p *Properties) SetCapability(name, value string) {
	var entries []string
	found := false
	for entry := range strings.SplitSeq(p.Text(capabilitiesKey), ",") {
		entry = strings.TrimSpace(entry)
		key, _, _ := strings.Cut(entry, ":")
		switch {
		case entry == "", key == name && found:
			continue
		case key == name:
			entry, found = name+":"+value, true
		}
		entries = append(entries, entry)
	}
	if !found {
		entries = append(entries, name+":"+value)
	}
	p.Set(capabilitiesKey, strings.Join(entries, ","))
}
