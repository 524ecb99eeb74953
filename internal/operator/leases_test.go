package operator

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestALeaseIsHeldUntilItsHolderGivesItUpOrFallsSilent(t *testing.T) {
	renewed := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	lease := func(change func(*coordinationv1.LeaseSpec)) *coordinationv1.Lease {
		holder, seconds, at := "pod-1_uid", int32(15), metav1.NewMicroTime(renewed)
		l := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: upstreamLease},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at},
		}
		if change != nil {
			change(&l.Spec)
		}
		return l
	}
	empty := ""
	for name, tt := range map[string]struct {
		lease *coordinationv1.Lease
		after time.Duration
		want  bool
	}{
		"just renewed":     {lease(nil), 0, true},
		"nearly over":      {lease(nil), 14 * time.Second, true},
		"over":             {lease(nil), 15 * time.Second, false},
		"given up":         {lease(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = &empty }), 0, false},
		"never held":       {lease(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = nil }), 0, false},
		"never renewed":    {lease(func(s *coordinationv1.LeaseSpec) { s.RenewTime = nil }), 0, false},
		"without duration": {lease(func(s *coordinationv1.LeaseSpec) { s.LeaseDurationSeconds = nil }), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, got := held(tt.lease, renewed.Add(tt.after))
			if got != tt.want {
				t.Errorf("held = %v, want %v", got, tt.want)
			}
			if want := "lease metal3/baremetal-operator is held by pod-1_uid until 2026-03-01T12:00:15Z"; got && l.String() != want {
				t.Errorf("described as %q, want %q", l, want)
			}
		})
	}
}

func TestTimesOfLeasesThatCannotWorkAreRefused(t *testing.T) {
	for _, tt := range []struct {
		lease, renew, retry time.Duration
		want                string // empty: they work
	}{
		{0, 0, 0, ""},
		{60 * time.Second, 40 * time.Second, 5 * time.Second, ""},
		{10 * time.Second, 10 * time.Second, 2 * time.Second, "the duration of leader leases, 10s, has to be longer than the deadline for their renewal, 10s"},
		{5 * time.Second, 0, 0, "the duration of leader leases, 5s, has to be longer than the deadline for their renewal, 10s"},
		{15 * time.Second, 2 * time.Second, 2 * time.Second, "the deadline for the renewal of leader leases, 2s, has to be longer than 1.2 times the time between two tries, 2s"},
		{500 * time.Millisecond, 300 * time.Millisecond, 100 * time.Millisecond, "the duration of leader leases, 500ms, has to be at least a second"},
	} {
		o := Options{LeaseDuration: tt.lease, RenewDeadline: tt.renew, RetryPeriod: tt.retry}
		o.setLeaseDefaults()
		err := o.checkLeases()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %s, %s: error = %v, want %q", tt.lease, tt.renew, tt.retry, err, tt.want)
		}
	}
}

func TestAStopWhileLookingForAnotherOperatorIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	o := &Operator{config: &rest.Config{Host: server.URL}}
	if err := o.checkUpstream(ctx); err != nil {
		t.Errorf("error = %v", err)
	}
}

func TestAnAPIServerThatFailsIsAnErrorThatNamesTheLease(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	o := &Operator{config: &rest.Config{Host: server.URL}}
	if err := o.checkUpstream(t.Context()); err == nil || !strings.Contains(err.Error(), "look for lease baremetal-operator of another operator") {
		t.Errorf("error = %v", err)
	}
}
