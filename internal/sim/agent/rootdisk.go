package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// machineDocument is the part of the inspection document about disks.
type machineDocument struct {
	RootDisk  rootDisk `json:"root_disk"`
	Inventory struct {
		Disks []rootDisk `json:"disks"`
	} `json:"inventory"`
}

// rootDisk is a disk to which an image may be written.
type rootDisk struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // bytes
	// attributes has everything that the document says about the disk.
	attributes map[string]any
}

// UnmarshalJSON reads a disk of the document.
func (d *rootDisk) UnmarshalJSON(text []byte) error {
	type fields rootDisk
	if err := json.Unmarshal(text, (*fields)(d)); err != nil {
		return err
	}
	return json.Unmarshal(text, &d.attributes)
}

func (a *Agent) machineDisks() (d machineDocument) {
	if err := json.Unmarshal(a.config.Document(), &d); err != nil {
		a.log.Debug("The inspection document is unreadable", "err", err)
	}
	return d
}

// knownNode is the part of its node that an agent uses.
type knownNode struct {
	UUID       string    `json:"uuid"`
	Instance   diskHints `json:"instance_info"`
	Properties diskHints `json:"properties"`
}

// diskHints are root device hints in an open dictionary of a node.
type diskHints struct {
	RootDevice json.RawMessage `json:"root_device"`
}

// nodeOf returns the argument node of a command.
func nodeOf(p params) (n knownNode) {
	_ = json.Unmarshal(p["node"], &n) // an argument that is not a node has no hints
	return n
}

// remember stores a node for the later commands that have no argument node.
func (a *Agent) remember(n knownNode) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node = n
}

// hints returns the root device hints of a node. Hints of its instance replace those of its
// properties.
func (n knownNode) hints() map[string]string {
	for _, given := range []json.RawMessage{n.Instance.RootDevice, n.Properties.RootDevice} {
		var values map[string]any
		_ = json.Unmarshal(given, &values) // what is not an object has no hints
		hints := make(map[string]string, len(values))
		for name, value := range values {
			hints[name] = fmt.Sprint(value)
		}
		if len(hints) > 0 {
			return hints
		}
	}
	return nil
}

// rootDisk returns the disk to which images are written: the first that fits all root device hints
// of the node. If there are no hints, that is the root disk in the inspection document.
func (a *Agent) rootDisk() (rootDisk, *commandError) {
	a.mu.Lock()
	hints := a.node.hints()
	a.mu.Unlock()
	document := a.machineDisks()
	if len(hints) == 0 && document.RootDisk.Name == "" {
		return rootDisk{}, deviceNotFound("No suitable device was found for deployment - root device hints were not provided " +
			"and all found block devices are smaller than 4294967296B.")
	}
	if len(hints) == 0 {
		return document.RootDisk, nil
	}
	for _, d := range document.Inventory.Disks {
		fits, err := d.fits(hints)
		switch {
		case err != nil:
			return rootDisk{}, deviceNotFound(fmt.Sprintf(
				"No suitable device could be found for deployment using these hints %s. Error: %v", pythonDict(hints), err))
		case fits:
			return d, nil
		}
	}
	return rootDisk{}, deviceNotFound("No suitable device was found for deployment using these hints " + pythonDict(hints))
}

// fits reports whether a disk fits all hints. The error is that of a hint that cannot be read.
func (d rootDisk) fits(hints map[string]string) (bool, error) {
	for _, name := range slices.Sorted(maps.Keys(hints)) {
		var fits bool
		var err error
		hint := hints[name]
		switch name {
		case "size":
			fits, err = fitsNumber(hint, float64(d.Size)/(1<<30))
		case "rotational":
			var wanted bool
			wanted, err = strconv.ParseBool(strings.ToLower(hint))
			fits = d.attributes[name] == wanted
		default:
			have, _ := d.attributes[name].(string) // a missing attribute is "", which only s!= fits
			fits, err = fitsText(hint, have)
		}
		if err != nil || !fits {
			return false, err
		}
	}
	return true, nil
}

// operators are the operators of hints. An operator comes before those that are a prefix of it.
var operators = []string{"<in>", "<or>", "s==", "s!=", "s<=", "s>=", "s<", "s>", "==", "!=", "<=", ">=", "=", "<", ">"}

// operands splits a hint into its operator, "" if there is none, and the values after the operator.
func operands(hint string) (operator string, values []string) {
	hint = strings.ToLower(strings.TrimSpace(hint))
	if i := slices.IndexFunc(operators, func(o string) bool { return strings.HasPrefix(hint, o) }); i >= 0 {
		operator = operators[i]
	}
	hint = strings.TrimPrefix(hint, operator)
	values = []string{hint}
	if operator == "<or>" {
		values = strings.Split(hint, operator)
	}
	for i, value := range values {
		values[i] = strings.TrimSpace(value)
	}
	return operator, values
}

// fitsText compares a text with a hint, without regard to case.
func fitsText(hint, have string) (bool, error) {
	have = strings.ToLower(strings.TrimSpace(have))
	operator, values := operands(hint)
	switch operator {
	case "<or>":
		return slices.Contains(values, have), nil
	case "<in>":
		return strings.Contains(have, values[0]), nil
	}
	order, isText := strings.CutPrefix(operator, "s")
	if !isText && operator != "" {
		return false, fmt.Errorf("the operator %s does not compare texts", operator)
	}
	return ordered(cmp.Or(order, "=="), cmp.Compare(have, values[0])), nil
}

// fitsNumber compares a number with a hint. In hints, a single = means "at least".
func fitsNumber(hint string, have float64) (bool, error) {
	operator, values := operands(hint)
	for _, value := range values {
		wanted, err := strconv.ParseFloat(value, 64)
		if err != nil || strings.HasPrefix(operator, "s") || operator == "<in>" {
			return false, fmt.Errorf("the hint %q is no number", hint)
		}
		order := map[string]string{"": "==", "<or>": "==", "=": ">="}[operator]
		if ordered(cmp.Or(order, operator), cmp.Compare(have, wanted)) {
			return true, nil
		}
	}
	return false, nil
}

// ordered reports whether the sign of a comparison satisfies an operator.
func ordered(order string, sign int) bool {
	switch order {
	case "==":
		return sign == 0
	case "!=":
		return sign != 0
	case "<=":
		return sign <= 0
	case ">=":
		return sign >= 0
	case "<":
		return sign < 0
	default:
		return sign > 0
	}
}
