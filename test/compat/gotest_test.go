//go:build compat

package compat_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// testResult is what a test of another module did.
type testResult struct {
	action string // pass, fail or skip
	output string // everything it printed
}

// runPublishedTests runs the tests of a package of a module that go.mod names, from the module
// cache. It returns the results by name. Variables of env replace those of this process; its
// OpenStack settings are removed.
func runPublishedTests(t *testing.T, pkg, tag string, env ...string) map[string]testResult {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "-count=1", "-vet=off", "-timeout=4m", "-tags="+tag, pkg)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "OS_") && !strings.HasPrefix(variable, "IRONIC_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	results, other := readTestEvents(t, stdout)
	if len(results) == 0 {
		t.Fatalf("run the tests of %s: %v\n%s%s", pkg, err, other, stderr.String())
	}
	return results
}

// readTestEvents sums up the output of go test -json: the results of tests, and output that belongs
// to no test, such as errors of the compiler.
func readTestEvents(t *testing.T, stream []byte) (results map[string]testResult, other string) {
	t.Helper()
	results = make(map[string]testResult)
	lines := bufio.NewScanner(bytes.NewReader(stream))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// The events are those of "go doc test2json".
		var event struct{ Action, Test, Output string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("read event %q of go test: %v", lines.Text(), err)
		}
		if event.Test == "" {
			other += event.Output
			continue
		}
		result := results[event.Test]
		result.output += event.Output
		switch event.Action {
		case "pass", "fail", "skip":
			result.action = event.Action
		}
		results[event.Test] = result
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("read events of go test: %v", err)
	}
	return results, other
}
