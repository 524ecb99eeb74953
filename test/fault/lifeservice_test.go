//go:build fault

package fault_test

import (
	"slices"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
)

// serve changes a setting and firmware of a machine in use, if its BMC can do so, and tests the
// memory otherwise.
func (l *life) serve() {
	l.t.Helper()
	from := "active"
	for range mostAttempts {
		steps, most := l.serviceSteps()
		verb, more := "service", map[string]any{"service_steps": steps}
		if len(steps) == 0 { // everything that was asked for has happened
			verb, more = "abort", nil
		}
		if from = l.attempt(from, verb, "active", more, most); from != "active" {
			continue
		}
		if left, _ := l.serviceSteps(); len(left) > 0 && l.shape.updates != nil {
			l.t.Errorf("%s is said to have gone well, and the machine does not show %v", verb, left)
		}
		return
	}
	l.t.Fatalf("service: given up after %d requests", mostAttempts)
}

// serviceSteps returns the steps for what the machine does not show yet.
func (l *life) serviceSteps() (steps []map[string]any, most map[string]int) {
	if l.shape.updates == nil {
		return []map[string]any{{"interface": "deploy", "step": "burnin_memory"}}, nil
	}
	now := l.machine.observe()
	if now.BIOS[l.setting.Name] != l.setting.Value {
		steps = append(steps, map[string]any{"interface": "bios", "step": "apply_configuration", "args": map[string]any{"settings": []biosSetting{l.setting}}})
	}
	var files []map[string]string
	for i, component := range l.shape.updates {
		if now.version(component) != wantedVersion(i) {
			files = append(files, map[string]string{"component": component, "url": l.files[component]})
		}
	}
	if len(files) > 0 {
		steps = append(steps, map[string]any{"interface": "firmware", "step": "update", "args": map[string]any{"settings": files}})
	}
	return steps, map[string]int{string(bmc.Flash): len(files)}
}

// biosSetting is a setting of the BIOS.
type biosSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// changeableSettings are settings of a vendor's BIOS, each with a value that it does not have.
func changeableSettings(vendor string) (settings []biosSetting) {
	for _, attribute := range redfish.Profile(vendor).Attributes {
		if attribute.Type != bmc.Enumeration || attribute.ReadOnly {
			continue
		}
		i := slices.IndexFunc(attribute.Values, func(value string) bool { return value != attribute.Default })
		settings = append(settings, biosSetting{attribute.Name, attribute.Values[i]})
	}
	return settings
}
