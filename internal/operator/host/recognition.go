package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// errWaits means that a BMC is not asked again before the wait after a failure is over.
var errWaits = errors.New("the wait after a failure is not over")

// recognise returns the node of a machine that was discovered before somebody registered its host.
// It finds the node by the address of the BMC. It returns provisioner.ErrNotFound if the node is
// not the host's for certain, and the host then gets a node of its own. The node is not certain if
// several nodes have the address, because one BMC may serve several machines. It is not the host's
// if the BMC tells of another machine than the node's, or if the host shows another machine.
func (p registration) recognise(ctx context.Context, s *scope, wanted provisioner.Registration) (provisioner.Node, error) {
	addr := wanted.Access.Endpoint.Addr()
	if !addr.IsValid() {
		return provisioner.Node{}, provisioner.ErrNotFound
	}
	ids, err := p.nodes.WithBMC(ctx, addr)
	if err != nil {
		return provisioner.Node{}, fmt.Errorf("find node with BMC address %s: %w", addr, err)
	}
	if len(ids) != 1 {
		return provisioner.Node{}, provisioner.ErrNotFound
	}
	others, err := p.owners.hostsOf(ctx, ids[0], s.host)
	if err != nil {
		return provisioner.Node{}, err
	}
	n, err := p.nodes.Reread(ctx, ids[0])
	if err != nil {
		return n, err
	}
	if len(others) > 0 || n.BelongsTo() != "" {
		return provisioner.Node{}, provisioner.ErrNotFound
	}
	inv, err := p.engine.Inventory(ctx, n.ID)
	if err != nil {
		return provisioner.Node{}, fmt.Errorf("read inventory of node %s: %w", n.ID, err)
	}
	if isForeign(s.host, inv) {
		return provisioner.Node{}, provisioner.ErrNotFound
	}
	v, err := p.judge(ctx, s, wanted, discovered(inv))
	if err == nil && v == verdictOther {
		err = provisioner.ErrNotFound
	}
	return n, err
}

// checkOthers returns an error that names another host of the same machine, if that host takes
// precedence.
func (p registration) checkOthers(ctx context.Context, s *scope, wanted provisioner.Registration) error {
	return p.others.checkWith(ctx, s.host, func(other *v1alpha1.BareMetalHost) (bool, error) {
		v, err := p.judge(ctx, s, wanted, shown(other.Status.HardwareDetails))
		return v != verdictOther, err
	})
}

// judge compares the machine behind the BMC with a discovered one. After a failure it asks the BMC
// again only when the wait is over, because some BMCs lock users out.
func (p registration) judge(ctx context.Context, s *scope, wanted provisioner.Registration, expected node.MachineFacts) (verdict, error) {
	if s.wait(v1alpha1.OperationRegister, p.maxBackoff) > 0 {
		return verdictUnknown, errWaits
	}
	v, _, err := p.identity.judge(ctx, s, wanted, []node.MachineFacts{expected})
	return v, refused(v1alpha1.OperationRegister, "find", wanted.Name, err)
}
