package conductor

import (
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// DeployTemplates serves the deploy templates.
func (c *Conductor) DeployTemplates() node.Collection[node.DeployTemplate] {
	return collection[node.DeployTemplate]{c: c, kind: store.DeployTemplates}
}

// Runbooks serves the runbooks. A public one has no owner.
func (c *Conductor) Runbooks() node.Collection[node.Runbook] {
	disown := func(r *node.Runbook) error {
		if r.Public {
			r.Owner = ""
		}
		return nil
	}
	return collection[node.Runbook]{c: c, kind: store.Runbooks, rules: rules[node.Runbook]{
		created: func(_ *store.Tx, r *node.Runbook) error { return disown(r) },
		changed: func(_ *store.Tx, _, after *node.Runbook) error { return disown(after) },
	}}
}
