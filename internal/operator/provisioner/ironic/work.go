package ironic

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// Microversions 1.N that introduced abilities which not every engine has.
const (
	serviceSince   = 87
	mediaSince     = 89
	mediaListSince = 93
	healthSince    = 109
)

// request is a verb to send for a node.
type request struct {
	verb    ironic.Verb
	trigger node.Trigger
	options ironic.ProvisionOptions
	// shown reports whether a node, in a state that the verb leads to, shows that it was this very
	// request. nil means that the state is enough.
	shown func(provisioner.Node) bool
}

// ask sends a verb. If the engine refuses it, ask checks whether an earlier request, whose answer
// was lost, has already had the wanted effect.
func (e *Engine) ask(ctx context.Context, id string, r request) error {
	err := e.client.ProvisionWith(ctx, id, r.verb, r.options)
	if !errors.Is(err, ironic.ErrRejected) && !errors.Is(err, ironic.ErrConflict) {
		return translate(err)
	}
	n, readErr := e.Node(ctx, id)
	if readErr == nil && n.Accepted(r.trigger) && (r.shown == nil || r.shown(n)) {
		return nil
	}
	return translate(err)
}

// Manage makes the node manageable; see [provisioner.Lifecycle].
func (e *Engine) Manage(ctx context.Context, id string) error {
	return e.ask(ctx, id, request{verb: ironic.Manage, trigger: node.OnManage})
}

// Provide makes the node available; see [provisioner.Lifecycle].
func (e *Engine) Provide(ctx context.Context, id string, opts provisioner.ProvideOptions) error {
	if opts.SkipCleaning {
		if err := e.SetAutomatedCleaning(ctx, id, false); err != nil {
			return err
		}
	}
	return e.ask(ctx, id, request{verb: ironic.Provide, trigger: node.OnProvide})
}

// Inspect inspects the machine; see [provisioner.Worker].
func (e *Engine) Inspect(ctx context.Context, id string) error {
	return e.ask(ctx, id, request{verb: ironic.Inspect, trigger: node.OnInspect})
}

// Clean runs steps on a manageable node; see [provisioner.Worker].
func (e *Engine) Clean(ctx context.Context, id string, steps []node.Step) error {
	return e.ask(ctx, id, request{verb: ironic.Clean, trigger: node.OnClean, options: ironic.ProvisionOptions{Steps: documents(steps)}})
}

// Undeploy removes the deployment; see [provisioner.Worker].
func (e *Engine) Undeploy(ctx context.Context, id string) error {
	return e.ask(ctx, id, request{verb: ironic.Undeploy, trigger: node.OnDelete})
}

// Adopt takes a deployment over; see [provisioner.Worker].
func (e *Engine) Adopt(ctx context.Context, id string) error {
	return e.ask(ctx, id, request{verb: ironic.Adopt, trigger: node.OnAdopt})
}

// Abort stops the work in which the node waits; see [provisioner.Worker].
func (e *Engine) Abort(ctx context.Context, id string) error {
	return e.ask(ctx, id, request{verb: ironic.Abort, trigger: node.OnAbort})
}

// CanService compares API versions; see [provisioner.Worker].
func (e *Engine) CanService(ctx context.Context) (bool, error) {
	supported, err := e.client.Supports(ctx, serviceSince)
	return supported, translate(err)
}

// Service runs steps on a deployed node; see [provisioner.Worker].
func (e *Engine) Service(ctx context.Context, id string, steps []node.Step) error {
	if err := e.needs(ctx, serviceSince, "servicing deployed nodes"); err != nil {
		return err
	}
	return e.ask(ctx, id, request{verb: ironic.Service, trigger: node.OnService, options: ironic.ProvisionOptions{Steps: documents(steps)}})
}

// needs returns ErrUnsupported when the API version in use is older than 1.since.
func (e *Engine) needs(ctx context.Context, since int, what string) error {
	supported, err := e.client.Supports(ctx, since)
	switch {
	case err != nil:
		return translate(err)
	case !supported:
		return fmt.Errorf("%w: %s needs an engine with API version 1.%d or newer", provisioner.ErrUnsupported, what, since)
	}
	return nil
}

// documents returns steps in the form in which the API takes them from clients.
func documents(steps []node.Step) []map[string]any {
	all := make([]map[string]any, len(steps))
	for i, s := range steps {
		all[i] = map[string]any{"interface": s.Interface, "step": s.Step}
		if s.Args != nil {
			all[i]["args"] = s.Args
		}
	}
	return all
}

// SetAutomatedCleaning turns automated cleaning on or off; see [provisioner.Worker].
func (e *Engine) SetAutomatedCleaning(ctx context.Context, id string, on bool) error {
	_, err := e.client.UpdateNode(ctx, id, nodes.UpdateOperation{Op: nodes.AddOp, Path: "/automated_clean", Value: on})
	return translate(err)
}

// SetMaintenance begins or ends maintenance; see [provisioner.Worker].
func (e *Engine) SetMaintenance(ctx context.Context, id, reason string) error {
	return translate(e.client.SetMaintenance(ctx, id, reason))
}

// SetPower asks for a change of power; see [provisioner.PowerController].
func (e *Engine) SetPower(ctx context.Context, id string, change provisioner.PowerChange) error {
	return translate(e.client.SetPower(ctx, id, nodes.TargetPowerState(change.Action), change.Timeout))
}

// AttachImage puts an image into a virtual drive; see [provisioner.MediaController]. The engine
// accepts the request before the BMC does.
func (e *Engine) AttachImage(ctx context.Context, id, url string) error {
	if err := e.needs(ctx, mediaSince, "an image in a virtual drive"); err != nil {
		return err
	}
	return translate(e.client.AttachMedium(ctx, id, url))
}

// DetachImage takes an image out of a virtual drive; see [provisioner.MediaController].
func (e *Engine) DetachImage(ctx context.Context, id string) error {
	if err := e.needs(ctx, mediaSince, "an image in a virtual drive"); err != nil {
		return err
	}
	return translate(e.client.DetachMedium(ctx, id))
}

// HasImage reports whether a virtual drive has an image; see [provisioner.MediaController].
func (e *Engine) HasImage(ctx context.Context, id string) (bool, error) {
	if err := e.needs(ctx, mediaListSince, "reading virtual drives"); err != nil {
		return false, err
	}
	media, err := e.client.Media(ctx, id)
	return slices.ContainsFunc(media, func(m ironic.Medium) bool { return m.Inserted }), translateOfBMC(err)
}

// Subscribe subscribes to events of the BMC; see [provisioner.Subscriber].
func (e *Engine) Subscribe(ctx context.Context, id string, s provisioner.Subscription) (string, error) {
	subscription, err := e.client.Subscribe(ctx, id, ironic.Subscription{Destination: s.Destination, Context: s.Context, HttpHeaders: s.Headers})
	return subscription, translateOfBMC(err)
}

// Unsubscribe ends a subscription; see [provisioner.Subscriber]. Engines have no single answer for
// a subscription that does not exist, so the BMC's list decides. If Ironic says that something is
// not found, this may mean any failure of the BMC, or that the node has no conductor now.
func (e *Engine) Unsubscribe(ctx context.Context, id, subscription string) error {
	err := e.client.Unsubscribe(ctx, id, subscription)
	if !errors.Is(err, ironic.ErrRejected) && !errors.Is(err, ironic.ErrServer) && !errors.Is(err, ironic.ErrNotFound) {
		return translate(err)
	}
	left, listErr := e.subscriptions(ctx, id)
	switch {
	case errors.Is(listErr, ironic.ErrNotFound):
		if _, nodeErr := e.client.Node(ctx, id, "uuid"); nodeErr != nil {
			return ignoreNotFound(translate(nodeErr))
		}
		return &kindError{kind: provisioner.ErrUnreachable, err: err}
	case listErr != nil:
		return listErr
	case slices.Contains(left, subscription):
		return &kindError{kind: provisioner.ErrFailed, err: err}
	}
	return nil
}

// Subscriptions lists the subscriptions of the BMC; see [provisioner.Subscriber]. It reads each of
// them with a request of its own.
func (e *Engine) Subscriptions(ctx context.Context, id string) ([]provisioner.ActiveSubscription, error) {
	ids, err := e.subscriptions(ctx, id)
	if err != nil {
		return nil, err
	}
	var all []provisioner.ActiveSubscription
	for _, subscription := range ids {
		s, err := e.client.ReadSubscription(ctx, id, subscription)
		if err != nil {
			return nil, translateOfBMC(err)
		}
		all = append(all, provisioner.ActiveSubscription{ID: subscription, Destination: s.Destination, Context: s.Context})
	}
	return all, nil
}

// subscriptions returns the IDs of the BMC's subscriptions. An engine refuses the request if the
// node's driver has no such method, but also if the access to the BMC lacks something, such as a CA
// file. Only the former is ErrUnsupported.
func (e *Engine) subscriptions(ctx context.Context, id string) ([]string, error) {
	ids, err := e.client.Subscriptions(ctx, id)
	err = translateOfBMC(err)
	if !errors.Is(err, provisioner.ErrInvalid) {
		return ids, err
	}
	methods, listErr := e.client.NodeMethods(ctx, id)
	switch {
	case listErr != nil:
		return nil, translate(listErr)
	case !methods[ironic.MethodSubscriptions]:
		return nil, &kindError{kind: provisioner.ErrUnsupported, err: err}
	}
	return nil, err
}
