package node

import "encoding/json"

// VerbRequest is a provision verb with the other keys of its request.
type VerbRequest struct {
	Verb Verb
	User string // authenticated user; empty for none
	// Steps are clean, deploy or service steps, depending on the verb; nil when the
	// request has none.
	Steps []Step
	// Runbook is the UUID or name of a runbook. Its steps replace Steps.
	Runbook string
	// ConfigDrive is a JSON string (base64 of an ISO image, or a URL) or a JSON
	// object with meta_data, network_data, user_data and vendor_data; nil means
	// that the request has none.
	ConfigDrive    json.RawMessage
	RescuePassword string
	// RescueHash is the hash that the conductor makes of RescuePassword, see RescueHashKey.
	RescueHash string
	// DisableRamdisk runs the steps without booting the ramdisk.
	DisableRamdisk bool
}
