package node

import (
	"encoding/json"
	"strings"
)

// capabilitiesKey is the key of properties and instance_info that holds capabilities.
const capabilitiesKey = "capabilities"

// Capability returns one of the object's capabilities, which are text ("a:b,c:d"), an object,
// or the text of one; empty for none.
func (o Object) Capability(name string) string {
	var values map[string]string
	if o.Get(capabilitiesKey, &values) {
		return values[name]
	}
	text := o.Text(capabilitiesKey)
	if json.Unmarshal([]byte(text), &values) == nil {
		return values[name]
	}
	return textCapability(text, name)
}

// textCapability finds a value in capabilities that are written as "name:value,…".
func textCapability(text, name string) string {
	for part := range strings.SplitSeq(text, ",") {
		if key, value, ok := strings.Cut(part, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// BootModeCapability returns the boot mode that the capabilities of the instance ask for, else
// those of the machine; empty if neither do. Those of the instance end with it, as all of
// instance_info.
func (n *Node) BootModeCapability() string {
	for _, o := range []Object{n.InstanceInfo, n.Properties} {
		if mode := o.Capability("boot_mode"); mode != "" {
			return mode
		}
	}
	return ""
}

// AsksSecureBoot reports whether the instance of a node asks for secure boot.
func (n *Node) AsksSecureBoot() bool {
	return strings.EqualFold(n.InstanceInfo.Capability("secure_boot"), "true")
}
