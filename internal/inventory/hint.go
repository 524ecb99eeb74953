package inventory

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Hints describe a disk by its attributes, as in the properties root_device and skip_block_devices
// of a node. A disk matches when every hint fits it. The zero value has no hints and matches every
// disk.
//
// The grammar and its meaning are those of the agent (its module device_hints, with the operators
// of oslo.utils' specs_matcher), because the disk that is found here must be the one that the agent
// writes to. Text is compared without regard to case and to surrounding white space. A missing or
// null attribute fits no hint, with one exception that the agent has too: it differs from every
// text. An empty text fits no hint at all.
//
// Parsing refuses a hint of which the agent reads only a part. The agent can compare some hints
// with some disks and not with others. It fails when it reaches such a disk, and so does matching.
// Therefore hints are compared in the order in which they were written, up to the first that does
// not fit.
type Hints struct{ hints []hint }

// hint is one attribute with the condition for it.
type hint struct {
	attribute  string
	expression string // as written
	fits       fit
}

// fit reports whether a hint fits a disk. The error says why they cannot be compared.
type fit func(*Disk) (bool, error)

// hintParsers has a parser for each attribute that hints may name.
var hintParsers = map[string]func(value json.RawMessage) (fit, error){
	"by_path":              textHint("by_path", func(d *Disk) string { return d.ByPath }),
	"hctl":                 textHint("hctl", func(d *Disk) string { return d.HCTL }),
	"model":                textHint("model", func(d *Disk) string { return d.Model }),
	"name":                 textHint("name", func(d *Disk) string { return d.Name }),
	"rotational":           rotationalHint,
	"serial":               textHint("serial", func(d *Disk) string { return d.Serial }),
	"size":                 sizeHint,
	"tran":                 textHint("tran", func(d *Disk) string { return d.Transport }),
	"vendor":               textHint("vendor", func(d *Disk) string { return d.Vendor }),
	"wwn":                  textHint("wwn", func(d *Disk) string { return d.WWN }),
	"wwn_vendor_extension": textHint("wwn_vendor_extension", func(d *Disk) string { return d.WWNVendorExtension }),
	"wwn_with_extension":   textHint("wwn_with_extension", func(d *Disk) string { return d.WWNWithExtension }),
}

// ParseHints reads a JSON object of hints, such as
//
//	{"size": ">= 200", "rotational": false, "vendor": "<or> Intel <or> Micron"}
//
// Null and the empty object mean no hints. The error is an *Error with the attribute as its path.
func ParseHints(raw json.RawMessage) (Hints, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return Hints{}, errorf("want an object of hints such as {%q: %q}, got %s", "size", ">= 200", Quote(string(raw)))
	}
	for _, attribute := range slices.Sorted(maps.Keys(fields)) {
		if hintParsers[attribute] == nil {
			names := slices.Sorted(maps.Keys(hintParsers))
			return Hints{}, errorf("unknown hint %s, want one of %s", Quote(attribute), strings.Join(names, ", "))
		}
	}
	var h Hints
	for _, attribute := range inOrder(raw, fields) {
		fits, err := hintParsers[attribute](fields[attribute])
		if err != nil {
			return Hints{}, inKey(attribute, err)
		}
		h.hints = append(h.hints, hint{attribute: attribute, expression: written(fields[attribute]), fits: fits})
	}
	return h, nil
}

// inOrder returns the keys of an object in the order in which they were written. Keys that Members
// does not reach come last, sorted.
func inOrder(object json.RawMessage, fields map[string]json.RawMessage) []string {
	left := maps.Clone(fields)
	keys := make([]string, 0, len(fields))
	for key := range Members(object) {
		if _, found := left[key]; found {
			keys = append(keys, key)
			delete(left, key)
		}
	}
	return append(keys, slices.Sorted(maps.Keys(left))...)
}

// IsEmpty reports whether there are no hints.
func (h Hints) IsEmpty() bool { return len(h.hints) == 0 }

// Match reports whether every hint fits the disk. If a hint cannot be compared with the disk, it
// returns an *Error with the attribute as its path.
func (h Hints) Match(disk *Disk) (bool, error) {
	for _, hint := range h.hints {
		fits, err := hint.fits(disk)
		if err != nil {
			return false, inKey(hint.attribute, err)
		}
		if !fits {
			return false, nil
		}
	}
	return true, nil
}

// Find returns the first disk that matches and that skip, if not nil, does not exclude; nil if
// there is none. The errors are those of Match. Find does not compare excluded disks and the disks
// after the match.
func (h Hints) Find(disks []Disk, skip func(*Disk) bool) (*Disk, error) {
	for i := range disks {
		disk := &disks[i]
		if skip != nil && skip(disk) {
			continue
		}
		match, err := h.Match(disk)
		if err != nil {
			return nil, err
		}
		if match {
			return disk, nil
		}
	}
	return nil, nil
}

// written returns the value of a hint as people write it. Encoders may escape any character (RFC
// 8259, section 7), and Go's encoder escapes the operators.
func written(value json.RawMessage) string {
	var text *string
	if json.Unmarshal(value, &text) != nil || text == nil {
		return string(value)
	}
	return strconv.Quote(*text)
}

// String returns the hints for a message, as written: size ">= 200", serial "ABC".
func (h Hints) String() string {
	texts := make([]string, len(h.hints))
	for i, hint := range h.hints {
		texts[i] = hint.attribute + " " + cut(hint.expression)
	}
	return strings.Join(texts, ", ")
}

// textHint returns the parser for hints about a text attribute.
func textHint(name string, attribute func(*Disk) string) func(json.RawMessage) (fit, error) {
	return func(value json.RawMessage) (fit, error) {
		var text *string
		if json.Unmarshal(value, &text) != nil || text == nil {
			return nil, errorf("want text, got %s", cut(string(value)))
		}
		e, err := parseExpression(*text)
		if err != nil {
			return nil, err
		}
		compare, err := e.overText()
		if err != nil {
			return nil, err
		}
		return func(disk *Disk) (bool, error) {
			sent := attribute(disk)
			have := normalize(sent)
			if have == "" && (sent != "" || disk.reportsText(name)) {
				return false, nil
			}
			fits, ok := compare(have)
			if !ok {
				return false, errorf("the operator %s cannot compare what disk %s has: %s is no %s", e.operator, Quote(disk.Name), Quote(sent), e.wants())
			}
			return fits, nil
		}, nil
	}
}

// bytesPerGiB converts the size of a disk to the unit of its hint.
const bytesPerGiB = 1 << 30

// sizeHint parses a hint about the size in GiB, a number or an expression with whole numbers. The
// size of the disk is compared as it is, including fractions.
func sizeHint(value json.RawMessage) (fit, error) {
	text := string(value)
	if len(value) > 0 && value[0] == '"' {
		text = ""
		_ = json.Unmarshal(value, &text) // value is a part of valid JSON
	}
	e, err := parseExpression(text)
	if err != nil {
		return nil, err
	}
	for i, operand := range e.operands {
		gib, err := strconv.ParseInt(operand, 10, 64)
		if err != nil || gib <= 0 {
			return nil, errorf("want a whole number of GiB above 0, got %s", Quote(operand))
		}
		e.operands[i] = strconv.FormatInt(gib, 10)
	}
	fits, err := e.overNumbers()
	if err != nil {
		return nil, err
	}
	return func(disk *Disk) (bool, error) {
		return disk.Size > 0 && fits(float64(disk.Size)/bytesPerGiB), nil
	}, nil
}

// truths are the words that clients write for true and false.
var truths = map[string]bool{
	"true": true, "t": true, "yes": true, "y": true, "on": true, "1": true,
	"false": false, "f": false, "no": false, "n": false, "off": false, "0": false,
}

// rotationalHint parses a hint that is true for hard disks and false for other disks.
func rotationalHint(value json.RawMessage) (fit, error) {
	want, ok := truths[normalize(strings.Trim(string(value), `"`))]
	if !ok {
		return nil, errorf("want true or false, got %s", cut(string(value)))
	}
	return func(disk *Disk) (bool, error) { return disk.Rotational == want && disk.knowsRotational(), nil }, nil
}

// reportsText reports whether an attribute is a text, even an empty one, rather than missing or
// null.
func (d *Disk) reportsText(attribute string) bool {
	reported := false
	for key, value := range Members(d.Raw) {
		if key == attribute {
			_, reported = Text(value)
		}
	}
	return reported
}

// knowsRotational reports whether the key is present and not null, because a disk of unknown kind
// must not count as a solid-state disk.
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
