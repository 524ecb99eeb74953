package node

import (
	"encoding/json"
	"strings"
)

// capabilitiesKey is the key of properties and instance_info that holds capabilities.
const capabilitiesKey = "capabilities"

// Capability returns the value of one of the object's capabilities, "" when it is not set. Clients
// write capabilities as text ("a:b,c:d"), as a JSON object, or as the text of a JSON object.
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

// textCapability returns the value of a name in capabilities of the form "name:value,…".
func textCapability(text, name string) string {
	for part := range strings.SplitSeq(text, ",") {
		if key, value, ok := strings.Cut(part, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// BootModeCapability returns the boot mode that the capabilities of instance_info ask for, else the
// one in the capabilities of properties; "" if neither has one. The capabilities of instance_info
// end with the instance, like all of instance_info.
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
