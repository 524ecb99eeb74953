package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

const eventsURL = "https://events/redfish/"

// subscription creates a subscription to the events of a host.
func (b *bench) subscription(name, host, headers string) *v1alpha1.BMCEventSubscription {
	b.Helper()
	s := &v1alpha1.BMCEventSubscription{ObjectMeta: b.meta(name), Spec: v1alpha1.BMCEventSubscriptionSpec{
		HostName: host, Destination: eventsURL, Context: "rack1",
	}}
	if headers != "" {
		s.Spec.HTTPHeadersRef = &corev1.SecretReference{Name: headers}
	}
	b.create(s)
	return s
}

// subscribed waits until the status of a subscription is as wanted.
func (b *bench) subscribed(name, what string, is func(v1alpha1.BMCEventSubscriptionStatus) bool) *v1alpha1.BMCEventSubscription {
	b.Helper()
	s := &v1alpha1.BMCEventSubscription{}
	b.eventually("subscription "+name+" "+what, func() string {
		if err := b.client.Get(context.Background(), client.ObjectKey{Namespace: b.namespace, Name: name}, s); err != nil {
			return err.Error()
		}
		if is(s.Status) {
			return ""
		}
		return fmt.Sprintf("%+v", s.Status)
	})
	return s
}

func hasID(s v1alpha1.BMCEventSubscriptionStatus) bool {
	return s.SubscriptionID != "" && s.RequestedAt == nil && s.Error == ""
}

func says(text string) func(v1alpha1.BMCEventSubscriptionStatus) bool {
	return func(s v1alpha1.BMCEventSubscriptionStatus) bool {
		return s.SubscriptionID == "" && strings.Contains(s.Error, text)
	}
}

func TestSubscriptionIsMadeOnceAndEndsWithItsObject(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.create(&corev1.Secret{ObjectMeta: b.meta("headers"), StringData: map[string]string{"Authorization": "Bearer t"}})
	s := b.subscription("events", "web", "headers")
	b.subscribed("events", "without its host", says("There is no BareMetalHost web"))
	h := b.bmcHost("web", nil)
	b.inState("web", v1alpha1.StateAvailable)
	b.subscribed("events", "made", hasID)
	var sent []any
	for _, e := range b.engine.Effects(provisioner.NodeName(b.namespace, "web")) {
		if e.Verb == "subscribe" {
			sent = append(sent, e.Request)
		}
	}
	want := []any{provisioner.Subscription{Destination: eventsURL, Context: "rack1", Headers: []map[string]string{{"Authorization": "Bearer t"}}}}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("subscriptions differ (-want +got):\n%s", diff)
	}
	b.update(h, func() { h.Spec.Online = false })
	b.remove(s)
	b.isGone(s)
	if n, m := b.count("web", "subscribe"), b.count("web", "unsubscribe"); n != 1 || m != 1 {
		t.Errorf("subscribed %d times and unsubscribed %d times, want once each", n, m)
	}
}

func TestSubscriptionWhoseAnswerWasLostIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.bmcHost("web", nil)
	id := b.inState("web", v1alpha1.StateAvailable).Status.Provisioning.ID
	other := b.subscription("other", "web", "") // equal to the subscription whose answer gets lost
	b.subscribed("other", "made", hasID)
	s, made := b.lostAnswer(h, id)
	before := b.count("web", "subscribe")
	b.update(h, func() { h.Annotations = nil })
	if got := b.subscribed("events", "found", hasID); got.Status.SubscriptionID != made {
		t.Errorf("subscription ID = %q, want that of the lost answer, %q", got.Status.SubscriptionID, made)
	}
	if n := b.count("web", "subscribe") - before; n != 0 {
		t.Errorf("subscribed %d times more, want none", n)
	}
	b.remove(s)
	b.isGone(s)
	b.remove(other)
	b.isGone(other)
	if left, err := b.engine.Subscriptions(t.Context(), id); err != nil || len(left) != 0 {
		t.Errorf("the BMC has %+v, %v; want none", left, err)
	}
}

// lostAnswer creates a subscription while its host is paused, and leaves it as if the BMC's answer
// had been lost. It returns the BMC's ID of the subscription.
func (b *bench) lostAnswer(h *v1alpha1.BareMetalHost, id string) (*v1alpha1.BMCEventSubscription, string) {
	b.Helper()
	b.subscription("events", "web", "late-headers") // without the Secret for its headers, nothing is asked before the pause
	b.subscribed("events", "without headers", says("late-headers"))
	b.update(h, func() { h.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""} })
	s := b.subscribed("events", "of a paused host", says("paused"))
	b.create(&corev1.Secret{ObjectMeta: b.meta("late-headers"), StringData: map[string]string{"Authorization": "Bearer t"}})
	made, err := b.engine.Subscribe(b.Context(), id, provisioner.Subscription{Destination: eventsURL, Context: "rack1"})
	if err != nil {
		b.Fatal(err)
	}
	before := s.DeepCopy()
	now := metav1.Now()
	s.Status.RequestedAt = &now
	if err := b.client.Status().Patch(b.Context(), s, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
	return s, made
}

// endless is an engine whose BMCs do not end subscriptions.
type endless struct{ provisioner.Engine }

func (endless) Unsubscribe(context.Context, string, string) error {
	return fmt.Errorf("%w: the BMC does not end it", provisioner.ErrInvalid)
}

func TestSubscriptionStaysUntilTheBMCHasEndedIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) { o.Engine = endless{o.Engine} })
	h := b.bmcHost("web", nil)
	s, _ := b.lostAnswer(h, b.inState("web", v1alpha1.StateAvailable).Status.Provisioning.ID)
	b.remove(s)
	b.update(h, func() { h.Annotations = nil })
	b.subscribed("events", "not ended", says("the BMC does not end it"))
	b.update(h, func() { h.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""} })
	b.subscribed("events", "still there", says("paused"))
	b.update(h, func() { h.Annotations = nil })
	b.subscribed("events", "still not ended", says("the BMC does not end it"))
}

func TestSubscriptionOfAHostThatCannotBeReached(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.bmcHost("web", nil)
	b.inState("web", v1alpha1.StateAvailable)
	one, two := b.subscription("one", "web", ""), b.subscription("two", "web", "")
	b.subscription("three", "web", "absent")
	b.subscribed("one", "made", hasID)
	b.subscribed("two", "made", hasID)
	b.subscribed("three", "without its Secret", says("Secret absent does not exist"))
	b.update(h, func() { h.Annotations = map[string]string{v1alpha1.DetachedAnnotation: ""} })
	b.eventually("detached", func() string { return b.host("web").Status.Provisioning.ID })
	b.remove(one)
	b.isGone(one)
	b.remove(h)
	b.gone("web")
	b.remove(two)
	b.isGone(two)
	if n := b.count("web", "unsubscribe"); n != 0 {
		t.Errorf("%d subscriptions were ended through a node that is gone", n)
	}
}
