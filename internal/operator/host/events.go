package host

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Reasons of events on hosts. An event marks a change; conditions hold the
// state.
const (
	eventDiscovered                   = "Discovered"
	eventRegistered                   = "Registered"
	eventBMCAccessValidated           = "BMCAccessValidated"
	eventImportStarted                = "ImportStarted"
	eventImportComplete               = "ImportComplete"
	eventImportLost                   = "ImportLost"
	eventImportConflict               = "ImportConflict"
	eventInspectionStarted            = "InspectionStarted"
	eventInspectionComplete           = "InspectionComplete"
	eventInspectionSkipped            = "InspectionSkipped"
	eventProvisioningStarted          = "ProvisioningStarted"
	eventProvisioningComplete         = "ProvisioningComplete"
	eventDeprovisioningStarted        = "DeprovisioningStarted"
	eventDeprovisioningComplete       = "DeprovisioningComplete"
	eventServicingStarted             = "ServicingStarted"
	eventServicingComplete            = "ServicingComplete"
	eventServicingAborted             = "ServicingAborted"
	eventUnknownUpdatePolicy          = "UnknownUpdatePolicy"
	eventPowerOn                      = "PowerOn"
	eventPowerOff                     = "PowerOff"
	eventNodeLeftAvailable            = "NodeLeftAvailable"
	eventPowerManagementUnsupported   = "PowerManagementUnsupported"
	eventRebootHoldUnsupported        = "RebootHoldUnsupported"
	eventInvalidAnnotationValue       = "InvalidAnnotationValue"
	eventUpdateHardwareDetails        = "UpdateHardwareDetails"
	eventRemoveAnnotation             = "RemoveAnnotation"
	eventDeletedWithoutCleaning       = "DeletedWithoutCleaning"
	eventDeleteGaveUp                 = "DeleteGaveUp"
	eventNodeKept                     = "NodeKept"
	eventDetached                     = "Detached"
	eventAttached                     = "Attached"
	eventAbandoned                    = "Abandoned"
	eventRebuildStarted               = "RebuildStarted"
	eventImageAuthFormatUnsupported   = "ImageAuthFormatUnsupported"
	eventImageAuthParseError          = "ImageAuthParseError"
	eventRegistrationError            = "RegistrationError"
	eventProvisionedRegistrationError = "ProvisionedRegistrationError"
	eventInspectionError              = "InspectionError"
	eventPreparationError             = "PreparationError"
	eventProvisioningError            = "ProvisioningError"
	eventPowerManagementError         = "PowerManagementError"
	eventServicingError               = "ServicingError"
	eventDetachError                  = "DetachError"
)

// eventOf maps the error types in the status to the reasons of events about them.
var eventOf = map[v1alpha1.ErrorType]string{
	v1alpha1.ErrorRegistration:            eventRegistrationError,
	v1alpha1.ErrorProvisionedRegistration: eventProvisionedRegistrationError,
	v1alpha1.ErrorInspection:              eventInspectionError,
	v1alpha1.ErrorPreparation:             eventPreparationError,
	v1alpha1.ErrorProvisioning:            eventProvisioningError,
	v1alpha1.ErrorPowerManagement:         eventPowerManagementError,
	v1alpha1.ErrorServicing:               eventServicingError,
	v1alpha1.ErrorDetach:                  eventDetachError,
}

// actionReconcile is the action of events that do not need one of their own.
// The API server folds events of one object into one when reason and action are
// the same, and keeps the first note.
const actionReconcile = "Reconcile"

// The longest action and note that the API server takes, in bytes.
const maxAction, maxNote = 128, 1024

// hostEvent is an event to be published when the pass is written.
type hostEvent struct {
	kind, reason, action, note string
}

// note adds an event of type Normal.
func (s *scope) note(reason, format string, args ...any) {
	s.addEvent(corev1.EventTypeNormal, reason, actionReconcile, format, args...)
}

// warn adds an event of type Warning.
func (s *scope) warn(reason, format string, args ...any) {
	s.addEvent(corev1.EventTypeWarning, reason, actionReconcile, format, args...)
}

// warnOf is warn for something that can happen to several parts of a host at
// once; the part's name distinguishes the events.
func (s *scope) warnOf(part, reason, format string, args ...any) {
	s.addEvent(corev1.EventTypeWarning, reason, part, format, args...)
}

func (s *scope) addEvent(kind, reason, action, format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	s.events = append(s.events, hostEvent{
		kind: kind, reason: reason, action: truncate(action, maxAction), note: truncate(note, maxNote),
	})
}

func (r *Reconciler) publish(s *scope) {
	for _, e := range s.events {
		r.Recorder.Eventf(s.host, nil, e.kind, e.reason, e.action, "%s", e.note)
	}
}

func truncate(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}
