package host

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Reasons of events on hosts. An event marks a change; conditions hold the
// state.
const (
	eventDiscovered                 = "Discovered"
	eventImportStarted              = "ImportStarted"
	eventImportComplete             = "ImportComplete"
	eventImportLost                 = "ImportLost"
	eventImportConflict             = "ImportConflict"
	eventNodeLeftAvailable          = "NodeLeftAvailable"
	eventRegistrationUnsupported    = "RegistrationUnsupported"
	eventPowerManagementUnsupported = "PowerManagementUnsupported"
	eventInvalidAnnotationValue     = "InvalidAnnotationValue"
	eventUpdateHardwareDetails      = "UpdateHardwareDetails"
	eventDeletedWithoutCleaning     = "DeletedWithoutCleaning"
	eventDeleteGaveUp               = "DeleteGaveUp"
	eventRegistrationError          = "RegistrationError"
	eventPreparationError           = "PreparationError"
)

// eventOf are the reasons of events about failed operations.
var eventOf = map[v1alpha1.ErrorType]string{
	v1alpha1.ErrorRegistration: eventRegistrationError,
	v1alpha1.ErrorPreparation:  eventPreparationError,
}

// actionReconcile is the action of all events of this controller.
const actionReconcile = "Reconcile"

// maxNote is the longest note that the API server takes, in bytes.
const maxNote = 1024

// hostEvent is an event to be published when the pass is written.
type hostEvent struct {
	kind, reason, note string
}

// note adds an event about something that went as it should.
func (s *scope) note(reason, format string, args ...any) {
	s.addEvent(corev1.EventTypeNormal, reason, format, args...)
}

// warn adds an event about something that a person should look at.
func (s *scope) warn(reason, format string, args ...any) {
	s.addEvent(corev1.EventTypeWarning, reason, format, args...)
}

func (s *scope) addEvent(kind, reason, format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	s.events = append(s.events, hostEvent{kind: kind, reason: reason, note: note[:min(len(note), maxNote)]})
}

func (r *Reconciler) publish(s *scope) {
	for _, e := range s.events {
		r.Recorder.Eventf(s.host, nil, e.kind, e.reason, actionReconcile, "%s", e.note)
	}
}
