package redfish

import (
	"context"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// updateFirmware is the firmware step, as the Bare Metal API names it. Its argument
// settings is a list of {component, url, checksum}, where the checksum may be missing.
const updateFirmware = "update"

// Bounds of an update of one component.
const (
	updateWithin = 2 * time.Hour
	// showWithin bounds how long a new version may take to be shown after everything
	// else is done.
	showWithin = 5 * time.Minute
	// searchFor is how long a request whose outcome is unknown is looked for before it is
	// repeated.
	searchFor = 2 * time.Minute
	// staleFor is how long the BMC may still show how an earlier update ended. blindFor is how long
	// an update is given when the BMC shows nothing of it.
	staleFor = time.Minute
	blindFor = 10 * time.Minute
)

// Phases of an update. The phases of the restart are between follow and verify.
const (
	fetchPhase  = "fetch"  // the engine gets the file
	sendPhase   = "send"   // what was there before is stored; the request is next
	searchPhase = "search" // the outcome of the request is unknown
	followPhase = "follow" // the BMC works on it

	// servedPhase follows the fetch, which may take long: the file is served, and the BMC was not
	// asked yet. It is a driver.WaitPhase.
	servedPhase = "serve waits"

	// Names under which earlier releases stored servedPhase and searchPhase.
	earlierServedPhase = "serve"
	earlierSearchPhase = "look"
)

// update is how far the update of one component has come.
type update struct {
	Item   int    `json:"item"`   // position in the argument settings
	Before string `json:"before"` // version when it began, or when a wait for it in doubt began
	// Tasks are the tasks that the BMC listed when the update began. Before that, they are the
	// tasks that were known from the component before.
	Tasks []string `json:"tasks,omitempty"`
	Task  string   `json:"task,omitempty"` // that follows it; empty when the BMC named none
	// Began is how long the step had taken when the update began, in seconds.
	Began float64 `json:"began,omitempty"`
	// Doubted: the BMC may have been asked for more than the stored record tells, such as for the
	// next component.
	Doubted bool `json:"doubted,omitempty"`
	// Found: the task was found after the outcome of the request was lost.
	Found bool `json:"found,omitempty"`
	// Seen: the BMC has shown that it works on the update.
	Seen bool `json:"seen,omitempty"`
	// Restarted: the machine was restarted since the BMC has the file.
	Restarted bool `json:"restarted,omitempty"`
	// Ended: the BMC has said that the update succeeded.
	Ended bool `json:"ended,omitempty"`
}

// firmwareFile is one entry of the argument settings. A checksum follows the URL as its
// fragment.
type firmwareFile struct{ component, url string }

var _ driver.Stepper = firmwareInterface{}

// Steps lists the firmware steps, which need no ramdisk. None runs by itself.
func (firmwareInterface) Steps(*node.Node, driver.StepKind) []node.Step {
	return []node.Step{{Step: updateFirmware}}
}

// RunStep makes a turn of an update: one component after the other, each from its request to the
// new version. A request whose outcome is unknown is not repeated unless the BMC shows that it
// never came. An abort leaves out the components that are not requested yet. It waits while the BMC
// may have been asked for the next one without a record of that.
func (f firmwareInterface) RunStep(ctx context.Context, n *node.Node, kind driver.StepKind, step node.Step, turn driver.Turn) (driver.Outcome, error) {
	files, err := filesArgument(n, step)
	if err != nil {
		return driver.Outcome{}, err
	}
	r, err := recordOf(turn)
	if err != nil {
		return driver.Outcome{}, err
	}
	if r.Update == nil {
		r.Update = &update{}
	}
	r.Update.Doubted = r.Update.Doubted || turn.Phase != sendPhase && (turn.Attempt == driver.Unknown || r.Doubt)
	if r.Update.Item >= len(files) {
		return driver.Outcome{}, nil
	}
	file := files[r.Update.Item]
	if step.AbortAfter && isUnasked(turn) && !r.Update.Doubted {
		out := r.ends(n, driver.Outcome{Apply: node.WithdrawFirmwareFile})
		return updating{node: n, file: file, turn: turn, record: r}.noted(out), nil
	}
	if r.Update.Doubted && prepares(turn.Phase) {
		if out := noteDoubt(n, file, turn, r); !out.Done() {
			return out, nil
		}
	}
	sources := f.pool.options.FileOptions
	served, err := sources.serves(n)
	if err == nil {
		err = sources.checkFiles(n, step, files, served)
	}
	if err != nil {
		return driver.Outcome{}, err
	}
	if served && !step.AbortAfter && (turn.Phase == "" || turn.Phase == fetchPhase) {
		return sources.fetch(ctx, file, turn, r)
	}
	return f.withRecord(ctx, n, "update the firmware of "+file.component, turn, r, func(c *call, r record) (driver.Outcome, error) {
		if phases[turn.Phase].watches { // again in each turn, because an answer of the BMC cancels it
			c.bmc.tries.MayStart()
		}
		w := updating{call: c, files: sources, node: n, kind: kind, file: file, last: r.Update.Item == len(files)-1, turn: c.turn, record: r}
		out, err := w.next()
		if err == nil {
			out = w.noted(out)
		}
		return out, err
	})
}

// filesArgument reads the argument settings.
func filesArgument(n *node.Node, step node.Step) ([]firmwareFile, error) {
	list, _ := step.Args["settings"].([]any)
	var files []firmwareFile
	for _, one := range list {
		setting, _ := one.(map[string]any)
		component, _ := setting["component"].(string)
		address, _ := setting["url"].(string)
		sum, isText := setting["checksum"].(string)
		known := component == "bios" || component == "bmc" || strings.HasPrefix(component, "nic:")
		if !known || !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") {
			return nil, node.Invalid("The step %s of node %s needs a list of settings, each with a component (bios, bmc or nic:<id>) and an http or https url.", step.Name(), n.UUID)
		}
		if setting["checksum"] != nil && !isText {
			return nil, node.Invalid("The checksum of %s in the step %s of node %s is not a text.", component, step.Name(), n.UUID)
		}
		address, err := withChecksum(address, sum)
		if err != nil {
			return nil, node.Invalid("The checksum of %s in the step %s of node %s %s.", component, step.Name(), n.UUID, err)
		}
		files = append(files, firmwareFile{component, address})
	}
	if len(files) == 0 {
		return nil, node.Invalid("The step %s of node %s needs the argument settings, a list of {component, url}.", step.Name(), n.UUID)
	}
	return files, nil
}
