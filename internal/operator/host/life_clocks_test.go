package host

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

func TestFailedWorkIsTriedAgainSoonWhenTheClockWasSetBack(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-inspection-error"
	l.add(name, nil)
	l.fails(name, v1alpha1.ErrorInspection)
	asked := l.count(name, "inspect")
	l.now = l.now.Add(-240 * time.Hour)
	began := l.now
	l.until(name, "inspected again", func(*v1alpha1.BareMetalHost) bool { return l.count(name, "inspect") > asked })
	if took := l.now.Sub(began); took > time.Hour {
		t.Errorf("it was inspected again after %s", took)
	}
}

// newLifeWithAClock returns a life whose engine takes five minutes for a verb, and whose clock can
// be set back.
func newLifeWithAClock(t *testing.T, verb demo.Verb) (l *life, setBack func(time.Duration)) {
	t.Helper()
	l = newLife(t, nil)
	var behind time.Duration
	l.engine = demo.New(demo.Options{
		Now: func() time.Time { return l.now.Add(-behind) }, Durations: map[demo.Verb]time.Duration{verb: 5 * time.Minute},
	})
	l.restart()
	return l, func(d time.Duration) { behind = d }
}

func TestInspectionIsNotRepeatedWhenTheClockOfTheEngineWasSetBack(t *testing.T) {
	l, setBack := newLifeWithAClock(t, demo.VerbInspect)
	l.add("web", nil)
	l.until("web", "about to be inspected", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Operation.Request == askInspect })
	setBack(time.Hour)
	l.rests("web", v1alpha1.StateAvailable)
	if got := l.count("web", "inspect"); got != 1 {
		t.Errorf("%d inspections, want one", got)
	}
}

func TestUpdateIsNotRepeatedWhenTheClockOfTheEngineWasSetBack(t *testing.T) {
	l, setBack := newLifeWithAClock(t, demo.VerbService)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	l.update("web")
	l.annotate("web", v1alpha1.RebootAnnotation, "")
	l.until("web", "about to be updated", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Updates.Service.Request == askService })
	setBack(time.Hour)
	l.until("web", "updated", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Updates.Components.Applied == 4 })
	l.rests("web", v1alpha1.StateProvisioned)
	if got := l.count("web", askService); got != 1 {
		t.Errorf("%d updates, want one", got)
	}
}

// TestWaitForAComparisonEndsWhenTheClockWasSetBack has a wait whose recorded start is in the
// future.
func TestWaitForAComparisonEndsWhenTheClockWasSetBack(t *testing.T) {
	s := newScope(testHost(nil), testNow, time.Minute)
	since := metav1.NewTime(testNow.Add(time.Hour))
	s.host.Status.Updates.UncomparedSince = &since
	s.changes = changes{components: change{kind: "HostFirmwareComponents", generation: 1, state: changeUnseen}}
	awaitComparison(s)
	if s.host.Status.ErrorType != v1alpha1.ErrorPreparation {
		t.Errorf("error type %q, want that nobody compares", s.host.Status.ErrorType)
	}
}

func TestSilenceOfARamdiskMayBeADifferenceOfClocks(t *testing.T) {
	if got := silence(testNow); !strings.Contains(got, "clocks") {
		t.Errorf("%q does not say that clocks may differ", got)
	}
	if got := silence(time.Time{}); strings.Contains(got, "clocks") {
		t.Errorf("%q tells of clocks, and there was no heartbeat", got)
	}
}
