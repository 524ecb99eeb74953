package machine

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestMachineWaitsForItsData(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.DataTemplate = &v1beta2.ObjectReference{Name: "data"} })
	b.passes()
	b.wantCondition(v1beta2.Metal3DataReadyCondition, metav1.ConditionFalse, v1beta2.WaitingForMetal3DataReason, "Metal3DataClaim m-1")
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.NotReadyReason, "Metal3DataClaim m-1")
	if isSpecified(b.held()) {
		t.Error("the host is deployed without its data")
	}
	var claim v1beta2.Metal3DataClaim
	if err := b.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "m-1"}, &claim); err != nil {
		t.Fatal(err)
	}
	if claim.Spec.Template.Name != "data" || !metav1.IsControlledBy(&claim, b.machine()) || claim.Labels[clusterv1.ClusterNameLabel] != "edge" {
		t.Errorf("claim is %+v", claim)
	}
	b.rendered("m-1")
	b.passes()
	b.wantCondition(v1beta2.Metal3DataReadyCondition, metav1.ConditionTrue, v1beta2.Metal3DataSecretsReadyReason, "")
	if m := b.machine(); m.Status.RenderedData == nil || m.Status.RenderedData.Name != "data-0" || m.Status.MetaData.Name != "m-1-metadata" {
		t.Errorf("status is %+v", m.Status)
	}
	b.remove()
	b.run()
	if err := b.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "m-1"}, &claim); !apierrors.IsNotFound(err) {
		t.Errorf("the claim is not deleted: %v", err)
	}
}

func TestHostThatWasClaimedIsNotDeployedForAMachineThatIsBeingDeleted(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.DataTemplate = &v1beta2.ObjectReference{Name: "data"} })
	b.passes()
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m-1"}}
	edit(b, machine, func(machine *clusterv1.Machine) { machine.Finalizers = []string{clusterv1.MachineFinalizer} })
	if err := b.api.Delete(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	b.rendered("m-1")
	b.passes()
	if h := b.held(); h == nil || isSpecified(h) || h.Spec.UserData != nil || b.secretLabels("a")[clusterv1.ClusterNameLabel] != "" {
		t.Errorf("the host is %+v, want one that the machine holds, without anything to deploy", h)
	}
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.DeletingReason, "Machine m-1 is being deleted")
	b.remove()
	b.run()
	b.isFreed("a")
}

func TestRunningMachineIsReadyWhateverBecomesOfItsData(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*testing.T, *bench, *v1beta2.Metal3Data)
		part   string
	}{
		"a person deletes it": {func(t *testing.T, b *bench, d *v1beta2.Metal3Data) {
			t.Helper()
			edit(b, d, func(d *v1beta2.Metal3Data) { d.Finalizers = []string{v1beta2.DataFinalizer} })
			report(b, d, func(d *v1beta2.Metal3Data) { d.Status.ErrorMessage = new("The deletion waits.") })
			if err := b.api.Delete(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}, "Metal3Data data-0 is being deleted: The deletion waits."},
		"it cannot be rendered anew": {func(_ *testing.T, b *bench, d *v1beta2.Metal3Data) {
			report(b, d, func(d *v1beta2.Metal3Data) { d.Status.Ready = false })
		}, "Metal3Data data-0 is not rendered yet"},
		"its claim has lost its status": {func(_ *testing.T, b *bench, _ *v1beta2.Metal3Data) {
			report(b, b.claim("m-1"), func(c *v1beta2.Metal3DataClaim) { c.Status = v1beta2.Metal3DataClaimStatus{} })
		}, "Metal3DataClaim m-1 is not answered yet"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.DataTemplate = &v1beta2.ObjectReference{Name: "data"} })
			b.passes()
			b.rendered("m-1")
			b.run()
			b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
			tt.change(t, b, &v1beta2.Metal3Data{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-0"}})
			b.passes()
			b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
			b.wantCondition(v1beta2.Metal3DataReadyCondition, metav1.ConditionFalse, v1beta2.WaitingForMetal3DataReason, tt.part)
			edit(b, b.host("a"), func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false })
			b.passes()
			b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.NotReadyReason, "its spec.online is false")
		})
	}
}

func TestDataOfAnEarlierMachineOfTheSameNameIsNotUsed(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.DataTemplate = &v1beta2.ObjectReference{Name: "data"} })
	b.passes()
	b.rendered("m-1")
	edit(b, b.claim("m-1"), func(c *v1beta2.Metal3DataClaim) { c.OwnerReferences[0].UID = "earlier" })
	edit(b, b.held(), func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	b.passes()
	b.wantCondition(v1beta2.Metal3DataReadyCondition, metav1.ConditionFalse, v1beta2.WaitingForMetal3DataReason, "an earlier machine of this name")
	if isSpecified(b.held()) {
		t.Error("the host is deployed with the data of another machine")
	}
	if err := b.api.Delete(t.Context(), b.claim("m-1")); err != nil {
		t.Fatal(err)
	}
	b.passes()
	if c := b.claim("m-1"); !metav1.IsControlledBy(c, b.machine()) {
		t.Errorf("claim has owners %+v, want the machine", c.OwnerReferences)
	}
}

// claim reads a claim for data.
func (b *bench) claim(name string) *v1beta2.Metal3DataClaim {
	b.Helper()
	claim := &v1beta2.Metal3DataClaim{}
	if err := b.api.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: name}, claim); err != nil {
		b.Fatal(err)
	}
	return claim
}

func TestSecretsAreTakenBackWhenTheOperatorEndedAfterAnyWrite(t *testing.T) {
	for n := 1; ; n++ {
		b := newMachineBench(t, newHost("a"))
		edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.DataTemplate = &v1beta2.ObjectReference{Name: "data"} })
		b.passes()
		b.rendered("m-1")
		left := b.ending(n)
		_, _ = b.pass()
		b.r.Client = b.api
		if *left > 0 {
			if n < 3 {
				t.Errorf("the pass made %d writes, want more", n-*left)
			}
			return
		}
		if err := b.api.Delete(t.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m-1"}}); err != nil {
			t.Fatal(err)
		}
		b.remove()
		b.run()
		if h := b.host("a"); h.Spec.UserData != nil || h.Spec.MetaData != nil || isConsumed(h) {
			t.Errorf("after write %d host a keeps user data %v, metadata %v, consumer %v", n, h.Spec.UserData, h.Spec.MetaData, h.Spec.ConsumerRef)
		}
	}
}

func TestUserDataIsTakenBackWhenTheMachineWasGoneFirst(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	if b.host("a").Spec.UserData == nil {
		t.Fatal("the host has no user data")
	}
	if err := b.api.Delete(t.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m-1"}}); err != nil {
		t.Fatal(err)
	}
	b.passes()
	b.remove()
	b.run()
	b.isFreed("a")
}

// ending lets the operator make n writes, and then no more. It returns how many are left.
func (b *bench) ending(n int) (left *int) {
	left = &n
	write := func(do func() error) error {
		if n == 0 {
			return errTest
		}
		n--
		return do()
	}
	b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, obj, o...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			return write(func() error { return c.Patch(ctx, obj, p, o...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
			return write(func() error { return c.SubResource(sub).Patch(ctx, obj, p, o...) })
		},
	})
	return left
}

// takenMeanwhile makes somebody else take each host that the machine is about to claim, as often as
// times says.
func (b *bench) takenMeanwhile(times int) {
	b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			if h, ok := obj.(*v1alpha1.BareMetalHost); ok && h.Spec.ConsumerRef != nil && times > 0 {
				times--
				edit(b, &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: h.Name}}, consumedBy("Metal3Machine", "other"))
			}
			return c.Patch(ctx, obj, p, o...)
		},
	})
}

func TestLoserDropsItsChoiceAndChoosesAgain(t *testing.T) {
	b := newMachineBench(t, newHost("a"), newHost("b"), newHost("c"))
	b.takenMeanwhile(2)
	if _, err := b.pass(); err != nil {
		t.Fatal(err)
	}
	if m := b.machine(); m.Annotations[v1beta2.HostAnnotation] != "" {
		t.Errorf("the machine names host %s, which it lost", m.Annotations[v1beta2.HostAnnotation])
	}
	b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.ClaimConflictReason, "has the consumer Metal3Machine other")
	b.passes()
	if b.held() == nil {
		t.Error("the machine has no host")
	}
	others := 0
	for _, h := range b.hosts() {
		if h.Spec.ConsumerRef != nil && h.Spec.ConsumerRef.Name == "other" {
			others++
		}
	}
	if others != 2 {
		t.Errorf("the other machine has %d hosts, want those 2 that it was given", others)
	}
}

func TestClaimIsRepeatedWhenSomethingElseOfTheHostWasWritten(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	written := false
	b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			if h, ok := obj.(*v1alpha1.BareMetalHost); ok && !written {
				written = true
				edit(b, &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: h.Name}}, annotated("note"))
			}
			return c.Patch(ctx, obj, p, o...)
		},
	})
	if _, err := b.pass(); err != nil || b.held() == nil || !written {
		t.Errorf("host %+v, error %v, want it claimed in one pass", b.held(), err)
	}
}

func TestHostOfAnotherConsumerIsNeverChanged(t *testing.T) {
	for name, ran := range map[string]bool{"before it ran": false, "after it ran": true} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			b.passes()
			if ran {
				b.run()
			}
			edit(b, b.host("a"), consumedBy("Metal3Machine", "thief"))
			before := b.host("a")
			b.passes()
			if ran {
				b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.HostLostReason, "has the consumer Metal3Machine thief; "+noOther)
				if m := b.machine(); !*m.Status.Initialization.Provisioned || m.Spec.ProviderID == "" {
					t.Error("the machine is not provisioned any more")
				}
			} else {
				b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.NoMatchingHostReason, "1 with another consumer")
			}
			if !b.told(eventHostLost) {
				t.Error("there is no event about it")
			}
			b.remove()
			b.run()
			if b.machine() != nil || b.host("a").ResourceVersion == "" || b.host("a").Spec.ConsumerRef.Name != "thief" {
				t.Errorf("the machine is there (%v), or the host changed from %+v to %+v", b.machine() != nil, before.Spec, b.host("a").Spec)
			}
		})
	}
}

func TestFailureDomainIsThatOfTheMachineItselfOrElseOfItsMachine(t *testing.T) {
	for name, tt := range map[string]struct{ own, machine, want string }{
		"only the Machine has one":  {"", "row-5", "h-5"},
		"the Metal3Machine has one": {"row-3", "", "h-3"},
		"both have one":             {"row-3", "row-5", "h-3"},
	} {
		t.Run(name, func(t *testing.T) {
			var hosts []*v1alpha1.BareMetalHost
			for i := range 8 {
				hosts = append(hosts, newHost(fmt.Sprintf("h-%d", i), labelled(v1beta2.FailureDomainLabel, fmt.Sprintf("row-%d", i))))
			}
			b := newMachineBench(t, hosts...)
			edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.FailureDomain = tt.own })
			edit(b, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m-1"}}, func(machine *clusterv1.Machine) {
				machine.Spec.FailureDomain = tt.machine
			})
			b.passes()
			if h := b.held(); h == nil || h.Name != tt.want || b.machine().Status.FailureDomain != h.Labels[v1beta2.FailureDomainLabel] {
				t.Errorf("the machine has host %+v and the failure domain %q, want host %s", h, b.machine().Status.FailureDomain, tt.want)
			}
		})
	}
}

func TestSecretsThatTheSpecNamesNeedNoData(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) {
		m.Spec.DataTemplate = &v1beta2.ObjectReference{Name: "data"}
		m.Spec.MetaData, m.Spec.NetworkData = &corev1.SecretReference{Name: "meta"}, &corev1.SecretReference{Name: "network"}
	})
	b.passes()
	b.wantCondition(v1beta2.Metal3DataReadyCondition, metav1.ConditionTrue, v1beta2.SecretsSetExternallyReason, "")
	if h := b.held(); h == nil || h.Spec.MetaData == nil || h.Spec.MetaData.Name != "meta" || h.Spec.NetworkData == nil || h.Spec.NetworkData.Name != "network" {
		t.Errorf("host %+v, want it deployed with the Secrets of the spec", h)
	}
}

func TestClaimForDataThatCannotBeDeletedIsShown(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.DataTemplate = &v1beta2.ObjectReference{Name: "data"} })
	b.passes()
	b.rendered("m-1")
	b.run()
	b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return errTest },
	})
	b.remove()
	b.run()
	b.wantCondition(v1beta2.Metal3DataReadyCondition, metav1.ConditionFalse, v1beta2.DisassociateM3MetaDataFailedReason, "the API server is away")
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.DeletionFailedReason, "delete Metal3DataClaim metal/m-1")
	b.r.Client = b.api
	b.passes()
	b.isFreed("a")
}

func TestHostThatIsGoneIsReplacedBeforeTheMachineRanAndNotAfterwards(t *testing.T) {
	for name, ran := range map[string]bool{"before it ran": false, "after it ran": true} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			b.passes()
			if ran {
				b.run()
			}
			if err := b.api.Delete(t.Context(), b.host("a")); err != nil {
				t.Fatal(err)
			}
			if err := b.api.Create(t.Context(), newHost("b")); err != nil {
				t.Fatal(err)
			}
			b.passes()
			if got := b.held() != nil; got == ran {
				t.Errorf("the machine has host b: %v", got)
			}
			if ran {
				b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.HostLostReason, "metal/a of the machine does not exist")
				b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.NotReadyReason, "delete its Machine")
			}
			b.remove()
			b.run()
			if b.machine() != nil {
				t.Error("the machine is not gone")
			}
		})
	}
}

func TestMachineThatOnlyTheCacheHasClaimsNoHost(t *testing.T) {
	for what, change := range map[string]func(*bench){
		"it is gone": func(b *bench) { b.remove() },
		"it is being deleted": func(b *bench) {
			edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Finalizers = []string{v1beta2.MachineFinalizer} })
			b.remove()
		},
		"another one has its name": func(b *bench) {
			again := b.machine()
			b.remove()
			again.UID, again.ResourceVersion = "another", ""
			if err := b.api.Create(b.Context(), again); err != nil {
				b.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { // as after the first write of a claim
				m.UID = "uid"
				name(m, b.host("a"))
				m.Finalizers = nil
			})
			stale := b.machine()
			b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
					if m, is := obj.(*v1beta2.Metal3Machine); is {
						stale.DeepCopyInto(m)
						m.Finalizers = []string{v1beta2.MachineFinalizer}
						return nil
					}
					return c.Get(ctx, key, obj, options...)
				},
			})
			change(b)
			b.passes()
			if h := b.host("a"); h.Spec.ConsumerRef != nil || isSpecified(h) {
				t.Errorf("the host has the consumer %+v", h.Spec.ConsumerRef)
			}
		})
	}
}
