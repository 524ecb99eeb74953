package engine

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestEveryKeyIsDocumentedAndNoOther(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	known := knownKeys(DefaultConfig())
	documented := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for i, key := range strings.Split(cells[1], "`") {
			if i%2 == 1 { // between two backquotes
				documented[key] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		if !documented[key] {
			t.Errorf("docs/configuration.md has no row for %s", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(documented)) {
		if !known[key] {
			t.Errorf("docs/configuration.md has a row for %s, which does not exist", key)
		}
	}
}
