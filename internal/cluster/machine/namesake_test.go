package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// createAgain removes the machine without its finalizer, as a person can, and creates another one
// under its name.
func (b *bench) createAgain(change func(*v1beta2.Metal3Machine)) {
	b.Helper()
	m := b.machine()
	b.remove()
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Finalizers = nil })
	again := &v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: "created-again", Labels: m.Labels, OwnerReferences: m.OwnerReferences, Annotations: m.Annotations,
	}, Spec: m.Spec}
	change(again)
	if err := b.api.Create(b.Context(), again); err != nil {
		b.Fatal(err)
	}
}

func fromTemplate(m *v1beta2.Metal3Machine) { m.Annotations, m.Spec.ProviderID = nil, "" }

func TestMachineThatIsCreatedAgainDoesNotGetTheHostOfTheEarlierOne(t *testing.T) {
	for name, tt := range map[string]struct {
		change       func(*v1beta2.Metal3Machine)
		reason, part string
	}{
		"from a template":           {fromTemplate, v1beta2.NoMatchingHostReason, "1 of an earlier machine of the same name"},
		"with the annotation":       {func(m *v1beta2.Metal3Machine) { m.Spec.ProviderID = "" }, v1beta2.NoMatchingHostReason, "1 of an earlier machine of the same name"},
		"with all that was stored":  {func(*v1beta2.Metal3Machine) {}, v1beta2.HostLostReason, "remove spec.consumerRef.uid"},
		"with the provider ID only": {func(m *v1beta2.Metal3Machine) { m.Annotations = nil }, v1beta2.HostLostReason, "of provider ID metal3://metal/a/m-1"},
		"with the name of no host": {func(m *v1beta2.Metal3Machine) {
			m.Annotations[v1beta2.HostAnnotation] = "metal/x"
			m.Spec.ProviderID = ""
		}, v1beta2.NoMatchingHostReason, "1 of an earlier machine"},
		"in another cluster's wake": {func(m *v1beta2.Metal3Machine) { m.UID = "moved"; fromTemplate(m) }, v1beta2.NoMatchingHostReason, "1 of an earlier machine"},
		"with an unusable annotation": {func(m *v1beta2.Metal3Machine) {
			fromTemplate(m)
			m.Annotations = map[string]string{v1beta2.HostAnnotation: "a"}
		}, v1beta2.NoMatchingHostReason, "1 of an earlier machine"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			b.run()
			before := b.host("a")
			b.createAgain(tt.change)
			b.run()
			b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, tt.reason, tt.part)
			b.remove()
			b.run()
			if diff := cmp.Diff(before.Spec, b.host("a").Spec); diff != "" {
				t.Errorf("host, with what the earlier machine left (-want +got):\n%s", diff)
			}
			if b.machine() != nil {
				t.Error("the machine is not gone")
			}
		})
	}
}

func TestEarlierHostIsTakenBackWhenAPersonSaysSo(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	b.createAgain(func(*v1beta2.Metal3Machine) {})
	b.passes()
	edit(b, b.host("a"), func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.UID = "" })
	b.passes()
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
	if ref := b.host("a").Spec.ConsumerRef; ref.UID != "created-again" {
		t.Errorf("consumer is %+v, want it with the UID of the machine", ref)
	}
}

func TestClaimOfAnotherProviderIsKeptAndProven(t *testing.T) {
	b := newMachineBench(t, newHost("a"), newHost("b"))
	b.run()
	name := b.held().Name
	edit(b, b.held(), func(h *v1alpha1.BareMetalHost) {
		h.Annotations, h.Spec.ConsumerRef.UID, h.Spec.ConsumerRef.APIVersion = nil, "", "infrastructure.cluster.x-k8s.io/v1beta1"
	})
	b.passes()
	h := b.held()
	if h.Name != name || h.Spec.ConsumerRef.UID != b.machine().UID || h.Annotations[v1beta2.ConsumerHostUIDAnnotation] != string(h.UID) {
		t.Errorf("host %s has the consumer %+v and annotations %v", h.Name, h.Spec.ConsumerRef, h.Annotations)
	}
}

func TestClaimThatAnotherProviderHasHalfWrittenIsTheMachines(t *testing.T) {
	for name, deleted := range map[string]bool{"of a machine that stays": false, "of a deleted machine": true} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"), newHost("b"))
			b.passes()
			held := b.held().Name
			edit(b, b.held(), func(h *v1alpha1.BareMetalHost) {
				h.Annotations, h.Spec.ConsumerRef.UID = nil, ""
				h.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(b.machine(), v1beta2.GroupVersion.WithKind("Metal3Machine"))}
			})
			edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { delete(m.Annotations, v1beta2.HostAnnotation) })
			if deleted {
				b.remove()
				b.run()
				b.isFreed(held)
				return
			}
			b.passes()
			if h := b.held(); h.Name != held || h.Spec.ConsumerRef.UID != b.machine().UID || len(h.OwnerReferences) > 0 {
				t.Errorf("host %s has the consumer %+v and the owners %+v, want host %s by UID and without owner", h.Name, h.Spec.ConsumerRef, h.OwnerReferences, held)
			}
		})
	}
}

func TestAnnotationThatSomebodyChangedDoesNotChangeTheHost(t *testing.T) {
	for name, deleted := range map[string]bool{"while it is deployed": false, "when it is deleted": true} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"), newHost("b"))
			b.passes()
			held := b.held().Name
			other := map[string]string{"a": "b", "b": "a"}[held]
			edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Annotations[v1beta2.HostAnnotation] = namespace + "/" + other })
			if deleted {
				b.remove()
				b.run()
				b.isFreed(held)
				return
			}
			b.run()
			if h := b.held(); h.Name != held || b.machine().Annotations[v1beta2.HostAnnotation] != namespace+"/"+held || isConsumed(b.host(other)) {
				t.Errorf("the machine has host %s and names %s, want host %s", h.Name, b.machine().Annotations[v1beta2.HostAnnotation], held)
			}
		})
	}
}

func TestMachineIsPausedWithTheHostThatNamesIt(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.run()
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { delete(m.Annotations, v1beta2.HostAnnotation) })
	b.pause(true)
	b.passes()
	if h := b.held(); !isAnnotated(h, v1alpha1.PausedAnnotation) {
		t.Error("the machine can be moved, and its host is not paused")
	}
}
