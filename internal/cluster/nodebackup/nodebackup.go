// Package nodebackup has what backups of the labels and annotations of deleted Nodes have in
// common. Where a backup is stored, and what else is in it, is the business of whoever takes it.
package nodebackup

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Drop removes pairs until all maps together are shorter by at least excess bytes as JSON. It takes
// pairs of a map only when those before it are empty, and the pairs with the longest values first.
// It returns how many pairs it removed.
func Drop(excess int, all ...map[string]string) (dropped int) {
	for _, pairs := range all {
		keys := slices.SortedFunc(maps.Keys(pairs), func(x, y string) int {
			return cmp.Or(cmp.Compare(len(pairs[y]), len(pairs[x])), strings.Compare(x, y))
		})
		for _, key := range keys {
			if excess <= 0 {
				return dropped
			}
			excess -= len(Encode(map[string]string{key: pairs[key]})) - len("{}")
			delete(pairs, key)
			dropped++
		}
	}
	return dropped
}

// Merged returns the pairs of both maps. If both have a key, the second map wins.
func Merged(first, second map[string]string) map[string]string {
	both := maps.Clone(first)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, second)
	return both
}

// Encode returns pairs as JSON.
func Encode(pairs map[string]string) string {
	text, err := json.Marshal(pairs)
	if err != nil {
		panic(fmt.Sprintf("encode %v: %v", pairs, err)) // strings can be encoded
	}
	return string(text)
}
