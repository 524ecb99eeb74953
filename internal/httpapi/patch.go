package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/ingot-metal/ingot/internal/node"
)

// escapesSince is the first microversion 1.N in which keys of a patch path may have the
// escapes of RFC 6901.
const escapesSince = 98

// patchOp is one operation of a JSON patch (RFC 6902). The API supports add, replace and
// remove.
type patchOp struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
	From  string          `json:"from,omitempty"` // used only by operations that are refused
}

// edit is one operation of a checked patch.
type edit[T any] struct {
	op    patchOp
	field *field[T]
	inner string // path inside the field; "" means the field itself
}

// maxPatchOps is how many operations a patch may have.
const maxPatchOps = 1000

// parsePatch parses a patch and checks everything that does not depend on the item: operations,
// paths, fields, versions, roles and access. It groups the edits of each field and keeps their
// order; fields do not depend on each other.
func parsePatch[T any](body []byte, t *table[T], c *call) ([]edit[T], error) {
	var ops []patchOp
	if len(body) == 0 || body[0] != '[' {
		return nil, badRequest("A patch is a JSON array of operations.")
	}
	if err := decode(body, &ops); err != nil {
		return nil, err
	}
	if len(ops) > maxPatchOps {
		return nil, badRequest("The patch has %d operations, more than %d.", len(ops), maxPatchOps)
	}
	edits := make([]edit[T], 0, len(ops))
	for i, op := range ops {
		e, err := parseEdit(op, t, c, i == 0)
		if err != nil {
			return nil, err
		}
		edits = append(edits, e)
	}
	slices.SortStableFunc(edits, func(a, b edit[T]) int { return strings.Compare(a.field.name, b.field.name) })
	return edits, nil
}

func parseEdit[T any](op patchOp, t *table[T], c *call, first bool) (edit[T], error) {
	e := edit[T]{op: op}
	name, inner, err := splitPath(op.Path, c.version)
	if err != nil {
		return e, err
	}
	switch op.Op {
	case "add", "replace":
		if len(op.Value) == 0 {
			return e, badRequest("The patch operation %s of %s needs a value.", op.Op, op.Path)
		}
	case "remove":
	default:
		return e, badRequest("The patch operation %q is not supported; use add, replace or remove.", op.Op)
	}
	e.field = t.byName[name]
	if e.field == nil || first || !e.field.lateOperations {
		if e.field, err = t.find(name, c.version); err != nil {
			return e, err
		}
	}
	e.inner = inner
	if err := t.checkRole(e.field, c); err != nil {
		return e, err
	}
	switch {
	case e.field.access != patchable:
		return e, badRequest("The field %q of %s cannot be changed by a patch.", name, t.one)
	case op.Op == "remove" && c.version < e.field.clearSince:
		return e, notAcceptable(fmt.Sprintf("Removing the field %q of %s", name, t.one), e.field.clearSince)
	case inner != "" && e.field.text == nil:
		return e, badRequest("The field %q of %s has no parts, so %s cannot be changed.", name, t.one, op.Path)
	}
	return e, nil
}

// splitPath splits "/extra/a/b" into "extra" and "/a/b".
func splitPath(path string, version int) (name, inner string, err error) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok || rest == "" || strings.HasSuffix(path, "/") || strings.Contains(path, "//") {
		return "", "", badRequest("Invalid patch path %q: want /field or /field/key.", path)
	}
	if version < escapesSince && strings.Contains(path, "~") {
		return "", "", badRequest("Invalid patch path %q: escaped keys need API version 1.%d or newer.", path, escapesSince)
	}
	name, inner, found := strings.Cut(rest, "/")
	if found {
		inner = "/" + inner
	}
	return name, inner, nil
}

// apply applies an edit of a whole field to item. Its errors are *node.ValidationError.
func (e edit[T]) apply(item *T) error {
	value := e.op.Value
	if e.op.Op == "remove" {
		value = nil
	}
	if err := e.field.read(item, value); err != nil {
		return invalidField(e.field.name, err)
	}
	return nil
}

// applyInside applies edits of parts of one field to item. It applies them all at once, because
// every application parses the whole value. The error is a *node.ValidationError about the first
// edit that cannot be applied.
func applyInside[T any](edits []edit[T], item *T) error {
	field, before := edits[0].field, []byte(edits[0].field.text(item))
	after, err := patched(before, edits)
	if err != nil {
		return firstFailure(before, edits)
	}
	if err := field.read(item, after); err != nil {
		return edits[len(edits)-1].cannot(err)
	}
	return nil
}

// firstFailure returns the error of the first edit that cannot be applied; there must be one. It
// halves the list at each step, so it does no more work than applying all edits once.
func firstFailure[T any](value []byte, edits []edit[T]) error {
	for len(edits) > 1 {
		half := len(edits) / 2
		changed, err := patched(value, edits[:half])
		if err != nil {
			edits = edits[:half]
			continue
		}
		value, edits = changed, edits[half:]
	}
	_, err := patched(value, edits)
	return edits[0].cannot(err)
}

// patched returns the value of a field after edits of its parts. If all edits but the last can be
// applied, an error is about the last.
func patched[T any](value []byte, edits []edit[T]) ([]byte, error) {
	ops := make([]patchOp, len(edits))
	for i, e := range edits {
		ops[i] = patchOp{Op: e.op.Op, Path: e.inner, Value: e.op.Value}
	}
	text, err := json.Marshal(ops)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, err
	}
	changed, err := patch.Apply(value)
	switch {
	case errors.Is(err, jsonpatch.ErrMissing) && ops[len(ops)-1].Op == "add":
		return nil, errNoParent
	case errors.Is(err, jsonpatch.ErrMissing):
		return nil, errNothingThere
	case err != nil:
		return nil, errNoPlace
	case depth(changed) > maxDepth:
		return nil, fmt.Errorf("the result would be nested deeper than %d levels", maxDepth)
	}
	return changed, nil
}

// Errors of paths inside a field, for clients. They replace the errors of the library,
// which describe its internals.
var (
	errNothingThere = errors.New("the path does not exist")
	errNoParent     = errors.New("the parent object or array does not exist")
	errNoPlace      = errors.New("the path is neither a key of an object nor an index of an array")
)

func (e edit[T]) cannot(err error) error {
	return node.Invalid("Cannot %s %s: %v", e.op.Op, e.op.Path, err)
}

func invalidField(name string, err error) error {
	return node.Invalid("Invalid value for %q: %v", name, err)
}

// applyAll applies the edits in order. Its errors are *node.ValidationError.
func applyAll[T any](edits []edit[T], item *T) error {
	for len(edits) > 0 {
		e, together := edits[0], 1
		for e.inner != "" && together < len(edits) && edits[together].inner != "" && edits[together].field == e.field {
			together++
		}
		var err error
		if e.inner == "" {
			err = e.apply(item)
		} else {
			err = applyInside(edits[:together], item)
		}
		if err != nil {
			return err
		}
		edits = edits[together:]
	}
	return nil
}

// touches reports whether an edit changes the named field.
func touches[T any](edits []edit[T], name string) bool {
	for _, e := range edits {
		if e.field.name == name {
			return true
		}
	}
	return false
}
