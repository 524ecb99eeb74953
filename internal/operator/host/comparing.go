package host

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// compareTimeout is how long the preparation of a host waits, without showing an error, until its
// settings and firmware have been compared with the machine. The comparison takes seconds while the
// engine answers.
const compareTimeout = 10 * time.Minute

// awaitComparison lets the host wait until the firmware controllers have compared the newest
// versions of its objects with the machine. A wait that exceeds compareTimeout is shown as an
// error. The comparison itself triggers the next pass.
func awaitComparison(s *scope) result {
	status := &s.host.Status
	if status.Updates.UncomparedSince == nil {
		since := metav1.NewTime(s.now)
		status.Updates.UncomparedSince = &since
	}
	if left := requeue.Left(compareTimeout, status.Updates.UncomparedSince.Time, s.now); left > 0 {
		s.waiting("The host is prepared when %s has been compared with the machine", s.changes.unseenNames())
		return stoppedFor(min(left, idlePoll))
	}
	message := fmt.Sprintf("%s has not been compared with the machine for %.0f minutes, so that nobody knows whether it can be applied; "+
		"run the group of controllers named firmware, see in its log why it cannot read the machine, or empty the spec",
		capitalized(s.changes.unseenNames()), compareTimeout.Minutes())
	if status.ErrorMessage != message {
		s.warn(eventOf[v1alpha1.ErrorPreparation], "%s", message)
	}
	s.waiting("%s", message)
	status.ErrorType, status.ErrorMessage = v1alpha1.ErrorPreparation, message
	return stoppedFor(idlePoll)
}

// compared ends the wait of awaitComparison, and clears the error of a wait that was too long.
func compared(s *scope) {
	since := s.host.Status.Updates.UncomparedSince
	if since == nil {
		return
	}
	if requeue.Left(compareTimeout, since.Time, s.now) == 0 {
		s.clearError()
	}
	s.host.Status.Updates.UncomparedSince = nil
}
