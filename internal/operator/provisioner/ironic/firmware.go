package ironic

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// Settings reads the BIOS settings; see [provisioner.FirmwareReader].
func (e *Engine) Settings(ctx context.Context, id string) ([]provisioner.Setting, error) {
	found, err := e.client.Settings(ctx, id)
	if err != nil {
		return nil, translate(err)
	}
	settings := make([]provisioner.Setting, len(found))
	for i, s := range found {
		settings[i] = provisioner.Setting{Name: s.Name, Value: s.Value, Schema: v1alpha1.SettingSchema{
			AttributeType: v1alpha1.AttributeType(s.AttributeType), AllowableValues: s.AllowableValues,
			LowerBound: s.LowerBound, UpperBound: s.UpperBound, MinLength: s.MinLength, MaxLength: s.MaxLength,
			ReadOnly: s.ReadOnly, Unique: s.Unique,
		}}
	}
	if len(settings) == 0 {
		return settings, e.hasInterface(ctx, id, "bios_interface", "no-bios")
	}
	return settings, nil
}

// Components reads the firmware components; see [provisioner.FirmwareReader].
func (e *Engine) Components(ctx context.Context, id string) ([]provisioner.Component, error) {
	if err := e.needs(ctx, firmwareSince, "reading firmware"); err != nil {
		return nil, err
	}
	found, err := e.client.Components(ctx, id)
	if err != nil {
		return nil, translate(err)
	}
	components := make([]provisioner.Component, len(found))
	for i, c := range found {
		components[i] = provisioner.Component{
			Name: c.Component, InitialVersion: c.InitialVersion, CurrentVersion: c.CurrentVersion,
			LastFlashed: c.LastVersionFlashed, UpdatedAt: value(c.UpdatedAt),
		}
	}
	if len(components) == 0 {
		return components, e.hasInterface(ctx, id, "firmware_interface", "no-firmware")
	}
	return components, nil
}

// hasInterface returns ErrUnsupported if the node's interface is the one without abilities, for
// which engines also answer with an empty list.
func (e *Engine) hasInterface(ctx context.Context, id, field, none string) error {
	n, err := e.client.Node(ctx, id, field)
	if err != nil {
		return translate(err)
	}
	if chosen := interfaceOf(n, field); chosen == none {
		return fmt.Errorf("%w: the %s of node %s is %s", provisioner.ErrUnsupported, field, id, none)
	}
	return nil
}
