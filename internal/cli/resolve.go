package cli

import (
	"context"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// nodeRef is a node as the user named it: by UUID or by name.
type nodeRef string

// resolve replaces the names of nodes among the values by their UUIDs, because the
// engine accepts only UUIDs there. A UUID needs no request.
func (v *Values) resolve(ctx context.Context, engine *ironic.Client) error {
	for i, c := range v.changes {
		ref, ok := c.value.(nodeRef)
		if !ok {
			continue
		}
		id := string(ref)
		if uuid.Validate(id) != nil {
			n, err := engine.Node(ctx, id, "uuid")
			if err != nil {
				return err
			}
			id = n.UUID
		}
		v.changes[i].value = id
	}
	return nil
}
