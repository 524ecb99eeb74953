package firmware

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// settings keeps the HostFirmwareSettings of a host.
type settings struct {
	objects  objects
	engine   provisioner.FirmwareReader
	recorder events.EventRecorder
	schemas  schemas
}

// reconcile shows the BIOS settings of the host's machine if the spec changed or the engine may
// have new values. It returns how long to wait before the next pass; 0 means until the next change.
func (p settings) reconcile(ctx context.Context, s pass, l *last) (time.Duration, error) {
	var cached v1alpha1.HostFirmwareSettings
	existing := &cached
	err := p.objects.client.Get(ctx, client.ObjectKeyFromObject(s.host), &cached, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return 0, err
	}
	if err != nil {
		existing = nil
	}
	current, err := p.isCurrent(ctx, s, existing)
	if err != nil {
		return 0, err
	}
	read, wait := decideReading(l.or(cached.Status.Reading), object{
		current: current, wanted: len(cached.Spec.Settings) > 0, changing: isChanging(cached.Status.Conditions),
	}, s.node, s.now)
	if !read {
		return wait, nil
	}
	found, err := p.engine.Settings(ctx, s.node.ID)
	reading := settingsReading{found: found, none: errors.Is(err, provisioner.ErrUnsupported)}
	if err != nil && !reading.none {
		return 0, err
	}
	written, err := p.write(ctx, s, existing, reading)
	if err != nil {
		return 0, err
	}
	*l = last{reading: readingOf(s.node), known: true, at: s.now, none: reading.none, worked: firmwareWork[s.node.State]}
	if isChanging(written.Status.Conditions) {
		return changingInterval, nil
	}
	return 0, nil
}

// settingsReading is what the engine answered about the settings of a machine.
type settingsReading struct {
	found []provisioner.Setting
	none  bool // the machine's driver has no settings
}

// isCurrent reports whether the object h needs no write unless new readings differ. h is nil if
// there is no object. isCurrent reads from the cache.
func (p settings) isCurrent(ctx context.Context, s pass, h *v1alpha1.HostFirmwareSettings) (bool, error) {
	if h == nil || !isOwned(h, s.host) || !observed(h.Status.Conditions, h.Generation) {
		return false, nil
	}
	if h.Status.FirmwareSchema == nil {
		return true, nil
	}
	var schema v1alpha1.FirmwareSchema
	key := client.ObjectKey{Namespace: h.Namespace, Name: h.Status.FirmwareSchema.Name}
	err := p.objects.client.Get(ctx, key, &schema, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return false, nil // somebody deleted it
	}
	return err == nil, err
}

// write creates the object if there is none yet, and shows in it what was read.
func (p settings) write(ctx context.Context, s pass, existing *v1alpha1.HostFirmwareSettings, read settingsReading) (*v1alpha1.HostFirmwareSettings, error) {
	h := &v1alpha1.HostFirmwareSettings{Spec: v1alpha1.HostFirmwareSettingsSpec{Settings: map[string]intstr.IntOrString{}}}
	if err := p.objects.ensure(ctx, h, existing != nil, s.host); err != nil {
		return nil, err
	}
	shown, leftOut := cutSettings(read.found)
	reference, err := p.schemas.ensure(ctx, h, schemaOf(shown, s.host.Status.HardwareDetails))
	if err != nil {
		return nil, err
	}
	before := h.DeepCopy()
	h.Status.FirmwareSchema = reference
	h.Status.Settings = valuesOf(shown)
	// found includes settings that are not shown.
	conditions := decideSettings(h.Spec.Settings, read.found, schemaOf(read.found, nil), read.none)
	conditions.leftOut = leftOut
	setConditions(&h.Status.Conditions, conditions, h.Generation, s.now)
	if equality.Semantic.DeepEqual(before.Status, h.Status) && len(h.Spec.Settings) == 0 {
		return h, nil
	}
	h.Status.Reading = readingOf(s.node).forStatus()
	if equality.Semantic.DeepEqual(before.Status, h.Status) {
		return h, nil
	}
	now := metav1.NewTime(s.now)
	h.Status.LastUpdated = &now
	if err := p.objects.writeStatus(ctx, h, before); err != nil {
		return nil, err
	}
	publishInvalid(p.recorder, h, before.Status.Conditions, h.Status.Conditions)
	return h, nil
}

// StripSettings is the cache's transformation of HostFirmwareSettings. It drops the values of the
// settings, some hundred per host, because they are needed only where they are written.
func StripSettings(obj any) (any, error) {
	if h, ok := obj.(*v1alpha1.HostFirmwareSettings); ok {
		h.Status.Settings, h.ManagedFields = nil, nil
	}
	return obj, nil
}
