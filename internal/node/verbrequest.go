package node

import "encoding/json"

// VerbRequest is a provision verb with everything that a client may send along.
type VerbRequest struct {
	Verb Verb
	User string // who asked; empty when nobody was authenticated
	// Steps are clean, deploy or service steps, as the verb has it; nil when the
	// request has none.
	Steps []Step
	// Runbook is the UUID or name of the runbook that stands for Steps.
	Runbook string
	// ConfigDrive is a JSON string (base64 of an ISO image, or a URL) or a JSON
	// object with meta_data, network_data, user_data and vendor_data; nil means
	// that the request has none.
	ConfigDrive    json.RawMessage
	RescuePassword string
	// DisableRamdisk asks to run the steps without starting the ramdisk.
	DisableRamdisk bool
}
