package subscription

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestDecide(t *testing.T) {
	now := metav1.Now()
	type object = v1alpha1.BMCEventSubscription
	made := func(s *object) { s.Status.SubscriptionID = "1" }
	asked := func(s *object) { s.Status.RequestedAt = &now }
	deleted := func(s *object) { s.DeletionTimestamp = &now }
	moved := func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.DeletedForMoveAnnotation: ""}
	}
	paused := func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""} }
	detached := func(h *v1alpha1.BareMetalHost) {
		h.Status.OperationalStatus = v1alpha1.OperationalStatusDetached
		h.Status.Provisioning.ID = ""
	}
	registering := func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = v1alpha1.StateRegistering }
	goes := func(h *v1alpha1.BareMetalHost) { h.DeletionTimestamp = &now }
	for _, tt := range []struct {
		name   string
		object []func(*object)
		host   []func(*v1alpha1.BareMetalHost)
		noHost bool
		want   step
	}{
		{name: "new", want: subscribe},
		{name: "asked for, without an answer", object: []func(*object){asked}, want: subscribe},
		{name: "made", object: []func(*object){made}, want: stay},
		{name: "made, host gone", object: []func(*object){made}, noHost: true, want: stay},
		{name: "new, no host", noHost: true, want: wait},
		{name: "new, host paused", host: []func(*v1alpha1.BareMetalHost){paused}, want: wait},
		{name: "new, host detached", host: []func(*v1alpha1.BareMetalHost){detached}, want: wait},
		{name: "new, host not registered", host: []func(*v1alpha1.BareMetalHost){registering}, want: wait},
		{name: "new, host without BMC", host: []func(*v1alpha1.BareMetalHost){func(h *v1alpha1.BareMetalHost) { h.Spec.BMC = v1alpha1.BMCDetails{} }}, want: wait},
		{name: "deleted", object: []func(*object){made, deleted}, want: unsubscribe},
		{name: "deleted, asked for without an answer", object: []func(*object){asked, deleted}, want: unsubscribe},
		{name: "deleted before it was asked for", object: []func(*object){deleted}, want: release},
		{name: "deleted before it was asked for, host paused", object: []func(*object){deleted}, host: []func(*v1alpha1.BareMetalHost){paused}, want: release},
		{name: "deleted, host gone", object: []func(*object){made, deleted}, noHost: true, want: release},
		{name: "deleted, host moved to another cluster", object: []func(*object){made, deleted}, host: []func(*v1alpha1.BareMetalHost){moved}, want: wait},
		{name: "deleted, host paused", object: []func(*object){made, deleted}, host: []func(*v1alpha1.BareMetalHost){paused}, want: wait},
		{name: "deleted, host detached", object: []func(*object){made, deleted}, host: []func(*v1alpha1.BareMetalHost){detached}, want: release},
		{name: "deleted, host registers again", object: []func(*object){made, deleted}, host: []func(*v1alpha1.BareMetalHost){registering}, want: wait},
		{name: "deleted, host with a node is deleted", object: []func(*object){made, deleted}, host: []func(*v1alpha1.BareMetalHost){goes}, want: unsubscribe},
		{name: "deleted, host without a node is deleted", object: []func(*object){made, deleted}, host: []func(*v1alpha1.BareMetalHost){goes, registering}, want: release},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &object{Spec: v1alpha1.BMCEventSubscriptionSpec{HostName: "web"}}
			for _, change := range tt.object {
				change(s)
			}
			h := &v1alpha1.BareMetalHost{Spec: v1alpha1.BareMetalHostSpec{BMC: v1alpha1.BMCDetails{Address: "redfish://192.0.2.1"}}}
			h.Status.Provisioning.ID, h.Status.Provisioning.State = "node", v1alpha1.StateAvailable
			for _, change := range tt.host {
				change(h)
			}
			if tt.noHost {
				h = nil
			}
			got, why := decide(s, h)
			if got != tt.want || (got == wait) != (why != "") {
				t.Errorf("decide = %v, %q; want %v", got, why, tt.want)
			}
		})
	}
}

func TestEachHeaderIsAnObject(t *testing.T) {
	got := headersOf(map[string][]byte{"X-Rack": []byte("7"), "Authorization": []byte("Bearer t")})
	if diff := cmp.Diff([]map[string]string{{"Authorization": "Bearer t"}, {"X-Rack": "7"}}, got); diff != "" {
		t.Errorf("headers differ (-want +got):\n%s", diff)
	}
}
