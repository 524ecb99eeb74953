package firmware

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// Limits, in bytes, of what the objects of a host show. A BMC may report anything, and the API
// server stores objects of up to 1.5 MiB. In each object it repeats the names and says who wrote
// each field.
const (
	maxName, maxValue = 256, 4096 // of one setting or component
	maxShown          = 1 << 20   // of all of them as JSON, with what the API server adds
	addedPerEntry     = 256       // by the API server, without the name
)

// cutSettings returns the settings that are shown, sorted by name, and a note about the others. The
// note is empty if all settings are shown.
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

// cut keeps the entries that fit. It keeps an entry whole or leaves it out, because a shortened
// name would be another name.
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

// sizeOf returns how many bytes of maxShown an entry takes. An entry that must not be shown takes
// more than maxShown.
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
