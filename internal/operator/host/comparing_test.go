package host

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// timeouts creates HostFirmwareSettings that ask for a boot timeout, and that nobody has compared.
func (l *life) timeouts(name string) {
	l.Helper()
	o := settingsObject(1, false, map[string]intstr.IntOrString{"BootTimeout": intstr.FromInt32(9)})
	o.Namespace, o.Name, o.Status.Conditions = "metal", name, nil
	l.create(o)
}

// judged writes what its controller says about the newest version of such an object.
func (l *life) judged(name string, valid, changed bool) {
	l.Helper()
	var o v1alpha1.HostFirmwareSettings
	if err := l.api.Get(l.Context(), client.ObjectKey{Namespace: "metal", Name: name}, &o); err != nil {
		l.Fatal(err)
	}
	o.Status.Conditions = comparedAt(o.Generation, changed)
	if !valid {
		meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ValidCondition, Status: metav1.ConditionFalse, Message: "BootTimeout is too long", ObservedGeneration: o.Generation,
		})
	}
	if err := l.api.Update(l.Context(), &o); err != nil {
		l.Fatal(err)
	}
}

// appliedSettings is an engine that shows the settings which are asked for.
type appliedSettings struct{ *demo.Engine }

func (appliedSettings) Settings(context.Context, string) ([]provisioner.Setting, error) {
	return []provisioner.Setting{{Name: "BootTimeout", Value: "9"}}, nil
}

func TestHostWhoseMachineGotItsSettingsMeanwhileGoesOn(t *testing.T) {
	l := newLife(t, nil)
	l.timeouts("web")
	l.add("web", nil)
	l.rests("web", v1alpha1.StatePreparing)
	l.judged("web", true, true)
	l.until("web", "about to be configured", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Operation.Request == askClean })
	l.r = newTestReconciler(t, l.api, appliedSettings{l.engine}, func() time.Time { return l.now }, nil)
	if h := l.rests("web", v1alpha1.StateAvailable); h.Status.Updates.Settings.Applied != 1 {
		t.Errorf("record of the settings: %+v, want them applied", h.Status.Updates.Settings)
	}
	l.does("web", 0, "create", "manage", "inspect", "provide", "power on")
}

func TestHostIsPreparedAndDeployedAfterItsSettingsWereCompared(t *testing.T) {
	for name, tt := range map[string]struct {
		changed bool
		want    []string
	}{
		"they differ": {true, []string{"create", "manage", "inspect", "clean", "provide", "deploy"}},
		"they do not": {false, []string{"create", "manage", "inspect", "provide", "deploy"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.timeouts("web")
			l.add("web", withImage)
			l.rests("web", v1alpha1.StatePreparing)
			l.does("web", 0, "create", "manage", "inspect")
			c := l.says("web", v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.NotProgressingReason)
			if !strings.Contains(c.Message, "generation 1 of HostFirmwareSettings has been compared") {
				t.Errorf("message %q, want what it waits for", c.Message)
			}
			l.says("web", v1alpha1.UpdatePendingCondition, metav1.ConditionTrue, v1alpha1.UpdateNotComparedReason)
			l.judged("web", true, tt.changed)
			h := l.rests("web", v1alpha1.StateProvisioned)
			l.does("web", 0, tt.want...)
			if h.Status.Updates.UncomparedSince != nil {
				t.Error("the host still waits for a comparison")
			}
		})
	}
}

func TestAvailableHostIsNotDeployedWithSettingsThatNobodyComparedOrThatAreInvalid(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	before := len(l.effects("web"))
	l.timeouts("web")
	l.rests("web", v1alpha1.StateAvailable)
	l.edit("web", withImage)
	l.rests("web", v1alpha1.StatePreparing)
	l.judged("web", false, true)
	l.rests("web", v1alpha1.StatePreparing)
	c := l.says("web", v1alpha1.UpdatePendingCondition, metav1.ConditionTrue, v1alpha1.UpdateFailedReason)
	if !strings.Contains(c.Message, "BootTimeout is too long") {
		t.Errorf("message %q, want what is wrong", c.Message)
	}
	l.does("web", before)
	l.judged("web", true, true)
	l.rests("web", v1alpha1.StateProvisioned)
	l.does("web", before, "manage", "clean", "provide", "deploy")
}

func TestSettingsThatNobodyComparesAreAnErrorUntilSomebodyDoes(t *testing.T) {
	l := newLife(t, nil)
	l.timeouts("web")
	l.add("web", withImage)
	l.rests("web", v1alpha1.StatePreparing)
	since := l.host("web").Status.Updates.UncomparedSince
	h := l.fails("web", v1alpha1.ErrorPreparation)
	if waited := l.now.Sub(since.Time); waited < compareTimeout || waited > compareTimeout+time.Minute {
		t.Errorf("error after %s, want %s", waited, compareTimeout)
	}
	if !strings.Contains(h.Status.ErrorMessage, "HostFirmwareSettings has not been compared") || !strings.Contains(h.Status.ErrorMessage, "firmware") {
		t.Errorf("error %q, want what to do", h.Status.ErrorMessage)
	}
	l.rests("web", v1alpha1.StatePreparing)
	errors := 0
	for _, reason := range l.events.reasons {
		if reason == eventOf[v1alpha1.ErrorPreparation] {
			errors++
		}
	}
	if errors != 1 || l.count("web", "deploy") != 0 {
		t.Errorf("%d events, asked of the machine: %q; want one event and no deployment", errors, l.effects("web"))
	}
	l.judged("web", true, true)
	h = l.until("web", "about to get its settings", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Updates.Settings.Requested != 0 })
	if h.Status.ErrorType != "" || h.Status.ErrorMessage != "" {
		t.Errorf("error %q: %s", h.Status.ErrorType, h.Status.ErrorMessage)
	}
	l.rests("web", v1alpha1.StateProvisioned)
}
