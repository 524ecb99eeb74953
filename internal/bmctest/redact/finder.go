package redact

import (
	"slices"
	"strings"
)

// finder finds many texts in other texts, ignoring case. It looks up candidates by their first
// bytes, so a search takes no longer for a thousand texts than for one.
type finder struct {
	byPrefix map[[shortest]byte][]entry
	known    map[entry]bool
}

// entry is one text with its replacement.
type entry struct {
	text, instead string // in lower case
	bounded       bool   // whether it is only found as a word
	digit         bool   // whether text has a digit
}

func newFinder() *finder {
	return &finder{byPrefix: map[[shortest]byte][]entry{}, known: map[entry]bool{}}
}

// add adds a text. It ignores texts of fewer than [shortest] bytes.
func (f *finder) add(text, instead string, bounded bool) {
	text = lower(text)
	e := entry{text, lower(instead), bounded, strings.ContainsAny(text, "0123456789")}
	if len(text) < shortest || f.known[e] {
		return
	}
	f.known[e] = true
	prefix := [shortest]byte([]byte(text[:shortest]))
	f.byPrefix[prefix] = append(f.byPrefix[prefix], e)
}

// sort makes the finder find longer texts before shorter ones that are their beginnings.
func (f *finder) sort() {
	for _, entries := range f.byPrefix {
		slices.SortFunc(entries, func(a, b entry) int { return len(b.text) - len(a.text) })
	}
}

// replace replaces all added texts in a text.
func (f *finder) replace(text string) string {
	return f.replaceIf(text, func(entry) bool { return true })
}

// replaceNamed replaces only the added texts with a digit, because others may be words of the
// schemas.
func (f *finder) replaceNamed(text string) string {
	return f.replaceIf(text, func(e entry) bool { return e.digit })
}

func (f *finder) replaceIf(text string, such func(entry) bool) string {
	low := lower(text)
	var b strings.Builder
	kept := 0
	for i := 0; i+shortest <= len(low); {
		found, ok := f.at(low, i, such)
		if !ok {
			i++
			continue
		}
		end := i + len(found.text)
		b.WriteString(text[kept:i])
		b.WriteString(cased(found.instead, text[i:end]))
		i, kept = end, end
	}
	if kept == 0 {
		return text
	}
	return b.String() + text[kept:]
}

// at finds the longest added text at a position.
func (f *finder) at(low string, i int, such func(entry) bool) (entry, bool) {
	for _, e := range f.byPrefix[[shortest]byte([]byte(low[i:i+shortest]))] {
		if such(e) && strings.HasPrefix(low[i:], e.text) && (!e.bounded || isWord(low, i, i+len(e.text))) {
			return e, true
		}
	}
	return entry{}, false
}

// isWord reports whether a part of a text stands alone: it is not next to a letter or digit at
// either end.
func isWord(text string, begin, end int) bool {
	return (begin == 0 || !isAlnum(text[begin-1])) && (end == len(text) || !isAlnum(text[end]))
}
