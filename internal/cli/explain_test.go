package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/cli/explain"
)

func TestExplainAdvisesAboutAnEngineThatRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		answer answer
		want   string // the last line
		code   int
	}{
		"no credentials": {answer{401, fault("Who are you?")}, "Put the name and the password of a user of the engine into OS_USERNAME and OS_PASSWORD.", ExitError},
		"no permission":  {answer{403, fault("Not yours.")}, "Kubernetes cannot be reached: no kubeconfig.", ExitError},
		"overloaded":     {answer{503, fault("Too much.")}, "Try again in a moment.", ExitBusy},
		"broken":         {answer{500, fault("Oops.")}, "The engine's log has more.", ExitError},
	} {
		t.Run(name, func(t *testing.T) {
			_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes/n1": {test.answer}})
			var out strings.Builder
			sources := explain.Sources{KubeProblem: "no kubeconfig", Engine: engine, Now: time.Now()}
			err := Explain(t.Context(), sources, "n1", &out)
			if code := ExitCode(err); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if !strings.HasPrefix(lines[0], "The engine does not show the node: ") || lines[len(lines)-1] != test.want {
				t.Errorf("printed %q, want the last line %q", lines, test.want)
			}
		})
	}
}
