package cli

import (
	"context"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// nodeRef is a node as the user named it: a UUID or a name.
type nodeRef string

// resolve replaces node names among the values by UUIDs, because the engine accepts only UUIDs
// there. A UUID needs no request.
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
