package machine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
	"github.com/ingot-metal/ingot/internal/cluster/workload"
)

func TestHostIsDeployedOnlyOnce(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	edit(b, b.host("a"), func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	b.run()
	if isSpecified(b.host("a")) {
		t.Error("the host is deployed again with the data of its first start")
	}
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.NotReadyReason, `in state "available"`)
	if m := b.machine(); !*m.Status.Initialization.Provisioned {
		t.Error("provisioned became false")
	}
}

func TestReservedHostsAreTakenFirstAndWaitedFor(t *testing.T) {
	b := newMachineBench(t, newHost("a"), newHost("b"), newHost("kept", reservedFor(owner, began), inState(v1alpha1.StateDeprovisioning)))
	b.keeping.preference = reuse.Preference{Owner: &owner, Wanted: true, Waiting: true, WaitingFor: "Host kept is deprovisioning."}
	b.passes()
	b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.WaitingForReservedHostReason, "Host kept is deprovisioning.")
	report(b, b.host("kept"), inState(v1alpha1.StateAvailable))
	b.passes()
	h := b.held()
	if h == nil || h.Name != "kept" || h.Labels[v1beta2.NodeReuseLabel] != "" || h.Annotations[v1beta2.ReservedAtAnnotation] != "" {
		t.Fatalf("host %+v, want the reserved one without its reservation", h)
	}
	b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionTrue, v1beta2.AssociateBareMetalHostViaNodeReuseSuccessReason, "")
}

func TestReservedHostIsNotTakenWithoutReuse(t *testing.T) {
	b := newMachineBench(t, newHost("kept", reservedFor(owner, began)))
	b.keeping.preference = reuse.Preference{Owner: &owner}
	b.passes()
	b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.NoMatchingHostReason, "1 reserved for other owners")
}

func TestSkippedReuseIsTold(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.keeping.preference = reuse.Preference{Skipped: "Machine m-1 has no owner"}
	b.passes()
	b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionTrue, v1beta2.AssociateBareMetalHostSuccessReason, "holds host metal/a. Machine m-1 has no owner.")
	if b.held() == nil || !b.told(eventNodeReuseSkipped) {
		t.Error("the machine has no host, or there is no event")
	}
}

func TestHowAHostWasChosenIsSaidWhenTheOperatorEndedAfterAnyWrite(t *testing.T) {
	for name, tt := range map[string]struct {
		host         *v1alpha1.BareMetalHost
		preference   reuse.Preference
		reason, part string
	}{
		"without an owner": {
			newHost("a"),
			reuse.Preference{Skipped: "Machine m-1 has no owner"},
			v1beta2.AssociateBareMetalHostSuccessReason, "holds host metal/a. Machine m-1 has no owner.",
		},
		"a reserved host": {
			newHost("a", reservedFor(owner, began)),
			reuse.Preference{Owner: &owner, Wanted: true},
			v1beta2.AssociateBareMetalHostViaNodeReuseSuccessReason, "holds host metal/a.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			selected := false
			for n := 0; ; n++ {
				b := newMachineBench(t, tt.host.DeepCopy())
				b.keeping.preference = tt.preference
				left := b.ending(n)
				_, _ = b.pass()
				b.r.Client = b.api
				selected = selected || b.condition(v1beta2.AssociateBareMetalHostCondition).Reason == v1beta2.ReservedHostSelectedReason
				b.passes()
				b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionTrue, tt.reason, tt.part)
				if t.Failed() || *left > 0 {
					t.Logf("writes: %d", n)
					break
				}
			}
			if want := tt.preference.Wanted; selected != want {
				t.Errorf("the choice of a reserved host could be seen before its claim: %v, want %v", selected, want)
			}
		})
	}
}

func TestMachineOwnsNoHostThatCouldBeDeletedWithIt(t *testing.T) {
	owned := func(b *bench, host string, changes ...func(*v1alpha1.BareMetalHost)) {
		edit(b, b.host(host), func(h *v1alpha1.BareMetalHost) {
			h.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(b.machine(), v1beta2.GroupVersion.WithKind("Metal3Machine"))}
			for _, change := range changes {
				change(h)
			}
		})
	}
	for name, tt := range map[string]struct {
		then  func(*bench)
		host  string
		lives bool
	}{
		"it holds it":   {func(b *bench) { owned(b, "a"); b.passes() }, "a", true},
		"it is deleted": {func(b *bench) { owned(b, "a"); b.remove(); b.run() }, "a", false},
		"the host is kept for its owner": {func(b *bench) {
			owned(b, "a")
			b.keeping.reservation = reuse.Reservation{Owner: owner, At: began}
			b.remove()
			b.run()
		}, "a", false},
		"it has lost it":      {func(b *bench) { owned(b, "a", consumedBy("Metal3Machine", "thief")); b.remove(); b.run() }, "a", false},
		"it does not know it": {func(b *bench) { owned(b, "b"); b.remove(); b.run() }, "b", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			b.run()
			if err := b.api.Create(t.Context(), newHost("b")); err != nil {
				t.Fatal(err)
			}
			tt.then(b)
			if owners := b.host(tt.host).OwnerReferences; len(owners) > 0 || (b.machine() != nil) != tt.lives {
				t.Errorf("host %s has the owners %+v; the machine is there: %v", tt.host, owners, b.machine() != nil)
			}
		})
	}
}

func TestHostIsReservedTogetherWithTheRemovalOfItsImage(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	b.keeping.reservation = reuse.Reservation{Owner: owner, At: began}
	b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
			err := c.Patch(ctx, obj, patch, options...)
			if h := b.host("a"); reuse.ReservedFor(&owner, h) == isSpecified(h) || reuse.ReservedAt(h).IsZero() == reuse.IsReserved(h) {
				t.Errorf("between two writes host a is reserved %v, since %s, and has an image %v", reuse.IsReserved(h), reuse.ReservedAt(h), isSpecified(h))
			}
			return err
		},
	})
	b.remove()
	b.passes()
	h := b.host("a")
	if !reuse.ReservedFor(&owner, h) || isSpecified(h) || h.Labels[clusterv1.ClusterNameLabel] != "edge" {
		t.Fatalf("host %+v, want it reserved and without image", h)
	}
	if labels := b.secretLabels("a"); labels[clusterv1.ClusterNameLabel] != "" {
		t.Errorf("the Secret of the reserved host has labels %v, want none of the Cluster, which nobody would remove", labels)
	}
	if b.machine() == nil {
		t.Fatal("the machine went before its host was deprovisioned")
	}
	reserved := meta.IsStatusConditionTrue(b.machine().Status.Conditions, v1beta2.HostReservedCondition)
	b.run()
	if h := b.host("a"); b.machine() != nil || !reuse.ReservedFor(&owner, h) {
		t.Errorf("machine is there: %v; host %+v", b.machine() != nil, h)
	}
	if !reserved {
		t.Error("no condition says that the host is reserved")
	}
	if !b.told(eventHostReserved) {
		t.Error("there is no event")
	}
}

func TestHostThatWasNotReservedAtTheDeletionIsNotReservedLater(t *testing.T) {
	for name, tt := range map[string]struct {
		refusal reuse.Reservation
		reason  string
	}{
		"reuse not wanted": {reuse.Reservation{}, v1beta2.HostReuseNotWantedReason},
		"no owner":         {reuse.Reservation{Refused: "NoOwner", Message: "Machine m-1 has no owner"}, "NoOwner"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			b.run()
			b.keeping.reservation = tt.refusal
			b.remove()
			b.passes()
			b.wantCondition(v1beta2.HostReservedCondition, metav1.ConditionFalse, tt.reason, tt.refusal.Message)
			b.keeping.reservation = reuse.Reservation{Owner: owner, At: began} // the template wants it now
			b.passes()
			b.hostsWork()
			edit(b, b.host("a"), func(h *v1alpha1.BareMetalHost) { h.Spec.Online = true })
			b.passes()
			if reuse.IsReserved(b.host("a")) {
				t.Error("the host is reserved after all")
			}
			b.run()
			b.isFreed("a")
			if got := b.told(eventNodeReuseSkipped); got != (tt.refusal.Message != "") {
				t.Errorf("there is an event: %v", got)
			}
		})
	}
}

func TestRefusedReservationIsStoredBeforeTheHostIsChanged(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	b.remove()
	b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, host := obj.(*v1alpha1.BareMetalHost); host {
				b.wantCondition(v1beta2.HostReservedCondition, metav1.ConditionFalse, v1beta2.HostReuseNotWantedReason, "")
			}
			return c.Patch(ctx, obj, patch, options...)
		},
	})
	b.run()
	b.isFreed("a")
}

func TestMachineWaitsForAHostThatIsFreedWhileItDeprovisions(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	b.keeping.reservation = reuse.Reservation{Owner: owner, At: began}
	b.remove()
	b.passes()
	b.hostsWork()
	edit(b, b.host("a"), free) // its owner wants no reuse any more
	b.passes()
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.DeletingReason, `host metal/a, which is in state "deprovisioning"`)
	b.hostsWork()
	b.passes()
	b.isFreed("a")
}

func TestSelectorThatCannotMatchIsExplained(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) {
		m.Spec.HostSelector = &v1beta2.HostSelector{MatchExpressions: []v1beta2.HostSelectorRequirement{{Key: "rack", Operator: "Near"}}}
	})
	b.passes()
	b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.AssociateBareMetalHostFailedReason, "spec.hostSelector cannot be used")
}

func TestLostAnnotationIsWrittenAgain(t *testing.T) {
	b := newMachineBench(t, newHost("a"), newHost("b"))
	b.run()
	name := b.held().Name
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { delete(m.Annotations, v1beta2.HostAnnotation) })
	b.passes()
	if got := b.machine().Annotations[v1beta2.HostAnnotation]; got != namespace+"/"+name {
		t.Errorf("the machine names host %q, want %q", got, name)
	}
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { delete(m.Annotations, v1beta2.HostAnnotation) })
	b.remove()
	b.run()
	b.isFreed(name)
}

func TestIdleMachineIsNotWritten(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	machine, host := b.machine().ResourceVersion, b.host("a").ResourceVersion
	b.passes()
	if b.machine().ResourceVersion != machine || b.host("a").ResourceVersion != host {
		t.Error("a pass without a reason wrote something")
	}
}

func TestNodeWithAnotherProviderIDGivesItToTheMachine(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.r.Nodes = nodes{workload.Result{Reason: v1beta2.AssociateMetal3MachineMetaDataSuccessReason, ProviderID: "metal3://metal/a/m-1-old"}}
	b.run()
	if got := b.machine().Spec.ProviderID; got != "metal3://metal/a/m-1-old" {
		t.Errorf("provider ID %q, want that of the Node", got)
	}
}

// failing cannot change the Node.
type failing struct{ nodes }

func (f failing) Sync(context.Context, *clusterv1.Cluster, *clusterv1.Machine, *v1beta2.Metal3Machine, *v1alpha1.BareMetalHost, *v1beta2.Metal3Cluster) (workload.Result, error) {
	return f.result, errTest
}

func TestNodeThatCannotBeChangedIsShownAndTheMachineIsReady(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.r.Nodes = failing{nodes{workload.Result{Reason: v1beta2.AssociateMetal3MachineMetaDataFailedReason, Message: "Node a cannot be changed."}}}
	b.run()
	if _, err := b.pass(); !errors.Is(err, errTest) {
		t.Errorf("error %v, want the one of the Node, so that it is tried again", err)
	}
	b.wantCondition(v1beta2.AssociateMetal3MachineMetaDataCondition, metav1.ConditionFalse, v1beta2.AssociateMetal3MachineMetaDataFailedReason, "Node a cannot be changed.")
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
}

func TestAddressesAreReadFromTheHardwareDataOfAHostWithoutDetails(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	data := &v1alpha1.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
	data.Spec.HardwareDetails = &v1alpha1.HardwareDetails{NICs: []v1alpha1.NIC{{IP: "192.0.2.7"}}}
	if err := b.api.Create(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	b.run()
	if all := b.machine().Status.Addresses; len(all) != 1 || all[0].Address != "192.0.2.7" {
		t.Errorf("addresses %+v, want that of the HardwareData", all)
	}
}

func TestNodeIsNotInLineWhileTheHostDoesNotRun(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	b.wantCondition(v1beta2.AssociateMetal3MachineMetaDataCondition, metav1.ConditionTrue, v1beta2.AssociateMetal3MachineMetaDataSuccessReason, "")
	edit(b, b.host("a"), func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false })
	b.passes()
	b.wantCondition(v1beta2.AssociateMetal3MachineMetaDataCondition, metav1.ConditionFalse, v1beta2.WaitingForNodeReason, "its spec.online is false")
	edit(b, b.host("a"), online)
	b.passes()
	b.wantCondition(v1beta2.AssociateMetal3MachineMetaDataCondition, metav1.ConditionTrue, v1beta2.AssociateMetal3MachineMetaDataSuccessReason, "")
	edit(b, b.host("a"), consumedBy("Metal3Machine", "thief"))
	b.passes()
	b.wantCondition(v1beta2.AssociateMetal3MachineMetaDataCondition, metav1.ConditionFalse, v1beta2.WaitingForNodeReason, "has the consumer Metal3Machine thief")
}

func TestRequestsNameTheMachinesThatAHostMattersTo(t *testing.T) {
	holder, chooser, waiter := newMachine("holder"), newMachine("chooser"), newMachine("waiter")
	chooser.Annotations = map[string]string{v1beta2.HostAnnotation: "metal/h"}
	b := newBench(t, holder, chooser, waiter)
	holder.Annotations = map[string]string{v1beta2.HostAnnotation: "metal/other"}
	if err := b.api.Update(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		host *v1alpha1.BareMetalHost
		want []string
	}{
		"free":             {newHost("h"), []string{"chooser", "waiter"}},
		"not free":         {newHost("h", inState(v1alpha1.StateInspecting)), []string{"chooser"}},
		"reserved":         {newHost("h", reservedFor(owner, began), inState(v1alpha1.StateDeprovisioning)), []string{"chooser", "waiter"}},
		"held":             {newHost("other", consumedBy("Metal3Machine", "holder")), []string{"holder"}},
		"of another kind ": {newHost("other", consumedBy("Server", "holder")), []string{"holder", "waiter"}},
	} {
		queue := &recording{}
		b.r.enqueueConcerned(t.Context(), tt.host, queue)
		slices.Sort(queue.names)
		if !slices.Equal(queue.names, tt.want) {
			t.Errorf("%s: requests for %v, want %v", name, queue.names, tt.want)
		}
	}
}

// recording is a queue that keeps the names of requests.
type recording struct {
	requests

	names []string
}

func (q *recording) Add(r ctrl.Request) { q.names = append(q.names, r.Name) }
