package inspect

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/ingot-metal/ingot/internal/inventory"
)

// extraHardwareHook converts the facts of the ramdisk's collector extra-hardware. They come as
// plugin data "data", as rows of group, device, property and value. The hook writes them to plugin
// data "extra" as {group: {device: {property: value}}}, and removes the rows. A text that is a
// whole number becomes a number.
var extraHardwareHook = Hook{Name: "extra-hardware", Process: nestExtraHardware}

const (
	extraRowsKey = "data"
	extraKey     = "extra"
	// extraColumns is the number of columns of a row: group, device, property, value.
	extraColumns = 4
	// maxExtraRows limits the facts of a machine. A server with hundreds of logical processors and
	// benchmarks has about ten thousand.
	maxExtraRows = 65536
)

// extraFact is one row.
type extraFact struct {
	group, device, property string
	value                   json.RawMessage
}

func (f extraFact) compare(other extraFact) int {
	return cmp.Or(cmp.Compare(f.group, other.group), cmp.Compare(f.device, other.device), cmp.Compare(f.property, other.property))
}

func nestExtraHardware(ctx *Context) error {
	raw := ctx.PluginData[extraRowsKey]
	if empty(raw) {
		ctx.Skip("The ramdisk sent no extra hardware facts; it does when its kernel parameter ipa-inspection-collectors includes extra-hardware")
		return nil
	}
	facts, err := readExtraFacts(ctx, raw)
	if err != nil {
		ctx.Skip("The extra hardware facts are left out: %v", err)
		if ctx.Config.ExtraHardwareStrict {
			delete(ctx.PluginData, extraRowsKey)
		}
		return nil
	}
	// The last value of a repeated fact counts.
	slices.SortStableFunc(facts, extraFact.compare)
	ctx.PluginData[extraKey] = appendExtra(make([]byte, 0, len(raw)), facts)
	delete(ctx.PluginData, extraRowsKey)
	return nil
}

// readExtraFacts returns the rows that are facts. It skips other rows; in strict mode it fails at
// the first of them.
func readExtraFacts(ctx *Context, raw json.RawMessage) ([]extraFact, error) {
	if raw[0] != '[' {
		return nil, errors.New("the plugin data is no list of rows")
	}
	var facts []extraFact
	for i, row := range inventory.Elements(raw) {
		if i == maxExtraRows {
			ctx.Skip("Extra hardware facts are read up to row %d only", maxExtraRows)
			break
		}
		fact, reason := readExtraFact(row, ctx.Config.ExtraHardwareStrict)
		switch {
		case reason == "":
			facts = append(facts, fact)
		case ctx.Config.ExtraHardwareStrict:
			return nil, errors.New("row " + strconv.Itoa(i) + " " + reason)
		default:
			ctx.Skip("Row %d of the extra hardware facts %s", i, reason)
		}
	}
	if len(facts) == 0 {
		return nil, errors.New("no row is a list of group, device, property and value")
	}
	return facts, nil
}

// readExtraFact reads a row, or returns what is wrong with it. More than four columns are wrong
// only in strict mode.
func readExtraFact(row json.RawMessage, strict bool) (fact extraFact, reason string) {
	if row[0] != '[' {
		return fact, "is no list"
	}
	columns := 0
	for i, column := range inventory.Elements(row) {
		if columns++; i >= extraColumns-1 {
			if i == extraColumns-1 {
				fact.value = extraValue(column)
			}
			continue
		}
		name, ok := inventory.Text(column)
		if !ok {
			return fact, "has a group, device or property that is no text"
		}
		*[...]*string{&fact.group, &fact.device, &fact.property}[i] = name
	}
	switch {
	case columns < extraColumns, strict && columns > extraColumns:
		return fact, "has " + strconv.Itoa(columns) + " columns, want 4"
	case fact.value[0] == '[', fact.value[0] == '{':
		// A deep value would be nested deeper in the result and could no longer be read back.
		return fact, "has a list or an object for its value"
	}
	return fact, ""
}

// extraValue turns a text such as "-42" into a number. The text stays if the number would read
// differently, as with the leading zeros of a serial number, or does not fit 64 bits.
func extraValue(value json.RawMessage) json.RawMessage {
	text, ok := inventory.Text(value)
	if !ok {
		return value
	}
	if number, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(number, 10) == text {
		return json.RawMessage(text)
	}
	return value
}

// appendExtra appends sorted facts to dst as nested objects. It writes the last of equal facts.
func appendExtra(dst []byte, facts []extraFact) []byte {
	dst = append(dst, '{')
	var last *extraFact
	for i := range facts {
		fact := &facts[i]
		if i+1 < len(facts) && fact.compare(facts[i+1]) == 0 {
			continue
		}
		sameGroup := last != nil && last.group == fact.group
		sameDevice := sameGroup && last.device == fact.device
		switch {
		case sameDevice:
			dst = append(dst, ',')
		case sameGroup:
			dst = append(dst, "},"...)
		case last != nil:
			dst = append(dst, "}},"...)
		}
		if !sameGroup {
			dst = append(inventory.AppendString(dst, fact.group), ":{"...)
		}
		if !sameDevice {
			dst = append(inventory.AppendString(dst, fact.device), ":{"...)
		}
		dst = append(inventory.AppendString(dst, fact.property), ':')
		dst = append(dst, fact.value...)
		last = fact
	}
	if last != nil {
		dst = append(dst, "}}"...)
	}
	return append(dst, '}')
}
