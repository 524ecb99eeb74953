package data

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

func TestClaimsAndTemplatesWithoutTheLabelThatTheFilterWantsAreLeftAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		template, claim string
		made            int
	}{
		"both have it":      {"blue", "blue", 1},
		"only the template": {"blue", "", 0},
		"only the claim":    {"", "blue", 0},
		"another value":     {"red", "red", 0},
	} {
		t.Run(name, func(t *testing.T) {
			template := &v1beta2.Metal3DataTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "t", Labels: map[string]string{clusterv1.WatchLabel: tt.template}}}
			claim, _ := newClaimed()
			claim.Finalizers, claim.Labels, claim.Spec.Template.Name = nil, map[string]string{clusterv1.WatchLabel: tt.claim}, "t"
			api := newFake(t, template, claim)
			r := newTemplateReconciler(Config{Client: api, Live: api, Recorder: events.NewFakeRecorder(10), Now: time.Now, Filter: "blue"})
			for range 3 {
				if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(template)}); err != nil {
					t.Fatal(err)
				}
			}
			var all v1beta2.Metal3DataList
			if err := api.List(t.Context(), &all); err != nil {
				t.Fatal(err)
			}
			if len(all.Items) != tt.made {
				t.Fatalf("%d Metal3Data were made, want %d", len(all.Items), tt.made)
			}
			for _, d := range all.Items {
				if d.Labels[clusterv1.WatchLabel] != "blue" {
					t.Errorf("labels of the data are %v, want that of the claim among them", d.Labels)
				}
			}
		})
	}
}

func TestDataWithoutTheLabelThatTheFilterWantsIsLeftAlone(t *testing.T) {
	for label, want := range map[string]bool{"": false, "red": false, "blue": true} {
		claim, d := newClaimed()
		d.Labels = map[string]string{clusterv1.WatchLabel: label}
		api := newFake(t, claim, d)
		r := newReconciler(Config{Client: api, Live: api, Recorder: events.NewFakeRecorder(10), Now: time.Now, Filter: "blue"})
		key := client.ObjectKeyFromObject(d)
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		if err := api.Get(t.Context(), key, d); err != nil {
			t.Fatal(err)
		}
		if worked := d.Status.ErrorMessage != nil; worked != want {
			t.Errorf("label %q: worked on %v, want %v", label, worked, want)
		}
	}
}

func TestDataFollowsTheLabelOfItsClaim(t *testing.T) {
	for name, tt := range map[string]struct {
		claim    string // its label
		change   func(*v1beta2.Metal3DataClaim, *v1beta2.Metal3Data)
		filtered bool // the controller has a filter
		want     string
	}{
		"another value":             {claim: "blue", filtered: true, want: "blue"},
		"another value, no filter":  {claim: "blue", want: "blue"},
		"value of another operator": {claim: "green", filtered: true, want: "red"},
		"claim of other data": {claim: "blue", filtered: true, want: "red", change: func(_ *v1beta2.Metal3DataClaim, d *v1beta2.Metal3Data) {
			d.OwnerReferences[0].UID = "other"
		}},
		"data that is deleted": {claim: "blue", filtered: true, want: "blue", change: func(_ *v1beta2.Metal3DataClaim, d *v1beta2.Metal3Data) {
			d.Finalizers, d.DeletionTimestamp = []string{"example.com/keep"}, &metav1.Time{Time: time.Unix(1, 0)}
		}},
		"paused data": {claim: "blue", filtered: true, want: "red", change: func(_ *v1beta2.Metal3DataClaim, d *v1beta2.Metal3Data) {
			d.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}},
		"paused claim": {claim: "blue", filtered: true, want: "red", change: func(c *v1beta2.Metal3DataClaim, _ *v1beta2.Metal3Data) {
			c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			claim, d := newClaimed()
			claim.UID, claim.Labels = "claim", map[string]string{clusterv1.WatchLabel: tt.claim}
			d.Labels = map[string]string{clusterv1.WatchLabel: "red"}
			d.OwnerReferences = []metav1.OwnerReference{ownerReference(claim, claimKind)}
			if tt.change != nil {
				tt.change(claim, d)
			}
			api := newFake(t, claim, d)
			r := newReconciler(Config{Client: api, Live: api, Recorder: events.NewFakeRecorder(10), Now: time.Now})
			if tt.filtered {
				r.Filter = "blue"
			}
			key := client.ObjectKeyFromObject(d)
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			if err := api.Get(t.Context(), key, d); err != nil {
				t.Fatal(err)
			}
			if got := d.Labels[clusterv1.WatchLabel]; got != tt.want {
				t.Errorf("the data has the label %q, want %q", got, tt.want)
			}
		})
	}
}
