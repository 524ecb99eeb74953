package conductor

import (
	"context"

	"github.com/ingot-metal/ingot/internal/node"
)

// SetTraits replaces the traits of a node.
func (c *Conductor) SetTraits(ctx context.Context, ident string, traits node.Words) error {
	return c.changeTraits(ctx, ident, func(node.Words) (node.Words, error) { return traits, nil })
}

// AddTrait gives a node a trait, unless the node already has it.
func (c *Conductor) AddTrait(ctx context.Context, ident, trait string) error {
	return c.changeTraits(ctx, ident, func(traits node.Words) (node.Words, error) { return traits.With(trait), nil })
}

// RemoveTrait takes a trait from a node. It returns a *node.NotFoundError if the node does not have
// the trait.
func (c *Conductor) RemoveTrait(ctx context.Context, ident, trait string) error {
	return c.changeTraits(ctx, ident, func(traits node.Words) (node.Words, error) {
		if !traits.Has(trait) {
			return "", &node.NotFoundError{Kind: "Trait", Ident: trait + " of node " + ident}
		}
		return traits.Without(trait), nil
	})
}

func (c *Conductor) changeTraits(ctx context.Context, ident string, change func(node.Words) (node.Words, error)) error {
	_, err := c.UpdateNode(ctx, ident, func(n *node.Node) error {
		traits, err := change(n.Traits)
		if err != nil {
			return err
		}
		n.Traits = traits
		return node.CheckTraits(traits)
	})
	return err
}
