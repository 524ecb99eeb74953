package node

import (
	"encoding/json"
	"strings"
)

// Names of capabilities.
const (
	BootModeCapability   = "boot_mode"   // "uefi" or "bios"
	SecureBootCapability = "secure_boot" // "true" asks for it
)

// Capability returns a value of the key capabilities in instance_info or properties, which
// is text ("a:b,c:d") or an object; empty for none.
func Capability(o Object, name string) string {
	const key = "capabilities"
	var values map[string]string
	if o.Get(key, &values) {
		return values[name]
	}
	text := o.Text(key)
	if json.Unmarshal([]byte(text), &values) == nil {
		return values[name]
	}
	for part := range strings.SplitSeq(text, ",") {
		if key, value, ok := strings.Cut(part, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// AskedBootMode is the boot mode that the instance of a node asks for, else the node itself;
// empty when neither does.
func AskedBootMode(n *Node) string {
	for _, o := range []Object{n.InstanceInfo, n.Properties} {
		if mode := Capability(o, BootModeCapability); mode != "" {
			return mode
		}
	}
	return ""
}

// AsksSecureBoot reports whether the instance of a node asks for secure boot.
func AsksSecureBoot(n *Node) bool {
	return strings.EqualFold(Capability(n.InstanceInfo, SecureBootCapability), "true")
}
