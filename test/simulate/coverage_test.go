package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// numbers are the numbers of requests, machines and keys.
var numbers = regexp.MustCompile(`[ -]?[0-9]+`)

// coverageRow returns the row of the point in the table of what was met.
func (p *point) coverageRow() string {
	call := p.call
	if call != "" {
		call = ": " + call
	}
	if strings.Contains(p.info.Operation.Item, " on ") {
		call = " on a child node" + call
	}
	operation := numbers.ReplaceAllString(p.info.Task, "")
	switch {
	case p.info.Work != "":
		operation = string(p.info.Work) + "/" + p.info.Operation.Name
	case p.kind == atPost:
		operation = "agent"
	}
	return operation + call + " | " + p.kind
}

// coverage counts how often each operation met each fault at each point.
type coverage map[string]int

func (c coverage) add(other coverage) {
	for key, count := range other {
		c[key] += count
	}
}

// print prints the table, and the kinds of work without a row in it.
func (c coverage) print() {
	if !testing.Verbose() {
		return
	}
	verdicts := []verdict{proceed, crashBefore, crashAfter, databaseUnavailable, rolledBack, answerLost, requestLost, refused, hangs, lies}
	rows := map[string]map[verdict]int{}
	for key, count := range c {
		at := strings.LastIndex(key, " | ")
		row, v := key[:at], verdict(key[at+3:])
		if rows[row] == nil {
			rows[row] = map[verdict]int{}
		}
		rows[row][v] += count
	}
	names := slices.SortedFunc(maps.Keys(rows), cmp.Compare)
	fmt.Printf("%-72s", "operation | point")
	for _, v := range verdicts {
		fmt.Printf("%14s", v)
	}
	fmt.Println()
	for _, row := range names {
		fmt.Printf("%-72s", row)
		for _, v := range verdicts {
			fmt.Printf("%14d", rows[row][v])
		}
		fmt.Println()
	}
	met := func(kind string) bool {
		return slices.ContainsFunc(names, func(row string) bool { return strings.HasPrefix(row, kind+"/") })
	}
	fmt.Printf("kinds of work that were not met: %s\n", strings.Join(slices.DeleteFunc(workKinds(), met), ", "))
}

// workKinds returns the kinds of work that the engine knows, of the list that its own tests keep.
func workKinds() []string {
	text, err := os.ReadFile("../../internal/conductor/testdata/operations.json")
	var operations map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &operations)
	}
	if err != nil {
		panic(err)
	}
	return slices.Sorted(maps.Keys(operations))
}
