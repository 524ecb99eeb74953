package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// format writes a value of an inventory for people. A value that it does not
// understand is written unchanged: machines report numbers as text, text as
// numbers, and anything as null.
type format func(value any) any

// number returns the number that the value is or spells.
func number(value any) (float64, bool) {
	var text string
	switch v := value.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	case int:
		return float64(v), true
	default:
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

// sizes are the units of storage, each 1024 times the one before.
var sizes = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// bytesOf returns a format that writes a number of pieces as a size. piece is the size of one
// piece, in bytes.
func bytesOf(piece float64) format {
	return func(value any) any {
		n, ok := number(value)
		if !ok {
			return plain(value)
		}
		n *= piece
		at := 0
		for math.Abs(n) >= 1024 && at < len(sizes)-1 {
			n /= 1024
			at++
		}
		return strconv.FormatFloat(math.Round(n*10)/10, 'f', -1, 64) + " " + sizes[at]
	}
}

// unit writes a number with its unit.
func unit(name string) format {
	return func(value any) any {
		n, ok := number(value)
		if !ok {
			return plain(value)
		}
		return strconv.FormatFloat(math.Round(n*10)/10, 'f', -1, 64) + " " + name
	}
}

// choice writes true and false as one of two words.
func choice(yes, no string) format {
	return func(value any) any {
		truth, ok := value.(bool)
		switch {
		case !ok:
			return plain(value)
		case truth:
			return yes
		default:
			return no
		}
	}
}

// count writes the length of a list that is too long to read, followed by noun.
func count(noun string) format {
	return func(value any) any {
		list, ok := value.([]any)
		if !ok {
			return plain(value)
		}
		return fmt.Sprintf("%d %s", len(list), noun)
	}
}

// unless returns a format that leaves out the value that machines report when they do not know it.
func unless(unknown string) format {
	return func(value any) any {
		if value == unknown {
			return nil
		}
		return plain(value)
	}
}

// without returns a format that removes the given beginning of a text.
func without(beginning string) format {
	return func(value any) any {
		if text, ok := value.(string); ok {
			return strings.TrimPrefix(text, beginning)
		}
		return plain(value)
	}
}

// vlans writes VLANs by number and name.
func vlans(value any) any {
	list, ok := value.([]any)
	if !ok {
		return plain(value)
	}
	words := make([]any, len(list))
	for i, item := range list {
		words[i] = item
		vlan, _ := item.(map[string]any)
		if id := vlan["id"]; id != nil {
			name, _ := vlan["name"].(string)
			words[i] = strings.TrimSpace(fmt.Sprint(id) + " " + name)
		}
	}
	return plain(words)
}

// plain writes a list of simple values with commas, and other values unchanged.
func plain(value any) any {
	list, ok := value.([]any)
	if !ok {
		return value
	}
	words := make([]string, len(list))
	for i, item := range list {
		switch item.(type) {
		case map[string]any, []any:
			words[i] = compact(item)
		default:
			words[i] = fmt.Sprint(item)
		}
	}
	return strings.Join(words, ", ")
}

// leaf is a value that is no object. Its path has the names of the objects around it.
type leaf struct {
	path  string
	value any
}

// leaves returns the values in an object and in the objects in it, by path: "firmware.version".
// Null has no leaves.
func leaves(path string, value any) []leaf {
	object, ok := value.(map[string]any)
	switch {
	case value == nil:
		return nil
	case !ok:
		return []leaf{{path, value}}
	}
	var all []leaf
	for _, key := range slices.Sorted(maps.Keys(object)) {
		below := key
		if path != "" {
			below = path + "." + key
		}
		all = append(all, leaves(below, object[key])...)
	}
	return all
}

// listItems returns the objects of a list. An element that is no object becomes an object with a
// name. Nil means that the value is no list.
func listItems(value any) []map[string]any {
	if value == nil {
		return []map[string]any{}
	}
	list, ok := value.([]any)
	if !ok {
		return nil
	}
	all := make([]map[string]any, len(list))
	for i, item := range list {
		if all[i], ok = item.(map[string]any); !ok {
			all[i] = map[string]any{"name": plain(item)}
		}
	}
	return all
}

// named returns a function that turns the members of an object into items. Each item has its key in
// the given field.
func named(field string) func(any) []map[string]any {
	return func(value any) []map[string]any {
		if value == nil {
			return []map[string]any{}
		}
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		all := make([]map[string]any, 0, len(object))
		for _, key := range slices.Sorted(maps.Keys(object)) {
			item := map[string]any{field: key}
			if members, ok := object[key].(map[string]any); ok {
				maps.Copy(item, members)
			}
			item[field] = key
			all = append(all, item)
		}
		return all
	}
}

// numaNodes gathers the facts about each NUMA node, which a topology has in three lists.
func numaNodes(value any) []map[string]any {
	topology, ok := value.(map[string]any)
	if !ok {
		if value == nil {
			return []map[string]any{}
		}
		return nil
	}
	var order []string
	nodes := map[string]map[string]any{}
	of := func(part map[string]any) map[string]any {
		id := fmt.Sprint(part["numa_node"])
		if nodes[id] == nil {
			nodes[id] = map[string]any{"numa_node": part["numa_node"]}
			order = append(order, id)
		}
		return nodes[id]
	}
	for _, ram := range listItems(topology["ram"]) {
		maps.Copy(of(ram), ram)
	}
	for _, cpu := range listItems(topology["cpus"]) {
		n := of(cpu)
		threads, _ := cpu["thread_siblings"].([]any)
		n["cores"] = tally(n["cores"], 1)
		n["threads"] = tally(n["threads"], len(threads))
	}
	for _, nic := range listItems(topology["nics"]) {
		n := of(nic)
		names, _ := n["nics"].([]any)
		n["nics"] = append(names, nic["name"])
	}
	all := make([]map[string]any, len(order))
	for i, id := range order {
		all[i] = nodes[id]
	}
	return all
}

func tally(before any, more int) int {
	n, _ := before.(int)
	return n + more
}

// memberSummaries says what each member of an object holds.
func memberSummaries(value any) []map[string]any {
	object, _ := value.(map[string]any)
	all := make([]map[string]any, 0, len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		all = append(all, map[string]any{"key": key, "holds": holds(object[key]), "size": len(compact(object[key]))})
	}
	return all
}

// longestText is the longest text that memberSummaries shows in full, in bytes.
const longestText = 60

// holds describes a value by its kind. It shows a simple value itself.
func holds(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case map[string]any:
		return fmt.Sprintf("%d members", len(v))
	case []any:
		return fmt.Sprintf("list of %d", len(v))
	case string:
		if len(v) > longestText {
			return "text"
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}
