package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Names of the BIOS steps, as the Bare Metal API has them.
const (
	applyConfiguration = "apply_configuration" // args: settings, a list of {name, value}
	factoryReset       = "factory_reset"
)

// Steps lists the BIOS steps, which need no ramdisk. None runs by itself.
func (biosInterface) Steps(*node.Node, driver.StepKind) []node.Step {
	return []node.Step{{Step: applyConfiguration}, {Step: factoryReset}}
}

// biosWithin bounds a change of the BIOS, with the restart that it needs.
const biosWithin = 30 * time.Minute

// resetWithin is how long a machine is given, from when it is on, to return to its factory
// settings. Firmware does that before anything boots.
const resetWithin = 10 * time.Minute

// RunStep makes a turn of a BIOS step: the change is requested, the machine restarts,
// and the settings are read until they show it.
func (b biosInterface) RunStep(ctx context.Context, n *node.Node, kind driver.StepKind, step node.Step, turn driver.Turn) (driver.Outcome, error) {
	var wanted map[string]any
	if step.Step == applyConfiguration {
		var err error
		if wanted, err = settingsArgument(n, step); err != nil {
			return driver.Outcome{}, err
		}
	}
	done, err := recordOf(turn)
	if err != nil {
		return driver.Outcome{}, err
	}
	return b.withRecord(ctx, n, "change the BIOS", turn, done, func(c *call, done record) (driver.Outcome, error) {
		switch {
		case turn.Phase == "" && step.Step == factoryReset:
			return c.requestReset(n, kind)
		case turn.Phase == "":
			return c.requestSettings(n, kind, wanted)
		case turn.Phase == verifyPhase:
			return c.verifySettings(n, wanted, turn, done)
		case turn.Elapsed > biosWithin:
			return driver.Outcome{}, c.endLate(done, late("its console shows why it does not start"))
		}
		return c.restart(n, kind, c.turn, done)
	})
}

// settingsArgument reads the argument settings of a step. Values are texts, numbers and
// booleans.
func settingsArgument(n *node.Node, step node.Step) (map[string]any, error) {
	list, _ := step.Args["settings"].([]any)
	wanted := map[string]any{}
	for _, one := range list {
		setting, _ := one.(map[string]any)
		name, _ := setting["name"].(string)
		value, ok := setting["value"]
		switch value.(type) {
		case string, bool, float64, json.Number, int:
		default:
			ok = false
		}
		if name == "" || !ok {
			return nil, node.Invalid("The step %s of node %s needs a list of settings, each with a name and a value that is a text, a number or a boolean.", step.Name(), n.UUID)
		}
		wanted[name] = value
	}
	if len(wanted) == 0 {
		return nil, node.Invalid("The step %s of node %s needs the argument settings, a list of {name, value}.", step.Name(), n.UUID)
	}
	return wanted, nil
}

// requestReset requests the factory settings. Requesting them twice harms nothing.
func (c *call) requestReset(n *node.Node, kind driver.StepKind) (driver.Outcome, error) {
	bios, err := c.bios(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	if _, err := bios.ResetBios(); err != nil {
		return driver.Outcome{}, err
	}
	return c.beginRestart(n, kind, record{}, 0)
}

// requestSettings requests the settings that the machine does not have now, or would not have after
// its next restart. It also requests settings that wait for the restart already: an iDRAC may hold
// them without the job that applies them. If the iDRAC has the job, it refuses the request, and the
// refusal is ignored. After a request whose outcome is unknown, it requests nothing if all of the
// settings wait already.
func (c *call) requestSettings(n *node.Node, kind driver.StepKind, wanted map[string]any) (driver.Outcome, error) {
	bios, err := c.bios(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	registry, err := c.registry(bios.AttributeRegistry)
	if err != nil { // the BMC checks values itself
		registry = nil
	}
	pending, document, err := c.pendingSettings(bios)
	if err != nil {
		return driver.Outcome{}, err
	}
	changes, err := changesOf(bios.Attributes, pending, registry, wanted)
	if err != nil || len(changes) == 0 {
		return driver.Outcome{}, err
	}
	waits := len(differing(pending, changes)) == 0
	if !waits || c.turn.Attempt != driver.Unknown {
		path := cmp.Or(document.Settings.SettingsObject.String(), bios.ODataID)
		err := c.patchSettings(path, document.change(changes)) // the library omits values that are present
		if err != nil && (!waits || !isCommitted(err)) {
			return driver.Outcome{}, err
		}
	}
	return c.beginRestart(n, kind, record{}, 0)
}

// changesOf returns the wanted settings that differ from the present or the pending ones, with
// values of the type that the BMC has. A setting that the BMC does not have, or that cannot
// have the value, is a final *node.DriverError, before anything is changed.
func changesOf(present, pending schemas.SettingsAttributes, registry map[string]attribute, wanted map[string]any) (schemas.SettingsAttributes, error) {
	changes := schemas.SettingsAttributes{}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		value, reason := valueFor(name, present, registry[name], wanted[name])
		switch {
		case reason != "":
			wrong = append(wrong, name+" "+reason)
		case present[name] != value, pending[name] != nil && pending[name] != value:
			changes[name] = value
		}
	}
	if len(wrong) > 0 {
		return nil, &node.DriverError{Op: "set BIOS settings", Refused: true, Reason: node.CutText("nothing was changed: " + strings.Join(wrong, "; "))}
	}
	return changes, nil
}

// valueFor converts a wanted value to the type of the present one, or says why the
// setting cannot have it.
func valueFor(name string, present schemas.SettingsAttributes, known attribute, wanted any) (value any, reason string) {
	has, ok := present[name]
	if !ok {
		return nil, "is no setting of this BIOS"
	}
	if known.ReadOnly {
		return nil, "is read-only"
	}
	text := valueText(wanted)
	var err error
	switch has.(type) {
	case float64:
		value, err = strconv.ParseFloat(text, 64)
	case bool:
		value, err = strconv.ParseBool(strings.ToLower(text))
	default:
		value = text
	}
	if err != nil {
		return nil, fmt.Sprintf("cannot be %q: it is %s", text, map[bool]string{true: "true or false", false: "a number"}[isBool(has)])
	}
	allowed := make([]string, 0, len(known.Value))
	for _, one := range known.Value {
		allowed = append(allowed, one.ValueName)
	}
	if known.Type == schemas.EnumerationAttributeType && len(allowed) > 0 && !slices.Contains(allowed, text) {
		return nil, fmt.Sprintf("cannot be %q; it can be %s", text, node.Choices(allowed))
	}
	return value, ""
}

func isBool(value any) bool { _, ok := value.(bool); return ok }

// differing lists the settings that do not have the value, with both values.
func differing(present, wanted schemas.SettingsAttributes) []string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if has, ok := present[name]; !ok || has != wanted[name] {
			texts = append(texts, fmt.Sprintf("%s is %s, not %s", name, valueText(has), valueText(wanted[name])))
		}
	}
	return texts
}

// settingsDocument says where and when settings are changed (DSP0266, settings resource).
type settingsDocument struct {
	Settings struct {
		SettingsObject      schemas.Link
		SupportedApplyTimes []schemas.SettingsApplyTime
	} `json:"@Redfish.Settings"`
}

// change returns the body of a request that changes settings at the next restart. It names that
// time only to a BMC that lets clients choose the time.
func (d settingsDocument) change(settings schemas.SettingsAttributes) map[string]any {
	body := map[string]any{"Attributes": settings}
	if slices.Contains(d.Settings.SupportedApplyTimes, schemas.OnResetSettingsApplyTime) {
		body["@Redfish.SettingsApplyTime"] = map[string]any{"ApplyTime": schemas.OnResetSettingsApplyTime}
	}
	return body
}

// pendingSettings reads the settings that the next restart applies, and the document that says
// where to change them. Both are empty for a BMC without a settings resource.
func (c *call) pendingSettings(bios *schemas.Bios) (schemas.SettingsAttributes, settingsDocument, error) {
	var present settingsDocument
	if err := c.read(bios.ODataID, &present); err != nil || present.Settings.SettingsObject == "" {
		return nil, settingsDocument{}, err
	}
	var next struct{ Attributes schemas.SettingsAttributes }
	err := c.read(present.Settings.SettingsObject.String(), &next)
	return next.Attributes, present, err
}

// late returns the error of a step that took too long.
func late(why string) error {
	return &node.DriverError{Op: "change the BIOS", Reason: node.CutText("the machine did not show the change within " + biosWithin.String() + ": " + why)}
}

// verifySettings waits until the machine shows the wanted settings. The factory settings are not
// known: after a reset to them, it waits for resetWithin, in which the machine starts, and longer
// while the BMC shows the reset as pending or shows no settings. While a machine starts, its BMC
// may show no settings or only some of them, or answer that it is not ready.
func (c *call) verifySettings(n *node.Node, wanted map[string]any, turn driver.Turn, done record) (driver.Outcome, error) {
	var present schemas.SettingsAttributes
	bios, err := c.bios(n)
	var missing *node.NotSupportedError
	switch {
	case err == nil:
		present = bios.Attributes
	case !errors.As(err, &missing) && statusOf(err) != http.StatusNotFound && !temporary(err):
		return driver.Outcome{}, err
	}
	left := unshown(present, wanted)
	switch {
	case wanted == nil && err != nil:
		left = []string{"the settings are not shown"}
	case wanted == nil && bios.ResetBiosToDefaultsPending:
		left = []string{"the reset is pending"}
	}
	switch {
	case wanted == nil && done.took(turn) < resetWithin:
		return done.outcome(driver.Outcome{Park: parkFor(done.took(turn)), Phase: verifyPhase}), nil
	case len(left) > 0 && turn.Elapsed > biosWithin:
		return driver.Outcome{}, late(strings.Join(left, ", "))
	case len(left) > 0:
		return done.outcome(driver.Outcome{Park: parkFor(done.took(turn)), Phase: verifyPhase}), nil
	}
	return done.ends(n, driver.Outcome{}), nil
}

// unshown lists the wanted settings that the machine does not show, with what it shows.
func unshown(present schemas.SettingsAttributes, wanted map[string]any) []string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		has, ok := present[name]
		value, reason := valueFor(name, present, attribute{}, wanted[name])
		switch {
		case !ok:
			texts = append(texts, name+" is not shown")
		case reason != "" || has != value:
			texts = append(texts, fmt.Sprintf("%s is %s, not %s", name, valueText(has), valueText(wanted[name])))
		}
	}
	return texts
}
