package conductor

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

// runbook stores a runbook that resets the BIOS and then changes it, with the steps
// listed the other way round.
func (w *world) runbook(name string) {
	w.t.Helper()
	set := func(order int, value string) map[string]any {
		return map[string]any{"interface": "bios", "step": "apply_configuration", "order": order, "args": map[string]any{
			"settings": []any{map[string]any{"name": "BootMode", "value": value}},
		}}
	}
	steps, err := json.Marshal([]any{set(2, "Bios"), map[string]any{"interface": "bios", "step": "factory_reset", "order": 1, "args": map[string]any{}}})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.Runbooks().Create(w.t.Context(), &node.Runbook{Name: name, Steps: steps}); err != nil {
		w.t.Fatal(err)
	}
}

func TestRunbookRunsInItsOrderWhateverTheVerb(t *testing.T) {
	for verb, states := range map[string][2]node.State{
		"clean": {node.Manageable, node.Manageable}, "service": {node.Active, node.Active},
		"active": {node.Available, node.Active}, "rebuild": {node.Active, node.Active},
	} {
		t.Run(verb, func(t *testing.T) {
			w := newWorld(t)
			w.runbook("CUSTOM_BOOK")
			book := func(r *node.VerbRequest) { r.Runbook = "CUSTOM_BOOK" }
			n := w.fake(states[0], nil)
			if got := errorAs[*node.ValidationError](t, w.try(n, verb, book)); !strings.Contains(got.Reason, "trait") {
				t.Errorf("without the trait: %q", got.Reason)
			}
			if err := w.AddTrait(t.Context(), n.UUID, "CUSTOM_BOOK"); err != nil {
				t.Fatal(err)
			}
			w.send(n, verb, book)
			w.awaitWorkDone()
			if got := w.arrive(n, states[1]); got.LastError != "" {
				t.Fatalf("last_error = %q", got.LastError)
			}
			hardware, err := w.Hardware(t.Context(), n.UUID)
			if err != nil || len(hardware.BIOS) == 0 || hardware.BIOS[0].Name != "BootMode" || hardware.BIOS[0].Value != "Bios" {
				t.Errorf("settings %+v, %v; want those of the runbook's last step", hardware.BIOS, err)
			}
		})
	}
}

func TestRunbookThatDoesNotExistIsRefused(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil)
	err := w.try(n, "clean", func(r *node.VerbRequest) { r.Runbook = "CUSTOM_NONE" })
	if got := errorAs[*node.ValidationError](t, err); !strings.Contains(got.Reason, "CUSTOM_NONE") {
		t.Errorf("reason %q", got.Reason)
	}
}
