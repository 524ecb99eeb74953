package host

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

// rebootRequests handles reboot annotations that cannot be fulfilled. Annotations that hold a host
// off belong to others, so they stay even where they have no effect: on a host that has no BMC or
// must not be powered off. The request for one power cycle is removed from a host without a BMC.
type rebootRequests struct{}

// namedHolds is how many annotations without effect are named at most; there may be thousands.
const namedHolds = 10

func (rebootRequests) reconcile(_ context.Context, s *scope) (result, error) {
	reason, because := eventPowerManagementUnsupported, "a host without a BMC cannot be held powered off"
	switch {
	case s.host.HasBMC() && !s.host.Spec.DisablePowerOff:
		return result{}, nil
	case s.host.HasBMC():
		reason, because = eventRebootHoldUnsupported, "spec.disablePowerOff is set"
	}
	announced := s.lastMessage(v1alpha1.PowerManagementSupportedCondition)
	for _, key := range sortedKeys(s.host.Annotations) {
		switch {
		case key == v1alpha1.RebootAnnotation && !s.host.HasBMC():
			delete(s.host.Annotations, key)
			s.warnOf(key, eventPowerManagementUnsupported, "Annotation %s was removed: a host without a BMC cannot be rebooted", key)
		case strings.HasPrefix(key, v1alpha1.RebootAnnotationPrefix):
			s.ignoredHolds = append(s.ignoredHolds, key)
			if len(s.ignoredHolds) <= namedHolds && !slices.Contains(strings.FieldsFunc(announced, func(r rune) bool { return r == ' ' || r == ',' }), key) {
				s.warnOf(key, reason, "Annotation %s has no effect: %s", key, because)
			}
		}
	}
	return result{}, nil
}

// misread returns the reboot annotations of a host with a BMC whose values are not valid requests,
// at most namedHolds of them. keys are their keys. shown has each key with its value; the
// fingerprint of a value that is cut tells it from other long values.
func misread(h *v1alpha1.BareMetalHost) (shown []string, keys []string) {
	if !h.HasBMC() {
		return nil, nil // they have no effect anyway
	}
	_, invalid := powerRequestsOf(h)
	keys = invalid[:min(len(invalid), namedHolds)]
	for _, key := range keys {
		value := h.Annotations[key]
		if len(value) > longestShown {
			value = truncate(value, longestShown) + "… " + fingerprint(value)
		}
		shown = append(shown, node.CutText(key+"="+strconv.Quote(value)))
	}
	return shown, keys
}

// longestShown is how much of an invalid value is shown, in bytes.
const longestShown = 40

// warnOfMisread adds an event for each annotation with an invalid value, once: the condition
// PowerManagementSupported lists those that an earlier pass has warned of.
func warnOfMisread(s *scope) {
	announced := s.lastMessage(v1alpha1.PowerManagementSupportedCondition)
	shown, keys := misread(s.host)
	for i, key := range keys {
		if !strings.Contains(announced, shown[i]) {
			s.warnOf(key, eventInvalidAnnotationValue, "The value of annotation %s is no valid request; it counts as a soft power off", key)
		}
	}
}

// isRebootAnnotation reports whether a key asks for a power cycle, or to stay powered off.
func isRebootAnnotation(key string) bool {
	return key == v1alpha1.RebootAnnotation || strings.HasPrefix(key, v1alpha1.RebootAnnotationPrefix)
}

// suppliedDetails copies the hardware details that a user wrote into an annotation to the host, and
// removes the annotation. Details that an inspection has found are replaced only where inspection
// is disabled. A host that is being deleted needs no details.
type suppliedDetails struct {
	data hardwareData
}

func (p suppliedDetails) reconcile(ctx context.Context, s *scope) (result, error) {
	text, there := s.host.Annotations[v1alpha1.HardwareDetailsAnnotation]
	if !there || !s.host.DeletionTimestamp.IsZero() {
		return result{}, nil
	}
	delete(s.host.Annotations, v1alpha1.HardwareDetailsAnnotation)
	if !takesSuppliedDetails(s.host) {
		s.note(eventRemoveAnnotation, "Annotation %s was removed: the host has hardware details, and its inspection is not disabled", v1alpha1.HardwareDetailsAnnotation)
		return result{}, nil
	}
	var details v1alpha1.HardwareDetails
	if err := json.Unmarshal([]byte(text), &details); err != nil {
		s.warn(eventInvalidAnnotationValue, "Annotation %s was removed: it holds no hardware details: %v", v1alpha1.HardwareDetailsAnnotation, err)
		return result{}, nil
	}
	err := p.data.write(ctx, s.host, &details)
	if apierrors.IsInvalid(err) {
		s.warn(eventInvalidAnnotationValue, "Annotation %s was removed: %v", v1alpha1.HardwareDetailsAnnotation, err)
		return result{}, nil
	}
	if err != nil {
		return result{}, err
	}
	s.host.Status.HardwareDetails = &details
	s.note(eventUpdateHardwareDetails, "Hardware details were taken from annotation %s", v1alpha1.HardwareDetailsAnnotation)
	return result{}, nil
}

// takesSuppliedDetails reports whether supplied details may replace those that the host has.
func takesSuppliedDetails(h *v1alpha1.BareMetalHost) bool {
	return h.Status.HardwareDetails == nil || inspectionDisabled(h)
}
