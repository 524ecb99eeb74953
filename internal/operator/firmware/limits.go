package firmware

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// What the objects of a host show of its machine, in bytes. A BMC may tell anything, and the API
// server stores objects of up to 1.5 MiB, in which it repeats the names and says who wrote each.
const (
	maxName, maxValue = 256, 4096 // of one setting or component
	maxShown          = 1 << 20   // of all of them as JSON, with what the API server adds
	addedPerEntry     = 256       // by the API server, without the name
)

// cutSettings returns the settings that are shown, in the order of their names, and a note about the
// others; it is empty when all are shown.
func cutSettings(found []provisioner.Setting) ([]provisioner.Setting, string) {
	return cut(found, func(s provisioner.Setting) string { return s.Name }, func(s provisioner.Setting) int {
		return sizeOf(s.Name, s.Schema, s.Value)
	})
}

// cutComponents is cutSettings for components.
func cutComponents(found []provisioner.Component) ([]provisioner.Component, string) {
	return cut(found, func(c provisioner.Component) string { return c.Name }, func(c provisioner.Component) int {
		return sizeOf(c.Name, nil, c.InitialVersion, c.CurrentVersion, c.LastFlashed)
	})
}

// cut keeps what fits. An entry is kept as it is or left out: a part of a name is another name.
func cut[T any](found []T, name func(T) string, size func(T) int) (shown []T, note string) {
	left := maxShown
	for _, entry := range slices.SortedStableFunc(slices.Values(found), func(a, b T) int { return cmp.Compare(name(a), name(b)) }) {
		if needs := size(entry); needs <= left {
			left -= needs
			shown = append(shown, entry)
		}
	}
	if len(shown) < len(found) {
		note = fmt.Sprintf("; %d of the %d that the engine reports are not shown, because a name has more than %d bytes, a value more than %d, or all of them more than %d",
			len(found)-len(shown), len(found), maxName, maxValue, maxShown)
	}
	return shown, note
}

// sizeOf is what an entry takes of maxShown, and more than that for one that is never shown.
func sizeOf(name string, schema any, values ...string) int {
	if len(name) > maxName || slices.ContainsFunc(values, func(v string) bool { return len(v) > maxValue }) {
		return maxShown + 1
	}
	text, err := json.Marshal([]any{name, name, schema, values})
	if err != nil {
		return maxShown + 1
	}
	return len(text) + addedPerEntry
}
