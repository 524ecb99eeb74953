package cli

import (
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// Verb is a command that changes the provision state of nodes.
type Verb struct {
	Name   string // of the command: "deploy"
	Target string // on the wire: "active"
	Short  string
	// Arrives is the state that ends the work. Empty means the target state of the resumed work.
	Arrives node.State
	// ArrivesRetired is a state that ends the work of a retired node, too; empty for none.
	ArrivesRetired node.State
	// Stops means that the verb ends work, so a failed state is a success.
	Stops bool
	// Fields are the fields that the request may have besides the target.
	Fields []Field
	// Instance are members of the nodes' instance_info, which are set before the request.
	Instance []Field
}

// Fields that several verbs share.
var (
	runbookField        = Field{Flag: "runbook", Name: "runbook", Help: "name or UUID of a runbook to run instead of steps"}
	disableRamdiskField = Field{Flag: "disable-ramdisk", Name: "disable_ramdisk", Kind: Constant, Value: true, Help: "do not boot the ramdisk; no step may need it"}
	configDriveField    = Field{Flag: "config-drive", Name: "configdrive", Kind: ConfigDrive, Help: "config drive as a `FILE` with JSON or an ISO image, its URL, JSON, or - for standard input"}
	deployStepsField    = Field{Flag: "deploy-steps", Name: "deploy_steps", Kind: JSON, Help: "steps as JSON, a `FILE` with JSON or YAML, or - for standard input"}
)

// imageFields describe the image of a deployment.
var imageFields = []Field{
	{Flag: "image", Name: "image_source", Help: "http or https `URL` of a whole-disk image"},
	{Flag: "checksum", Name: "image_checksum", Help: "SHA-256 or SHA-512 checksum of the image, or the `URL` of a file with checksums"},
	{Flag: "image-format", Name: "image_disk_format", Choices: []string{"raw", "qcow2"}, Help: "format of the image: raw or qcow2 (default: as its name ends, else the agent finds out)"},
	{Flag: "boot-iso", Name: "boot_iso", Help: "`URL` of an ISO image that the machine boots at each start instead (deploy interface ramdisk)"},
}

var verbs = []Verb{
	{Name: "manage", Target: "manage", Arrives: node.Manageable, Short: "Verify that the engine can manage nodes (to manageable)"},
	{Name: "inspect", Target: "inspect", Arrives: node.Manageable, Short: "Inspect the hardware of nodes (to manageable)"},
	{Name: "provide", Target: "provide", Arrives: node.Available, Short: "Make nodes available for deployment (to available)"},
	{Name: "clean", Target: "clean", Arrives: node.Manageable, Short: "Run clean steps on nodes (to manageable)", Fields: []Field{
		{Flag: "clean-steps", Name: "clean_steps", Kind: JSON, Help: "steps as JSON, a `FILE` with JSON or YAML, or - for standard input"},
		runbookField, disableRamdiskField,
	}},
	{
		Name: "deploy", Target: "active", Arrives: node.Active, Short: "Deploy nodes (to active)",
		Fields: []Field{configDriveField, deployStepsField, runbookField}, Instance: imageFields,
	},
	{
		Name: "rebuild", Target: "rebuild", Arrives: node.Active, Short: "Deploy active nodes again (to active)",
		Fields: []Field{configDriveField, deployStepsField, runbookField}, Instance: imageFields,
	},
	{
		Name: "undeploy", Target: "deleted", Arrives: node.Available, ArrivesRetired: node.Manageable,
		Short: "Remove the instances from nodes (to available, or manageable if they are retired)",
	},
	{Name: "adopt", Target: "adopt", Arrives: node.Active, Short: "Adopt nodes that already run an instance (to active)"},
	{Name: "service", Target: "service", Arrives: node.Active, Short: "Run service steps on active nodes (to active)", Fields: []Field{
		{Flag: "service-steps", Name: "service_steps", Kind: JSON, Help: "steps as JSON, a `FILE` with JSON or YAML, or - for standard input"},
		runbookField, disableRamdiskField,
	}},
	{Name: "rescue", Target: "rescue", Arrives: node.Rescue, Short: "Boot active nodes into a rescue ramdisk (to rescue)", Fields: []Field{
		{Flag: "rescue-password", Name: "rescue_password", Kind: Password, Help: "password of the rescue user, or - for the first line of standard input", Required: true},
	}},
	{Name: "unrescue", Target: "unrescue", Arrives: node.Active, Short: "Boot rescued nodes into their instance again (to active)"},
	{Name: "abort", Target: "abort", Stops: true, Short: "Abort the operation that nodes wait in (to a failed state)"},
	{Name: "unhold", Target: "unhold", Short: "Resume nodes that a hold step stopped"},
}

// Verbs returns every verb in the order that help texts show them.
func Verbs() []Verb { return slices.Clone(verbs) }
