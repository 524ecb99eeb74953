package reuse

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// eachOwner has an owner of each kind: they differ in how they are found and read.
var eachOwner = []Owner{deployment, kubeadm, foreign}

func TestHostOfADeletedMachineIsReservedWhenItsOwnerWillNeedIt(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*world)
		want   Reason
		// silent says that the host is not reserved and that no event says so.
		silent bool
	}{
		"the same template, edited":                  {change: func(*world) {}},
		"a new template that wants reuse":            {change: func(w *world) { w.templates["old"].Spec.NodeReuse = nil; w.points("new") }},
		"a new template that does not":               {change: func(w *world) { w.points("off") }, silent: true},
		"the same template, edited back":             {change: func(w *world) { w.templates["old"].Spec.NodeReuse = new(false) }, silent: true},
		"the same template, field unset":             {change: func(w *world) { w.templates["old"].Spec.NodeReuse = nil }, silent: true},
		"new template vanished, old one wants reuse": {change: func(w *world) { w.points("gone") }},
		"new template vanished, old one does not":    {change: func(w *world) { w.points("gone"); w.templates["old"].Spec.NodeReuse = nil }, silent: true},
		"both templates vanished":                    {change: func(w *world) { w.points("gone"); delete(w.templates, "old") }, want: reasonTemplateMissing},
		"old template vanished":                      {change: func(w *world) { w.points("new"); delete(w.templates, "old") }},
		"scaled down":                                {change: func(w *world) { w.scale(2) }, want: reasonNotNeeded},
		"scaled down to nothing":                     {change: func(w *world) { w.scale(0) }, want: reasonNotNeeded},
		"surplus machine has a host already":         {change: func(w *world) { w.addMachine(3) }, want: reasonNotNeeded},
		"surplus machine is being deleted, too":      {change: func(w *world) { w.addMachine(3); w.delete(w.machines[3]) }},
		"another was deleted, its host is reserved":  {change: func(w *world) { w.reserve(1) }},
		"another was deleted, scaled down by one":    {change: func(w *world) { w.reserve(1); w.scale(2) }, want: reasonNotNeeded},
		"owner gone":                              {change: func(w *world) { w.owner = nil }, want: reasonOwnerMissing},
		"owner made again under the same name":    {change: func(w *world) { w.owner.SetUID("new") }, want: reasonOwnerMissing},
		"owner gone, no reuse":                    {change: func(w *world) { w.owner = nil; w.templates["old"].Spec.NodeReuse = nil }, silent: true},
		"owner in deletion":                       {change: func(w *world) { w.delete(w.owner) }, want: reasonOwnerDeleting},
		"owner paused":                            {change: func(w *world) { w.owner.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""}) }},
		"Cluster in deletion":                     {change: func(w *world) { w.delete(w.cluster) }, want: reasonClusterDeleting},
		"Cluster in deletion, no reuse":           {change: func(w *world) { w.delete(w.cluster); w.points("off") }, silent: true},
		"Cluster gone":                            {change: func(w *world) { w.cluster = nil }, want: reasonClusterMissing},
		"host unhealthy":                          {change: func(w *world) { annotated(v1alpha1.UnhealthyAnnotation, "")(w.hosts[0]) }, want: reasonHostUnhealthy},
		"host waits for a review":                 {change: func(w *world) { notReviewed(w.hosts[0]) }, want: reasonHostUnreviewed},
		"host has the image of its machine":       {change: func(w *world) { withImage(w.hosts[0]) }},
		"power of the host fails":                 {change: func(w *world) { w.hosts[0].Status.ErrorType = v1alpha1.ErrorPowerManagement }, want: reasonHostError},
		"machine stands alone":                    {change: func(w *world) { w.machines[0].OwnerReferences = nil }, want: reasonNoOwner},
		"machine stands alone, no reuse":          {change: func(w *world) { w.machines[0].OwnerReferences = nil; w.templates["old"].Spec.NodeReuse = nil }, silent: true},
		"machine stands alone, template vanished": {change: func(w *world) { w.machines[0].OwnerReferences = nil; delete(w.templates, "old") }, silent: true},
		"machine of something that is no control plane": {change: func(w *world) {
			w.machines[0].OwnerReferences[0].APIVersion = "example.com/v1"
			w.machines[0].Labels = nil
		}, want: reasonNoOwner},
		"machine of a MachinePool": {change: func(w *world) {
			w.machines[0].OwnerReferences[0].APIVersion, w.machines[0].OwnerReferences[0].Kind = clusterv1.GroupVersion.String(), "MachinePool"
		}, want: reasonNoOwner},
	} {
		t.Run(name, func(t *testing.T) {
			for _, owner := range eachOwner {
				t.Run(owner.Kind, func(t *testing.T) {
					w := newWorld(owner)
					w.delete(w.machines[0])
					w.delete(w.metal3[0])
					tt.change(w)
					c := w.client(t, interceptor.Funcs{})
					got, err := Reuse{Client: c, Live: c, Now: clock}.Reserve(t.Context(), w.machines[0], w.metal3[0], w.hosts[0])
					if err != nil {
						t.Fatal(err)
					}
					if got.Refused != tt.want || (got.Message == "") != (tt.want == "") {
						t.Errorf("refused for %q (%q), want %q", got.Refused, got.Message, tt.want)
					}
					if want := tt.want == "" && !tt.silent; got.Reserves() != want {
						t.Fatalf("reserves: %t, want %t", got.Reserves(), want)
					}
					if got.Reserves() && (got.Owner != owner || !got.At.Equal(clock())) {
						t.Errorf("reserved for %+v at %s, want %+v at %s", got.Owner, got.At, owner, clock())
					}
				})
			}
		})
	}
}

func TestMachinesWhoseOwnerCannotBeReadGoOn(t *testing.T) {
	unserved := Owner{Kind: "UnservedControlPlane", APIVersion: "unserved.example.com/v1", Namespace: "edge", Name: "one", UID: "unserved"}
	forbidden := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if _, controlPlane := obj.(*unstructured.Unstructured); controlPlane {
			return apierrors.NewForbidden(schema.GroupResource{Group: foreign.group(), Resource: "othercontrolplanes"}, key.Name, errors.New("no role"))
		}
		return c.Get(ctx, key, obj, opts...)
	}}
	for owner, hooks := range map[Owner]interceptor.Funcs{unserved: {}, foreign: forbidden} {
		for name, tt := range map[string]struct {
			change func(*world)
			want   Reason
		}{
			"template wants reuse":                      {func(*world) {}, reasonOwnerUnreadable},
			"template does not":                         {func(w *world) { w.templates["old"].Spec.NodeReuse = nil }, ""},
			"template vanished":                         {func(w *world) { delete(w.templates, "old") }, reasonOwnerUnreadable},
			"Cluster in deletion, template wants reuse": {func(w *world) { w.delete(w.cluster) }, reasonClusterDeleting},
			"Cluster in deletion, template does not":    {func(w *world) { w.delete(w.cluster); w.templates["old"].Spec.NodeReuse = nil }, ""},
		} {
			t.Run(owner.Kind+", "+name, func(t *testing.T) {
				w := newWorld(owner)
				w.delete(w.machines[0])
				tt.change(w)
				if owner == unserved {
					w.owner = nil // nobody can have one
				}
				c := w.client(t, hooks)
				x := Reuse{Client: c, Live: c, Wait: time.Hour, Now: clock}
				got, err := x.Reserve(t.Context(), w.machines[0], w.metal3[0], w.hosts[0])
				if err != nil || got.Reserves() || got.Refused != tt.want || (got.Message == "") != (tt.want == "") {
					t.Errorf("Reserve = %+v, %v, want it refused for %q", got, err, tt.want)
				}
				if _, err := x.Preference(t.Context(), w.machines[2], w.metal3[2], nil); err != nil {
					t.Errorf("a new machine gets no host: %v", err)
				}
			})
		}
	}
}

func TestMachinesOfAMachineSetAloneHaveNoOwner(t *testing.T) {
	for name, change := range map[string]func(*world){
		"no MachineDeployment":       func(w *world) { w.set.OwnerReferences = nil },
		"MachineSet gone":            func(w *world) { w.set = nil },
		"MachineSet of another UID":  func(w *world) { w.set.UID = "new" },
		"owned by something foreign": func(w *world) { w.set.OwnerReferences[0].APIVersion = "example.com/v1" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(deployment)
			change(w)
			c := w.client(t, interceptor.Funcs{})
			if owner, err := ownerOf(t.Context(), c, w.machines[0]); owner != nil || err != nil {
				t.Errorf("ownerOf = %v, %v, want none", owner, err)
			}
			x := Reuse{Client: c, Live: c, Now: clock}
			if got, err := x.Reserve(t.Context(), w.machines[0], w.metal3[0], w.hosts[0]); err != nil || got.Refused != reasonNoOwner {
				t.Errorf("Reserve = %+v, %v, want no reservation for lack of an owner", got, err)
			}
			got, err := x.Preference(t.Context(), w.machines[0], w.metal3[0], nil)
			if err != nil || got.Wanted || !strings.Contains(got.Skipped, "owns Machine edge/m0") {
				t.Errorf("Preference = %+v, %v, want one that says why reuse has no effect", got, err)
			}
		})
	}
}

func TestMachinesOfAnOwnerOfTheSameNameDoNotCount(t *testing.T) {
	w := newWorld(kubeadm)
	w.delete(w.machines[0])
	other := newWorld(deployment)
	other.addMachine(3)
	for i, machine := range other.machines {
		machine.Name, machine.Spec.InfrastructureRef.Name = "d"+machine.Name, "d"+machine.Name
		other.hosts[i].Name, other.hosts[i].Spec.ConsumerRef.Name = "d"+other.hosts[i].Name, machine.Name
		w.additional = append(w.additional, machine, other.hosts[i])
	}
	w.additional = append(w.additional, other.owner, other.set)
	c := w.client(t, interceptor.Funcs{})
	got, err := Reuse{Client: c, Live: c, Now: clock}.Reserve(t.Context(), w.machines[0], w.metal3[0], w.hosts[0])
	if err != nil || got.Owner != kubeadm {
		t.Errorf("Reserve = %+v, %v, want a reservation for the control plane", got, err)
	}
}

func TestHostIsNotGivenAwayForWhatTheCacheLacks(t *testing.T) {
	for name, stale := range map[string]func(*world){
		"template not edited yet": func(w *world) { w.templates["old"].Spec.NodeReuse = nil },
		"owner not there":         func(w *world) { w.owner = nil },
		"MachineSet not there":    func(w *world) { w.set = nil },
		"not scaled up yet":       func(w *world) { w.scale(2) },
	} {
		t.Run(name, func(t *testing.T) {
			now, before := newWorld(deployment), newWorld(deployment)
			now.delete(now.machines[0])
			before.delete(before.machines[0])
			stale(before)
			x := Reuse{Client: before.client(t, interceptor.Funcs{}), Live: now.client(t, interceptor.Funcs{}), Now: clock}
			got, err := x.Reserve(t.Context(), now.machines[0], now.metal3[0], now.hosts[0])
			if err != nil || got.Owner != deployment {
				t.Errorf("Reserve = %+v, %v, want a reservation", got, err)
			}
		})
	}
	w := newWorld(deployment)
	w.delete(w.machines[0])
	got, err := Reuse{Client: w.client(t, interceptor.Funcs{}), Live: unlisted(t, w), Now: clock}.Reserve(t.Context(), w.machines[0], w.metal3[0], w.hosts[0])
	if err != nil || !got.Reserves() {
		t.Errorf("Reserve = %+v, %v, want a reservation", got, err)
	}
}

func TestReservedHostIsCleanedAsTheTemplateSaysThatItsOwnerNamesNow(t *testing.T) {
	cleaned := func(template, mode string) func(*world) {
		return func(w *world) { w.templates[template].Spec.Template.Spec.AutomatedCleaningMode = mode }
	}
	named := func(template string, changes ...func(*world)) func(*world) {
		return func(w *world) {
			w.points(template)
			for _, change := range changes {
				change(w)
			}
		}
	}
	for name, tt := range map[string]struct {
		now  func(*world)
		want string
	}{
		"no template has a mode":    {named("new"), ""},
		"a new template":            {named("new", cleaned("new", "disabled")), "disabled"},
		"a new one beside the old":  {named("new", cleaned("new", "disabled"), cleaned("old", "metadata")), "disabled"},
		"a new one without a mode":  {named("new", cleaned("old", "disabled")), ""},
		"the same template, edited": {cleaned("old", "disabled"), "disabled"},
		"a new one that vanished":   {named("gone", cleaned("old", "disabled")), "disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, owner := range eachOwner {
				for _, stale := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, stale cache %v", owner.Kind, stale), func(t *testing.T) {
						before, now := newWorld(owner), newWorld(owner)
						before.delete(before.machines[0])
						now.delete(now.machines[0])
						tt.now(now)
						live := now.client(t, interceptor.Funcs{})
						cached := live
						if stale {
							cached = before.client(t, interceptor.Funcs{})
						}
						got, err := Reuse{Client: cached, Live: live, Now: clock}.Reserve(t.Context(), now.machines[0], now.metal3[0], now.hosts[0])
						if err != nil || !got.Reserves() || got.CleaningMode != tt.want {
							t.Errorf("Reserve = %+v, %v, want a reservation with the mode %q", got, err, tt.want)
						}
					})
				}
			}
		})
	}
}

func TestNewMachinePrefersHostsOfItsOwnerAndWaitsForThem(t *testing.T) {
	wants := func(p Preference) bool { return p.Wanted && !p.Waiting && p.Skipped == "" }
	waits := func(p Preference) bool { return p.Wanted && p.Waiting && p.WaitingFor != "" }
	neither := func(p Preference) bool { return !p.Wanted && !p.Waiting && p.Skipped == "" }
	for name, tt := range map[string]struct {
		change func(*world)
		wait   time.Duration
		want   func(Preference) bool
	}{
		"first machines":                         {change: func(*world) {}, want: wants},
		"made of a template without reuse":       {change: func(w *world) { w.templates["old"].Spec.NodeReuse = nil; w.points("new"); w.reserve(0) }, want: neither},
		"made of one with reuse, owner has none": {change: func(w *world) { w.points("off"); w.reserve(0) }, want: waits},
		"made of a vanished one, owner wants":    {change: func(w *world) { delete(w.templates, "old"); w.points("new"); w.reserve(0) }, want: waits},
		"made of a vanished one, owner does not": {change: func(w *world) { delete(w.templates, "old"); w.points("off"); w.reserve(0) }, want: neither},
		"all templates vanished":                 {change: func(w *world) { delete(w.templates, "old"); w.reserve(0) }, want: neither},
		"reserved host deprovisions":             {change: func(w *world) { w.reserve(0) }, want: waits},
		"reserved host is unhealthy":             {change: func(w *world) { w.reserve(0, annotated(v1alpha1.UnhealthyAnnotation, "")) }, want: wants},
		"reserved host waits for a review":       {change: func(w *world) { w.reserve(0, notReviewed) }, want: wants},
		"reserved host was given an image":       {change: func(w *world) { w.reserve(0, withImage) }, want: wants},
		"reserved host has an error":             {change: func(w *world) { w.reserve(0); w.hosts[0].Status.ErrorType = v1alpha1.ErrorProvisioning }, want: wants},
		"reserved host object is gone":           {change: func(w *world) { w.reserve(0); w.hosts[0] = host("x") }, want: wants},
		"host reserved for another owner":        {change: func(w *world) { w.reserve(0); reserve(w.hosts[0], withUID(w.ownerName(), "earlier"), start) }, want: wants},
		"host with the older label": {change: func(w *world) {
			w.reserve(0, consumedBy("cluster.x-k8s.io/v1beta1", "Cluster", "one", ""), annotated("metal3.io/reserved-at", ""))
		}, want: waits},
		"a machine in deletion holds a host":            {change: func(w *world) { w.delete(w.machines[0]) }, want: waits},
		"a machine in deletion holds an unhealthy host": {change: func(w *world) { w.delete(w.machines[0]); annotated(v1alpha1.UnhealthyAnnotation, "")(w.hosts[0]) }, want: wants},
		"a machine in deletion holds a detached host":   {change: func(w *world) { w.delete(w.machines[0]); annotated(v1alpha1.DetachedAnnotation, "")(w.hosts[0]) }, want: wants},
		"a machine in deletion has lost its host":       {change: func(w *world) { w.delete(w.machines[0]); w.hosts[0] = host("x") }, want: wants},
		"a machine in deletion never had a host":        {change: func(w *world) { w.delete(w.machines[0]); w.metal3[0].Annotations = nil }, want: wants},
		"a machine in deletion lost its infrastructure": {change: func(w *world) { w.delete(w.machines[0]); w.metal3[0].Name = "x" }, want: wants},
		"a machine of no owner is in deletion":          {change: func(w *world) { w.delete(w.machines[0]); w.machines[0].OwnerReferences = nil }, want: wants},
		"a machine in deletion, within the limit":       {change: func(w *world) { w.delete(w.machines[0]) }, wait: 2 * time.Hour, want: waits},
		"a machine in deletion, past the limit":         {change: func(w *world) { w.delete(w.machines[0]) }, wait: time.Hour, want: func(p Preference) bool { return p.Wanted && !p.Waiting && p.Skipped != "" }},
		"a machine in deletion, Cluster was paused since then": {change: func(w *world) {
			w.delete(w.machines[0])
			w.cluster.Status.Conditions = resumedAt(start.Add(time.Minute))
		}, wait: time.Hour, want: waits},
		"the machine stands alone": {change: func(w *world) { w.machines[2].OwnerReferences = nil; w.reserve(0) }, want: func(p Preference) bool { return !p.Wanted && p.Owner == nil && p.Skipped != "" }},
		"the machine stands alone, without reuse": {change: func(w *world) {
			w.machines[2].OwnerReferences, w.templates["old"].Spec.NodeReuse = nil, nil
		}, want: func(p Preference) bool { return p == Preference{} }},
	} {
		t.Run(name, func(t *testing.T) {
			for _, owner := range eachOwner {
				t.Run(owner.Kind, func(t *testing.T) {
					w := newWorld(owner)
					w.hosts[2] = host("x2") // m2 is the new machine
					delete(w.metal3[2].Annotations, "metal3.io/BareMetalHost")
					tt.change(w)
					c := w.client(t, interceptor.Funcs{})
					var hosts []v1alpha1.BareMetalHost
					for _, h := range w.hosts {
						hosts = append(hosts, *h)
					}
					got, err := Reuse{Client: c, Live: c, Wait: tt.wait, Now: clock}.Preference(t.Context(), w.machines[2], w.metal3[2], hosts)
					if err != nil {
						t.Fatal(err)
					}
					if !tt.want(got) {
						t.Errorf("Preference = %+v", got)
					}
					if got.Wanted && *got.Owner != owner {
						t.Errorf("prefers hosts of %+v, want %+v", *got.Owner, owner)
					}
				})
			}
		})
	}
}

func TestNewMachineAsksTheAPIServerBeforeItDoesWithoutAHostOfItsOwner(t *testing.T) {
	for name, tt := range map[string]struct{ stale, now func(*world) }{
		"machine not in deletion yet": {func(*world) {}, func(w *world) { w.delete(w.machines[0]) }},
		"host not reserved yet":       {func(*world) {}, func(w *world) { w.reserve(0) }},
		"template not edited yet":     {func(w *world) { w.templates["old"].Spec.NodeReuse = nil }, func(w *world) { w.reserve(0) }},
		"template not there yet":      {func(w *world) { delete(w.templates, "old") }, func(w *world) { w.reserve(0) }},
		"MachineSet not there yet":    {func(w *world) { w.set = nil }, func(w *world) { w.reserve(0) }},
	} {
		t.Run(name, func(t *testing.T) {
			before, now := newWorld(deployment), newWorld(deployment)
			tt.stale(before)
			tt.now(now)
			x := Reuse{Client: before.client(t, interceptor.Funcs{}), Live: now.client(t, interceptor.Funcs{}), Now: clock}
			got, err := x.Preference(t.Context(), now.machines[2], now.metal3[2], nil)
			if err != nil || !got.Waiting {
				t.Errorf("Preference = %+v, %v, want to wait", got, err)
			}
		})
	}
	w := newWorld(deployment)
	w.reserve(0)
	got, err := Reuse{Client: w.client(t, interceptor.Funcs{}), Live: unused(t, w), Now: clock}.Preference(t.Context(), w.machines[2], w.metal3[2], []v1alpha1.BareMetalHost{*w.hosts[0]})
	if err != nil || !got.Waiting {
		t.Errorf("Preference = %+v, %v, want to wait", got, err)
	}
}

func TestControlPlaneIsReadByItsContract(t *testing.T) {
	condition := func(status string) []any {
		return []any{map[string]any{"type": "Paused", "status": status, "reason": "x", "lastTransitionTime": start.Format(time.RFC3339)}}
	}
	for name, tt := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   func(*ownerState) bool
	}{
		"no replicas": {func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "replicas") }, func(s *ownerState) bool { return s.replicas == 1 }},
		"resumed": {func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(u.Object, condition("False"), "status", "conditions")
		}, func(s *ownerState) bool { return s.resumed.Equal(start) }},
		"resumed, of the older contract": {func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(u.Object, condition("False"), "status", "v1beta2", "conditions")
		}, func(s *ownerState) bool { return s.resumed.Equal(start) }},
		"paused in its conditions": {func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(u.Object, condition("True"), "status", "conditions")
		}, func(s *ownerState) bool { return s.resumed.IsZero() && !s.paused }},
		"paused": {func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
		}, func(s *ownerState) bool { return s.paused }},
		"conditions of another shape": {func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "fine", "status", "conditions")
		}, func(s *ownerState) bool { return s.resumed.IsZero() }},
		"without infrastructure": {func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec") }, func(s *ownerState) bool { return s.infrastructure.Name == "" }},
	} {
		u := newControlPlane(kubeadm)
		tt.change(u)
		if s := controlPlane(u); !tt.want(s) || s.Owner != kubeadm || s.clusterName != "one" {
			t.Errorf("%s: read as %+v", name, s)
		}
	}
	d := newDeployment(deployment)
	d.Spec.Paused, d.Spec.Replicas, d.Status.Conditions = new(true), nil, resumedAt(start)
	if s := machineDeployment(d); !s.paused || s.replicas != 1 || !s.resumed.Equal(start) || s.Owner != deployment {
		t.Errorf("MachineDeployment is read as %+v", s)
	}
}
