package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// updater makes the steps that change BIOS settings and firmware, and keeps the records of
// what was requested and applied.
type updater struct {
	client client.Client
	engine provisioner.FirmwareReader
}

// reading is what the machine has, as the engine shows it. Parts that no change needs are empty.
type reading struct {
	settings   []provisioner.Setting
	components []provisioner.Component
}

// steps reads what the machine has and returns the steps that give it what the changes ask for:
// first BIOS settings, then firmware. It returns none when the machine has all of it.
func (u updater) steps(ctx context.Context, s *scope, c changes) ([]node.Step, error) {
	var r reading
	var err error
	if c.settings.ready() {
		if r.settings, err = u.engine.Settings(ctx, s.node.ID); err != nil {
			return nil, fmt.Errorf("read the BIOS settings of node %s: %w", s.node.ID, err)
		}
	}
	if c.components.ready() && len(s.host.Status.Updates.Written) > 0 {
		if r.components, err = u.engine.Components(ctx, s.node.ID); err != nil {
			return nil, fmt.Errorf("read the firmware of node %s: %w", s.node.ID, err)
		}
	}
	return updateSteps(c, s.host.Status.Updates.Written, r), nil
}

// updateSteps returns these steps for a reading.
func updateSteps(c changes, written []v1alpha1.WrittenFirmware, r reading) []node.Step {
	var steps []node.Step
	if c.settings.ready() {
		wanted := map[string]string{}
		for name, value := range c.objects.settings.Spec.Settings {
			wanted[name] = value.String()
		}
		steps = provisioner.SettingSteps(r.settings, wanted)
	}
	if !c.components.ready() {
		return steps
	}
	var updates []provisioner.FirmwareUpdate
	for _, update := range c.objects.components.Spec.Updates {
		if !isWritten(c, update, written, r.components) {
			updates = append(updates, provisioner.FirmwareUpdate{Component: update.Component, URL: update.URL})
		}
	}
	return append(steps, provisioner.FirmwareSteps(updates)...)
}

// isWritten reports whether a component has the firmware of an update already: that firmware was
// written last, and the component shows the version that it showed then. If no record says what was
// written last, the status of the object tells what another operator wrote. The status does not
// count while a request of this operator is open: it then shows what was begun, and not what is
// done. Therefore request first records what the status showed before.
func isWritten(c changes, update v1alpha1.FirmwareUpdate, written []v1alpha1.WrittenFirmware, has []provisioner.Component) bool {
	last := lastWritten(written, update.Component)
	if last < 0 {
		return !c.components.requested() && slices.Contains(c.objects.components.Status.Updates, update)
	}
	version := versionOf(has, update.Component)
	return written[last].URL == update.URL && (written[last].Version == "" || version == "" || version == written[last].Version)
}

// lastWritten returns the index of the record of a component, -1 for none.
func lastWritten(written []v1alpha1.WrittenFirmware, component string) int {
	return slices.IndexFunc(written, func(w v1alpha1.WrittenFirmware) bool { return w.Component == component })
}

func versionOf(components []provisioner.Component, name string) string {
	for _, c := range components {
		if c.Name == name {
			return c.CurrentVersion
		}
	}
	return ""
}

// request records that the engine is asked to apply the changes, and which firmware another
// operator has written before.
func (updater) request(s *scope, c changes) {
	updates := &s.host.Status.Updates
	updates.NodeID = s.node.ID
	for _, part := range []struct {
		change change
		record *v1alpha1.UpdateRecord
	}{{c.settings, &updates.Settings}, {c.components, &updates.Components}} {
		*part.record = part.change.record
		part.record.Requested = part.change.version()
		switch part.record.Requested {
		case 0:
			part.record.RequestedDigest = ""
		case part.change.generation:
			part.record.UID, part.record.RequestedDigest = part.change.uid, part.change.digest
		}
	}
	updates.Firmware = nil
	if updates.Components.Requested == 0 {
		return
	}
	updates.Firmware = slices.Clone(c.objects.components.Spec.Updates)
	if c.components.requested() {
		return // the status shows what the earlier request has begun
	}
	for _, update := range c.objects.components.Status.Updates {
		if lastWritten(updates.Written, update.Component) < 0 {
			updates.Written = append(updates.Written, v1alpha1.WrittenFirmware{FirmwareUpdate: update})
		}
	}
}

// applied records that what was requested is applied.
func (u updater) applied(ctx context.Context, s *scope) error {
	updates := &s.host.Status.Updates
	if err := u.begun(ctx, s); err != nil {
		return err
	}
	if len(updates.Firmware) > 0 { // even if its object was moved with the host meanwhile
		// If the versions cannot be read, the URLs alone tell what was written.
		has, err := u.engine.Components(ctx, s.node.ID)
		if isTemporary(err) {
			return err
		}
		for _, update := range updates.Firmware {
			updates.Written = slices.DeleteFunc(updates.Written, func(w v1alpha1.WrittenFirmware) bool { return w.Component == update.Component })
			updates.Written = append(updates.Written, v1alpha1.WrittenFirmware{FirmwareUpdate: update, Version: versionOf(has, update.Component)})
		}
	}
	for _, record := range []*v1alpha1.UpdateRecord{&updates.Settings, &updates.Components} {
		if isOpen(*record) {
			record.Requested, record.Applied = 0, record.Requested
			record.RequestedDigest, record.AppliedDigest = "", record.RequestedDigest
		}
	}
	updates.Firmware, updates.NodeID, updates.Service = nil, "", v1alpha1.OperationStatus{}
	return nil
}

// withdrawn records that what was requested is not wanted any more.
func (u updater) withdrawn(ctx context.Context, s *scope) error {
	updates := &s.host.Status.Updates
	if updates.Components.Requested != 0 {
		if err := u.show(ctx, s, nil); err != nil {
			return err
		}
	}
	for _, record := range []*v1alpha1.UpdateRecord{&updates.Settings, &updates.Components} {
		if isOpen(*record) {
			record.AppliedDigest = "" // the machine may have a part of what was requested
		}
		record.Requested, record.RequestedDigest = 0, ""
	}
	updates.Firmware, updates.NodeID, updates.Service = nil, "", v1alpha1.OperationStatus{}
	return nil
}

// begun shows in the status of HostFirmwareComponents which updates were begun.
func (u updater) begun(ctx context.Context, s *scope) error {
	if s.host.Status.Updates.Components.Requested == 0 {
		return nil
	}
	return u.show(ctx, s, s.host.Status.Updates.Firmware)
}

// show writes the updates into the status of HostFirmwareComponents. Other controllers own
// the rest of that status, so nothing else is in the patch.
func (u updater) show(ctx context.Context, s *scope, firmware []v1alpha1.FirmwareUpdate) error {
	shown := s.changes.objects.components
	if shown == nil || shown.UID != s.host.Status.Updates.Components.UID || slices.Equal(shown.Status.Updates, firmware) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"updates": firmware}})
	if err != nil {
		return fmt.Errorf("encode firmware updates: %w", err)
	}
	if err := u.client.Status().Patch(ctx, shown.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write status of HostFirmwareComponents %s: %w", shown.Name, err)
	}
	return nil
}
