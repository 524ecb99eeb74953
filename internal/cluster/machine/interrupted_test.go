package machine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
	"github.com/ingot-metal/ingot/internal/cluster/workload"
)

// refuseHosts has each write of a host fail.
func (b *bench) refuseHosts(err error) {
	b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, host := obj.(*v1alpha1.BareMetalHost); host {
				return err
			}
			return c.Patch(ctx, obj, patch, options...)
		},
	})
}

func TestInterruptedPassSaysWhyAndLeavesAReadyMachineReady(t *testing.T) {
	reasonOf := map[metav1.ConditionStatus]string{metav1.ConditionTrue: v1beta2.ReadyReason, metav1.ConditionFalse: v1beta2.NotReadyReason}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "baremetalhosts"}, "a", errors.New("it was written"))
	for name, tt := range map[string]struct {
		ready bool
		err   error
		want  metav1.ConditionStatus
		part  string
	}{
		"ready machine, conflict":   {true, conflict, metav1.ConditionTrue, ""},
		"ready machine, error":      {true, errTest, metav1.ConditionTrue, ""},
		"machine to come, conflict": {false, conflict, metav1.ConditionFalse, `in state "available"`},
		"machine to come, error":    {false, errTest, metav1.ConditionFalse, "the API server is away"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			b.passes()
			if tt.ready {
				b.run()
			}
			edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.AutomatedCleaningMode = v1beta2.CleaningModeDisabled })
			b.refuseHosts(tt.err)
			b.passes()
			b.wantCondition(v1beta2.ReadyCondition, tt.want, reasonOf[tt.want], tt.part)
		})
	}
}

func TestPauseThatFailsIsShownUntilItSucceeds(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "baremetalhosts"}, "a", errors.New("it was written"))
	for name, tt := range map[string]struct {
		paused bool
		reason string
	}{
		"when it begins": {true, v1beta2.PauseAnnotationSetFailedReason},
		"when it ends":   {false, v1beta2.PauseAnnotationRemoveFailedReason},
	} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			b.run()
			b.pause(!tt.paused)
			b.passes()
			b.pause(tt.paused)
			held := func(when string) {
				t.Helper()
				if c := b.condition(v1beta2.AssociateBareMetalHostCondition); c.Status != metav1.ConditionTrue {
					t.Errorf("%s the condition is %s/%s (%s)", when, c.Status, c.Reason, c.Message)
				}
			}
			b.refuseHosts(conflict)
			b.passes()
			held("after a conflict")
			b.refuseHosts(errTest)
			b.passes()
			b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, tt.reason, "the API server is away")
			b.r.Client = b.api
			b.passes()
			held("when the pause is as it should be")
			if got := isAnnotated(b.host("a"), v1alpha1.PausedAnnotation); got != tt.paused {
				t.Errorf("host is paused: %v", got)
			}
		})
	}
}

func TestConflictIsNoFailureOfADeletion(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	b.remove()
	b.refuseHosts(apierrors.NewConflict(schema.GroupResource{Resource: "baremetalhosts"}, "a", errors.New("it was written")))
	b.passes()
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.DeletingReason, "")
	b.refuseHosts(errTest)
	b.passes()
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.DeletionFailedReason, "the API server is away")
}

func TestLongAnswersOfAWorkloadClusterDoNotKeepTheStatusFromBeingWritten(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.r.Nodes = nodes{workload.Result{Reason: v1beta2.AmbiguousNodeReason, Message: strings.Repeat("é", 1<<20)}}
	b.keeping.reservation = reuse.Reservation{Message: strings.Repeat("é", 1<<20)}
	b.run()
	if c := b.condition(v1beta2.AssociateMetal3MachineMetaDataCondition); c.Reason != v1beta2.AmbiguousNodeReason || len(c.Message) > maxMessage || !utf8.ValidString(c.Message) {
		t.Errorf("the message has %d bytes, reason %s", len(c.Message), c.Reason)
	}
	for len(b.events.Events) > 0 {
		<-b.events.Events
	}
	b.remove()
	_, _ = b.pass()
	if e := <-b.events.Events; !strings.Contains(e, eventNodeReuseSkipped) || len(e) > maxMessage+100 {
		t.Errorf("the event has %d bytes", len(e))
	}
}
