package cli

import (
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// Verb is a command that moves nodes through their provision states.
type Verb struct {
	Name   string // of the command: "deploy"
	Target string // on the wire: "active"
	Short  string
	// Arrives is the state that ends the work. Empty means wherever the work
	// that goes on leads to.
	Arrives node.State
	// Stops tells that work is to be ended, so that a failed state is what the
	// verb is for.
	Stops bool
	// Fields are what the request may carry beside the target.
	Fields []Field
}

// Fields that several verbs share.
var (
	runbookField        = Field{Flag: "runbook", Name: "runbook", Help: "name or UUID of the runbook to follow instead of steps"}
	disableRamdiskField = Field{Flag: "disable-ramdisk", Name: "disable_ramdisk", Kind: Constant, Value: true, Help: "do not boot the ramdisk; all steps must do without it"}
	configDriveField    = Field{Flag: "config-drive", Name: "configdrive", Kind: ConfigDrive, Help: "config drive: a `FILE` with JSON or an ISO image, its URL, JSON, or - for standard input"}
	deployStepsField    = Field{Flag: "deploy-steps", Name: "deploy_steps", Kind: JSON, Help: "steps: JSON, a `FILE` with JSON or YAML, or - for standard input"}
)

var verbs = []Verb{
	{Name: "manage", Target: "manage", Arrives: node.Manageable, Short: "Take nodes under management (to manageable)"},
	{Name: "inspect", Target: "inspect", Arrives: node.Manageable, Short: "Find out what hardware nodes have"},
	{Name: "provide", Target: "provide", Arrives: node.Available, Short: "Offer nodes for deployment (to available)"},
	{Name: "clean", Target: "clean", Arrives: node.Manageable, Short: "Run clean steps on nodes", Fields: []Field{
		{Flag: "clean-steps", Name: "clean_steps", Kind: JSON, Help: "steps: JSON, a `FILE` with JSON or YAML, or - for standard input"},
		runbookField, disableRamdiskField,
	}},
	{
		Name: "deploy", Target: "active", Arrives: node.Active, Short: "Deploy nodes (to active)",
		Fields: []Field{configDriveField, deployStepsField, runbookField},
	},
	{
		Name: "rebuild", Target: "rebuild", Arrives: node.Active, Short: "Deploy active nodes again",
		Fields: []Field{configDriveField, deployStepsField, runbookField},
	},
	{Name: "undeploy", Target: "deleted", Arrives: node.Available, Short: "Take the instance off nodes (to available)"},
	{Name: "adopt", Target: "adopt", Arrives: node.Active, Short: "Take over nodes that run an instance already (to active)"},
	{Name: "service", Target: "service", Arrives: node.Active, Short: "Run service steps on active nodes", Fields: []Field{
		{Flag: "service-steps", Name: "service_steps", Kind: JSON, Help: "steps: JSON, a `FILE` with JSON or YAML, or - for standard input"},
		runbookField, disableRamdiskField,
	}},
	{Name: "rescue", Target: "rescue", Arrives: node.Rescue, Short: "Boot active nodes into a rescue ramdisk", Fields: []Field{
		{Flag: "rescue-password", Name: "rescue_password", Help: "password of the rescue user", Required: true},
	}},
	{Name: "unrescue", Target: "unrescue", Arrives: node.Active, Short: "Boot rescued nodes into their instance again"},
	{Name: "abort", Target: "abort", Stops: true, Short: "End what nodes are waiting for (to a failed state)"},
	{Name: "unhold", Target: "unhold", Short: "Let held nodes go on"},
}

// Verbs returns every verb in the order that help texts show them.
func Verbs() []Verb { return slices.Clone(verbs) }
