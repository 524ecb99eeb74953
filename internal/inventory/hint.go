package inventory

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Hints describe a disk by its attributes, as the properties root_device and
// skip_block_devices of a node do. A disk matches when every hint fits it. The
// zero value holds no hints and matches every disk.
//
// The grammar and its meaning are those of the agent (its module device_hints,
// with the operators of oslo.utils' specs_matcher), because the disk that is found
// here has to be the one that the agent writes to. Text is compared without regard
// to case and to white space around it. An attribute that the agent does not know
// fits no hint, with one exception of the agent's: it differs from every text.
//
// Where the agent reads a part of an expression only, or fails when it comes to a
// disk, parsing refuses the hint.
type Hints struct{ hints []hint }

// hint is one attribute with what it has to be.
type hint struct {
	attribute  string
	expression string // as written
	fits       func(*Disk) bool
}

// hintParsers holds the attributes that hints may name.
var hintParsers = map[string]func(value json.RawMessage) (func(*Disk) bool, error){
	"by_path":              textHint(func(d *Disk) string { return d.ByPath }),
	"hctl":                 textHint(func(d *Disk) string { return d.HCTL }),
	"model":                textHint(func(d *Disk) string { return d.Model }),
	"name":                 textHint(func(d *Disk) string { return d.Name }),
	"rotational":           rotationalHint,
	"serial":               textHint(func(d *Disk) string { return d.Serial }),
	"size":                 sizeHint,
	"tran":                 textHint(func(d *Disk) string { return d.Transport }),
	"vendor":               textHint(func(d *Disk) string { return d.Vendor }),
	"wwn":                  textHint(func(d *Disk) string { return d.WWN }),
	"wwn_vendor_extension": textHint(func(d *Disk) string { return d.WWNVendorExtension }),
	"wwn_with_extension":   textHint(func(d *Disk) string { return d.WWNWithExtension }),
}

// ParseHints reads a JSON object of hints, such as
//
//	{"size": ">= 200", "rotational": false, "vendor": "<or> Intel <or> Micron"}
//
// Null and the empty object are no hints. The error is an *Error with the
// attribute as its path.
func ParseHints(raw json.RawMessage) (Hints, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return Hints{}, errorf("want an object of hints such as {%q: %q}, got %s", "size", ">= 200", Quote(string(raw)))
	}
	var h Hints
	for _, attribute := range slices.Sorted(maps.Keys(fields)) {
		parse, known := hintParsers[attribute]
		if !known {
			names := slices.Sorted(maps.Keys(hintParsers))
			return Hints{}, errorf("unknown hint %s, want one of %s", Quote(attribute), strings.Join(names, ", "))
		}
		fits, err := parse(fields[attribute])
		if err != nil {
			return Hints{}, inKey(attribute, err)
		}
		h.hints = append(h.hints, hint{attribute: attribute, expression: written(fields[attribute]), fits: fits})
	}
	return h, nil
}

// IsEmpty reports whether there are no hints.
func (h Hints) IsEmpty() bool { return len(h.hints) == 0 }

// Match reports whether every hint fits the disk.
func (h Hints) Match(disk *Disk) bool {
	return !slices.ContainsFunc(h.hints, func(hint hint) bool { return !hint.fits(disk) })
}

// Find returns the first disk that matches and that skip, if not nil, does not
// exclude, or nil.
func (h Hints) Find(disks []Disk, skip func(*Disk) bool) *Disk {
	for i := range disks {
		if disk := &disks[i]; h.Match(disk) && (skip == nil || !skip(disk)) {
			return disk
		}
	}
	return nil
}

// written returns the value of a hint as people write it. Encoders may escape any
// character (RFC 8259, section 7), and Go's does so with the operators.
func written(value json.RawMessage) string {
	var text *string
	if json.Unmarshal(value, &text) != nil || text == nil {
		return string(value)
	}
	return strconv.Quote(*text)
}

// String renders the hints for a message, sorted and as written:
// serial "ABC", size ">= 200".
func (h Hints) String() string {
	texts := make([]string, len(h.hints))
	for i, hint := range h.hints {
		texts[i] = hint.attribute + " " + cut(hint.expression)
	}
	return strings.Join(texts, ", ")
}

// textHint makes the parser of a hint about text.
func textHint(attribute func(*Disk) string) func(json.RawMessage) (func(*Disk) bool, error) {
	return func(value json.RawMessage) (func(*Disk) bool, error) {
		var text *string
		if json.Unmarshal(value, &text) != nil || text == nil {
			return nil, errorf("want text, got %s", cut(string(value)))
		}
		e, err := parseExpression(*text)
		if err != nil {
			return nil, err
		}
		fits, err := e.overText()
		if err != nil {
			return nil, err
		}
		return func(disk *Disk) bool {
			have := normalize(attribute(disk))
			if have == "" {
				return e.operator == "s!="
			}
			return fits(have)
		}, nil
	}
}

// bytesPerGiB converts the size of a disk to the unit of its hint.
const bytesPerGiB = 1 << 30

// sizeHint reads a hint about the size in GiB, a number or an expression with
// whole numbers. The size of the disk is compared as it is, fractions included.
func sizeHint(value json.RawMessage) (func(*Disk) bool, error) {
	text := string(value)
	if len(value) > 0 && value[0] == '"' {
		text = ""
		_ = json.Unmarshal(value, &text) // value is a part of valid JSON
	}
	e, err := parseExpression(text)
	if err != nil {
		return nil, err
	}
	for _, operand := range e.operands {
		if gib, err := strconv.ParseInt(operand, 10, 64); err != nil || gib <= 0 {
			return nil, errorf("want a whole number of GiB above 0, got %s", Quote(operand))
		}
	}
	fits, err := e.overNumbers()
	if err != nil {
		return nil, err
	}
	return func(disk *Disk) bool {
		return disk.Size > 0 && fits(float64(disk.Size)/bytesPerGiB)
	}, nil
}

// truths are the words that clients write for true and false.
var truths = map[string]bool{
	"true": true, "t": true, "yes": true, "y": true, "on": true, "1": true,
	"false": false, "f": false, "no": false, "n": false, "off": false, "0": false,
}

// rotationalHint reads a hint that is true for hard disks and false for others.
func rotationalHint(value json.RawMessage) (func(*Disk) bool, error) {
	want, ok := truths[normalize(strings.Trim(string(value), `"`))]
	if !ok {
		return nil, errorf("want true or false, got %s", cut(string(value)))
	}
	return func(disk *Disk) bool { return disk.Rotational == want && disk.knowsRotational() }, nil
}

// knowsRotational tells false from a key that is missing or null: a disk of unknown
// kind must not pass for a solid-state disk.
func (d *Disk) knowsRotational() bool {
	if d.Rotational {
		return true
	}
	known := false
	for key, value := range Members(d.Raw) {
		if key == "rotational" {
			known = string(value) == "false"
		}
	}
	return known
}
