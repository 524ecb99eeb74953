package ironic

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
)

// Node is a node as the engine describes it. Fields that were not requested, and fields that are
// null, have their zero value.
type Node struct {
	nodes.Node
	// AutoDiscovered reports whether auto-discovery enrolled the node. It is nil if the field was
	// not requested, and with upstream Ironic, which has it only in the inventory's plugin data.
	AutoDiscovered *bool `json:"auto_discovered"`
	// Health is the health of the hardware: OK, Warning or Critical. Engines send it since version
	// 1.109.
	Health string `json:"health"`
}

// AgentLastHeartbeat returns the time of the last heartbeat of the node's ramdisk, zero if there
// was none. It needs the field driver_internal_info.
func (n Node) AgentLastHeartbeat() time.Time {
	text, _ := n.DriverInternalInfo["agent_last_heartbeat"].(string)
	// Ironic writes the time in UTC without a time zone.
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// Label returns the name of the node, or its UUID if it has no name.
func (n Node) Label() string {
	if n.Name != "" {
		return n.Name
	}
	return n.UUID
}

// DeleteNode removes the node with its ports and inventory. The engine refuses that while the node
// is locked ([ErrConflict]). In most states it also refuses unless the node is in maintenance.
func (c *Client) DeleteNode(ctx context.Context, ident string) error {
	op := "delete node " + ident
	segment, err := pathSegment(op, ident)
	if err != nil {
		return err
	}
	return c.call(ctx, op, func(ctx context.Context, service *gophercloud.ServiceClient) error {
		return nodes.Delete(ctx, service, segment).ExtractErr()
	})
}

// Verb requests a transition of the provision state.
type Verb = nodes.TargetProvisionState

// The verbs that the operator uses.
const (
	Manage   = nodes.TargetManage
	Provide  = nodes.TargetProvide
	Inspect  = nodes.TargetInspect
	Clean    = nodes.TargetClean
	Deploy   = nodes.TargetActive
	Undeploy = nodes.TargetDeleted
	Adopt    = nodes.TargetAdopt
	Abort    = nodes.TargetAbort
	Service  = nodes.TargetService
)

// Provision requests a verb for the node. The engine answers when it has accepted the verb, not
// when the work is done. If the node's state does not allow the verb, the error is [ErrRejected];
// while the node is locked it is [ErrConflict].
func (c *Client) Provision(ctx context.Context, ident string, verb Verb) error {
	op := fmt.Sprintf("%s node %s", verb, ident)
	segment, err := pathSegment(op, ident)
	if err != nil {
		return err
	}
	return c.call(ctx, op, func(ctx context.Context, service *gophercloud.ServiceClient) error {
		return nodes.ChangeProvisionState(ctx, service, segment, nodes.ProvisionStateOpts{Target: verb}).ExtractErr()
	})
}

// UpdateNode applies JSON patch operations to the node and returns the changed node. The engine
// allows add, replace and remove.
func (c *Client) UpdateNode(ctx context.Context, ident string, operations ...nodes.UpdateOperation) (Node, error) {
	op := "update node " + ident
	segment, err := pathSegment(op, ident)
	if err != nil {
		return Node{}, err
	}
	patch := make(nodes.UpdateOpts, len(operations))
	for i, operation := range operations {
		patch[i] = operation
	}
	var n Node
	err = c.call(ctx, op, func(ctx context.Context, service *gophercloud.ServiceClient) error {
		return nodes.Update(ctx, service, segment, patch).ExtractInto(&n)
	})
	return n, err
}

// pathSegment escapes an identifier for a URL. It refuses identifiers that would lead to another
// URL than the node's.
func pathSegment(op, ident string) (string, error) {
	if ident == "" || ident == "." || ident == ".." {
		return "", &Error{Op: op, Kind: ErrRejected, Message: fmt.Sprintf("%q is not a name or UUID", ident)}
	}
	return url.PathEscape(ident), nil
}
