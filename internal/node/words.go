package node

import (
	"slices"
	"strings"
)

// Words is a set of words without commas, such as traits or UUIDs. It is stored as comma-separated
// text, so that listing a thousand nodes parses none. The zero value is the empty set. WordsOf
// sorts the words, so its results can be compared with ==.
type Words string

// WordsOf returns the set of the given words, without those that are empty or
// given twice.
func WordsOf(words ...string) Words {
	sorted := slices.Clone(words)
	slices.Sort(sorted)
	sorted = slices.DeleteFunc(slices.Compact(sorted), func(word string) bool { return word == "" })
	return Words(strings.Join(sorted, ","))
}

// WordsInOrder is WordsOf, but keeps the words in the given order.
func WordsInOrder(words ...string) Words {
	var kept []string
	for _, word := range words {
		if word != "" && !slices.Contains(kept, word) {
			kept = append(kept, word)
		}
	}
	return Words(strings.Join(kept, ","))
}

// List returns the words in order. The caller may change the slice.
func (w Words) List() []string {
	if w == "" {
		return nil
	}
	return strings.Split(string(w), ",")
}

// Has reports whether word is in the set.
func (w Words) Has(word string) bool {
	for one := range strings.SplitSeq(string(w), ",") {
		if one == word {
			return word != ""
		}
	}
	return false
}

// HasAll reports whether every word of other is in the set.
func (w Words) HasAll(other Words) bool {
	for _, word := range other.List() {
		if !w.Has(word) {
			return false
		}
	}
	return true
}

// With returns the set with word in it.
func (w Words) With(word string) Words { return WordsOf(append(w.List(), word)...) }

// Without returns the set without word.
func (w Words) Without(word string) Words {
	return WordsOf(slices.DeleteFunc(w.List(), func(one string) bool { return one == word })...)
}
