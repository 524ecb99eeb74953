package driver

import (
	"context"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Implementation implements an interface of a node: a value with one or more of the
// abilities of this package.
type Implementation any

// Implementations are all implementations in this engine, by interface and name. A
// name in the table of hardware types that has none can be chosen, but its use is an
// error; names that begin with "no-" need none.
type Implementations [node.InterfaceCount]map[string]Implementation

// absent implements the interfaces that stand for having none, such as no-bios.
type absent struct{}

// Validate accepts every node.
func (absent) Validate(*node.Node) error { return nil }

// isAbsent reports whether a name stands for not having the interface.
func isAbsent(name string) bool { return strings.HasPrefix(name, "no-") }

// Has reports whether a node has an interface, even one that this engine does not
// implement.
func Has(n *node.Node, kind node.InterfaceKind) bool { return !isAbsent(n.Interfaces[kind]) }

// Implementation returns the implementation that the node has chosen for an
// interface. One that this engine does not implement is a *node.ValidationError.
func (r *Registry) Implementation(n *node.Node, kind node.InterfaceKind) (Implementation, error) {
	name := n.Interfaces[kind]
	if isAbsent(name) {
		return absent{}, nil
	}
	implementation, ok := r.built[kind][name]
	if !ok {
		return nil, node.Invalid("This engine does not have the %s interface %q of driver %s; choose another one for node %s.",
			kind, name, n.Driver, n.UUID)
	}
	return implementation, nil
}

// Ability returns an ability of the node's interface. A node that does not have the
// interface, or whose implementation lacks the ability, is a *node.NotSupportedError,
// in which what names the ability.
func Ability[A any](r *Registry, n *node.Node, kind node.InterfaceKind, what string) (A, error) {
	var none A
	implementation, err := r.Implementation(n, kind)
	if err != nil {
		return none, err
	}
	ability, ok := implementation.(A)
	if !ok {
		return none, &node.NotSupportedError{Node: n.UUID, Interface: kind.Field(), Name: n.Interfaces[kind], What: what}
	}
	return ability, nil
}

// Power returns the power implementation that the node has chosen.
func (r *Registry) Power(n *node.Node) (Power, error) {
	return Ability[Power](r, n, node.PowerInterface, "power control")
}

// Verify makes a turn of the check whether the node's machine can be managed. Most
// drivers have none, because reading the power state is the check.
func (r *Registry) Verify(ctx context.Context, n *node.Node, turn Turn) (Outcome, error) {
	implementation, err := r.Implementation(n, node.PowerInterface)
	if err != nil {
		return Outcome{}, err
	}
	if verifier, ok := implementation.(Verifier); ok {
		return verifier.Verify(ctx, n, turn)
	}
	return Outcome{}, nil
}

// steppers are the interfaces whose implementations may offer steps.
var steppers = []node.InterfaceKind{
	node.VendorInterface, node.PowerInterface, node.ManagementInterface, node.FirmwareInterface,
	node.DeployInterface, node.BIOSInterface, node.RAIDInterface,
}

// Steps lists the steps of a kind that the node's implementations offer. An interface
// without an implementation offers none.
func (r *Registry) Steps(n *node.Node, kind StepKind) []node.Step {
	var steps []node.Step
	for _, k := range steppers {
		implementation, err := r.Implementation(n, k)
		if err != nil {
			continue
		}
		if stepper, ok := implementation.(Stepper); ok {
			for _, step := range stepper.Steps(n, kind) {
				step.Interface = k.String()
				steps = append(steps, step)
			}
		}
	}
	return steps
}

// Stepper returns the implementation that runs a step of the node.
func (r *Registry) Stepper(n *node.Node, step node.Step) (Stepper, error) {
	kind, ok := node.InterfaceKindOf(step.Interface + "_interface")
	if !ok {
		return nil, node.Invalid("There is no interface %q, which the step %s of node %s names.", step.Interface, step.Step, n.UUID)
	}
	return Ability[Stepper](r, n, kind, "the step "+step.Step)
}

// Validate checks one interface of the node. A nil result means that the node does not
// have it.
func (r *Registry) Validate(n *node.Node, kind node.InterfaceKind) node.Validation {
	yes, no := true, false
	implementation, err := r.Implementation(n, kind)
	if _, none := implementation.(absent); none {
		return node.Validation{Reason: "The node has no " + kind.String() + " interface: it uses " + n.Interfaces[kind] + "."}
	}
	if validator, ok := implementation.(Validator); err == nil && ok {
		err = validator.Validate(n)
	}
	if err != nil {
		return node.Validation{Result: &no, Reason: err.Error()}
	}
	return node.Validation{Result: &yes}
}

// UnsupportedPower is the *node.ValidationError of a power interface for a target that
// it does not support.
func UnsupportedPower(name string, target node.PowerState, supported []node.PowerState) error {
	if len(supported) == 0 {
		return node.Invalid("The power interface %s cannot change the power of a machine, so %q is not supported.", name, target)
	}
	return node.Invalid("The power interface %s does not support %q; it supports %s.", name, target, node.Choices(supported))
}
