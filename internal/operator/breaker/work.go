package breaker

import (
	"context"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// Create creates a node; see [provisioner.Registrar].
func (e *Engine) Create(ctx context.Context, r provisioner.Registration) (provisioner.Node, error) {
	return call(ctx, e, "", e.opts.WriteTimeout, func(ctx context.Context) (provisioner.Node, error) {
		return e.Engine.Create(ctx, r)
	})
}

// Update writes the settings of a node; see [provisioner.Registrar].
func (e *Engine) Update(ctx context.Context, id string, r provisioner.Registration, opts provisioner.UpdateOptions) (provisioner.Node, error) {
	return call(ctx, e, id, e.opts.WriteTimeout, func(ctx context.Context) (provisioner.Node, error) {
		return e.Engine.Update(ctx, id, r, opts)
	})
}

// CheckAccess tries the credentials of a node. The engine calls the BMC for it; see
// [provisioner.Registrar].
func (e *Engine) CheckAccess(ctx context.Context, id string) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.CheckAccess(ctx, id) })
}

// Version reads the API version; see [provisioner.Reader].
func (e *Engine) Version(ctx context.Context) (string, error) {
	return recall(ctx, e, func(ctx context.Context) (string, error) { return e.Engine.Version(ctx) })
}

// Identify reads which machine a BMC belongs to. The engine calls the BMC for it; see
// [provisioner.Identifier].
func (e *Engine) Identify(ctx context.Context, access bmc.Access, credentials bmc.Credentials) (node.MachineFacts, error) {
	return call(ctx, e, noNode, e.opts.WriteTimeout, func(ctx context.Context) (node.MachineFacts, error) {
		return e.Engine.Identify(ctx, access, credentials)
	})
}

// Inspect asks for an inspection; see [provisioner.Worker].
func (e *Engine) Inspect(ctx context.Context, id string) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.Inspect(ctx, id) })
}

// Clean runs steps of cleaning; see [provisioner.Worker].
func (e *Engine) Clean(ctx context.Context, id string, steps []node.Step) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.Clean(ctx, id, steps) })
}

// SetTargetRAID writes volumes to be created; see [provisioner.Worker].
func (e *Engine) SetTargetRAID(ctx context.Context, id string, raid *v1alpha1.RAIDConfig, hints *v1alpha1.RootDeviceHints) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.SetTargetRAID(ctx, id, raid, hints) })
}

// Deploy asks for a deployment; see [provisioner.Worker].
func (e *Engine) Deploy(ctx context.Context, id string, d provisioner.Deployment) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.Deploy(ctx, id, d) })
}

// Undeploy removes a deployment; see [provisioner.Worker].
func (e *Engine) Undeploy(ctx context.Context, id string) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.Undeploy(ctx, id) })
}

// Adopt takes a deployed machine over; see [provisioner.Worker].
func (e *Engine) Adopt(ctx context.Context, id string) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.Adopt(ctx, id) })
}

// Abort stops work in which a node waits; see [provisioner.Worker].
func (e *Engine) Abort(ctx context.Context, id string) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.Abort(ctx, id) })
}

// CanService reports whether the engine can service nodes; see [provisioner.Worker].
func (e *Engine) CanService(ctx context.Context) (bool, error) {
	return recall(ctx, e, func(ctx context.Context) (bool, error) { return e.Engine.CanService(ctx) })
}

// Service runs steps on a deployed node; see [provisioner.Worker].
func (e *Engine) Service(ctx context.Context, id string, steps []node.Step) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.Service(ctx, id, steps) })
}

// SetAutomatedCleaning turns automated cleaning on or off; see [provisioner.Worker].
func (e *Engine) SetAutomatedCleaning(ctx context.Context, id string, on bool) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.SetAutomatedCleaning(ctx, id, on) })
}

// SetMaintenance puts a node into maintenance or takes it out; see [provisioner.Worker].
func (e *Engine) SetMaintenance(ctx context.Context, id, reason string) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.SetMaintenance(ctx, id, reason) })
}

// SetPower asks for a change of power; see [provisioner.PowerController].
func (e *Engine) SetPower(ctx context.Context, id string, change provisioner.PowerChange) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.SetPower(ctx, id, change) })
}

// Settings reads BIOS settings; see [provisioner.FirmwareReader].
func (e *Engine) Settings(ctx context.Context, id string) ([]provisioner.Setting, error) {
	return call(ctx, e, id, e.opts.ReadTimeout, func(ctx context.Context) ([]provisioner.Setting, error) {
		return e.Engine.Settings(ctx, id)
	})
}

// Components reads firmware components; see [provisioner.FirmwareReader].
func (e *Engine) Components(ctx context.Context, id string) ([]provisioner.Component, error) {
	return call(ctx, e, id, e.opts.ReadTimeout, func(ctx context.Context) ([]provisioner.Component, error) {
		return e.Engine.Components(ctx, id)
	})
}

// AttachImage puts an image into a virtual drive; see [provisioner.MediaController].
func (e *Engine) AttachImage(ctx context.Context, id, url string) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.AttachImage(ctx, id, url) })
}

// DetachImage takes an image out of a virtual drive; see [provisioner.MediaController].
func (e *Engine) DetachImage(ctx context.Context, id string) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.DetachImage(ctx, id) })
}

// HasImage reports whether a virtual drive has an image; see [provisioner.MediaController].
func (e *Engine) HasImage(ctx context.Context, id string) (bool, error) {
	return call(ctx, e, id, e.opts.WriteTimeout, func(ctx context.Context) (bool, error) { // the BMC gives the answer
		return e.Engine.HasImage(ctx, id)
	})
}

// Subscribe asks a BMC for its events; see [provisioner.Subscriber].
func (e *Engine) Subscribe(ctx context.Context, id string, s provisioner.Subscription) (string, error) {
	return call(ctx, e, id, e.opts.WriteTimeout, func(ctx context.Context) (string, error) {
		return e.Engine.Subscribe(ctx, id, s)
	})
}

// Subscriptions lists the subscriptions of a BMC; see [provisioner.Subscriber].
func (e *Engine) Subscriptions(ctx context.Context, id string) ([]provisioner.ActiveSubscription, error) {
	return call(ctx, e, id, e.opts.ReadTimeout, func(ctx context.Context) ([]provisioner.ActiveSubscription, error) {
		return e.Engine.Subscriptions(ctx, id)
	})
}

// Unsubscribe ends a subscription; see [provisioner.Subscriber].
func (e *Engine) Unsubscribe(ctx context.Context, id, subscription string) error {
	return e.change(ctx, id, func(ctx context.Context) error { return e.Engine.Unsubscribe(ctx, id, subscription) })
}
