package node

import "encoding/json"

// Steps returns the steps of a deploy template or a runbook.
func (a Array) Steps() []Step {
	var steps []Step
	if len(a) > 0 {
		_ = json.Unmarshal(a, &steps) // checked before it was stored
	}
	return steps
}
