package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

func templateUUID(d *node.DeployTemplate) string { return d.UUID }

// templateTable is every field of a deploy template, in the order of output.
var templateTable = newTable("deploy template", []field[node.DeployTemplate]{
	{name: "uuid", since: 1, access: atCreate, brief: true, value: uuidOf(func(d *node.DeployTemplate) *string { return &d.UUID })},
	{name: "name", since: 1, access: patchable, brief: true, value: textOf(func(d *node.DeployTemplate) *string { return &d.Name })},
	{name: "steps", since: 1, access: patchable, noSort: true, value: stepsOf("priority", func(d *node.DeployTemplate) *node.Array { return &d.Steps })},
	{name: "extra", since: 1, access: patchable, noSort: true, value: objectOf(func(d *node.DeployTemplate) *node.Object { return &d.Extra })},
}, stampsOf("deploy_templates", templateUUID,
	func(d *node.DeployTemplate) *time.Time { return &d.CreatedAt }, func(d *node.DeployTemplate) *time.Time { return &d.UpdatedAt }))

func (a *api) deployTemplates() *collection[node.DeployTemplate] {
	return &collection[node.DeployTemplate]{
		api: a, table: templateTable, path: "deploy_templates", name: "deploy_templates", named: true,
		since: 55, writeBelow: http.StatusMethodNotAllowed, all: Engine.DeployTemplates, uuid: templateUUID,
		check:   func(d *node.DeployTemplate, _ int) error { return checkTemplate(d.Name, d.Steps) },
		restore: func(old, changed *node.DeployTemplate) error { return restoreSteps(old.Steps, &changed.Steps) },
	}
}

func runbookUUID(b *node.Runbook) string { return b.UUID }

// runbookTable is every field of a runbook, in the order of output.
var runbookTable = newTable("runbook", []field[node.Runbook]{
	{name: "uuid", since: 1, access: atCreate, brief: true, value: uuidOf(func(b *node.Runbook) *string { return &b.UUID })},
	{name: "name", since: 1, access: patchable, brief: true, value: textOf(func(b *node.Runbook) *string { return &b.Name })},
	{name: "steps", since: 1, access: patchable, noSort: true, value: stepsOf("order", func(b *node.Runbook) *node.Array { return &b.Steps })},
	{name: "disable_ramdisk", since: 1, access: patchable, value: flagOf(func(b *node.Runbook) *bool { return &b.DisableRamdisk })},
	{name: "public", since: 1, access: patchable, brief: true, value: flagOf(func(b *node.Runbook) *bool { return &b.Public })},
	{name: "owner", since: 1, access: patchable, brief: true, value: textOf(func(b *node.Runbook) *string { return &b.Owner })},
	{name: "extra", since: 1, access: patchable, noSort: true, value: objectOf(func(b *node.Runbook) *node.Object { return &b.Extra })},
}, stampsOf("runbooks", runbookUUID,
	func(b *node.Runbook) *time.Time { return &b.CreatedAt }, func(b *node.Runbook) *time.Time { return &b.UpdatedAt }))

func (a *api) runbooks() *collection[node.Runbook] {
	return &collection[node.Runbook]{
		api: a, table: runbookTable, path: "runbooks", name: "runbooks", named: true,
		since: 92, writeBelow: http.StatusMethodNotAllowed, all: Engine.Runbooks, uuid: runbookUUID,
		filters: []filter{{name: "project", since: 1, parse: func(text string) (node.Filter, error) {
			return node.Filter{Field: "owner", Value: text, Or: &node.Filter{Field: "public", Value: true}}, nil
		}}},
		check:   func(b *node.Runbook, _ int) error { return checkTemplate(b.Name, b.Steps) },
		restore: func(old, changed *node.Runbook) error { return restoreSteps(old.Steps, &changed.Steps) },
	}
}

// checkTemplate checks the rules for deploy templates and runbooks.
func checkTemplate(name string, steps node.Array) error {
	if err := node.CheckTrait(name); err != nil {
		return invalidField("name", err)
	}
	if len(steps) == 0 {
		return node.Invalid("At least one step is needed.")
	}
	return nil
}

// stepsOf is an array of steps. The key place of a step has the position of the step.
func stepsOf[T any](place string, at func(*T) *node.Array) value[T] {
	return value[T]{
		append: func(dst []byte, v *view, item *T) []byte {
			if v.role >= admin {
				return append(dst, at(item).String()...)
			}
			return append(dst, maskedSteps(*at(item))...)
		},
		read: func(item *T, raw json.RawMessage) error {
			steps, err := readTemplateSteps(raw, place)
			if err == nil {
				*at(item) = steps
			}
			return err
		},
		text: func(item *T) string { return at(item).String() },
	}
}

// maskedSteps returns the steps as users below administrators read them, with the secrets in their
// arguments masked.
func maskedSteps(steps node.Array) []byte {
	return appendMasked(nil, node.Object(steps.String()), maskSecrets)
}

// restoreSteps keeps the stored steps when a client writes back the masked steps that it read.
// Steps can change their places, so it refuses other steps with masks.
func restoreSteps(stored node.Array, changed *node.Array) error {
	switch {
	case !bytes.Contains(*changed, []byte(mask)) || bytes.Equal(*changed, stored):
		return nil
	case sameValue(*changed, maskedSteps(stored)):
		*changed = stored
		return nil
	}
	return node.Invalid("The steps have %s in place of a secret. Give the secrets themselves when the steps change.", mask)
}

// sameValue reports whether two JSON texts are equal, apart from the order of keys.
func sameValue(a, b []byte) bool {
	var left, right any
	return json.Unmarshal(a, &left) == nil && json.Unmarshal(b, &right) == nil && reflect.DeepEqual(left, right)
}

// readTemplateSteps reads steps. It checks that every step has the keys interface, step, args and
// place, and no other key, and that no deploy step is repeated.
func readTemplateSteps(raw json.RawMessage, place string) (node.Array, error) {
	text, err := node.ParseArray(raw)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	keys := []string{"interface", "step", "args", place}
	steps, err := readSteps(json.RawMessage(text), keys, keys)
	if err != nil {
		return nil, err
	}
	if err := node.CheckSteps(steps); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i, step := range steps {
		switch {
		case step.Args == nil:
			return nil, fmt.Errorf("args of step %d must be an object", i)
		case place == "order" && (step.Order == nil || *step.Order < 0):
			return nil, fmt.Errorf("order of step %d must be an integer of at least 0", i)
		case place == "priority" && seen[step.Name()]:
			return nil, fmt.Errorf("step %d (%s) is a repetition", i, step.Name())
		}
		seen[step.Name()] = true
	}
	return text, nil
}
