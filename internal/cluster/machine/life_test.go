package machine

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

func TestMachineGetsAHostAndGivesItBack(t *testing.T) {
	b := newMachineBench(t, newHost("a", func(h *v1alpha1.BareMetalHost) {
		h.Labels = map[string]string{v1beta2.FailureDomainLabel: "row-a"}
		h.Status.HardwareDetails = &v1alpha1.HardwareDetails{Hostname: "node-a", NICs: []v1alpha1.NIC{{IP: "192.0.2.7"}}}
	}))
	b.passes()
	h := b.held()
	if h == nil || h.Spec.Image == nil || !h.Spec.Online || h.Labels[clusterv1.ClusterNameLabel] != "edge" || h.Spec.UserData.Name != "m-1-bootstrap" {
		t.Fatalf("host is %+v", h)
	}
	if h.Spec.ConsumerRef.UID != b.machine().UID || h.Annotations[v1beta2.ConsumerHostUIDAnnotation] != string(h.UID) {
		t.Errorf("the consumer is %+v with annotations %v, want it by its UID, for this host", h.Spec.ConsumerRef, h.Annotations)
	}
	if labels := b.secretLabels("a"); labels[clusterv1.ClusterNameLabel] != "edge" {
		t.Errorf("the Secret has labels %v", labels)
	}
	b.wantCondition(v1beta2.AssociateBareMetalHostCondition, metav1.ConditionTrue, v1beta2.AssociateBareMetalHostSuccessReason, "metal/a")
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.NotReadyReason, `Host a is in state "available"`)
	if m := b.machine(); m.Spec.ProviderID != "" || m.Status.Initialization.Provisioned != nil {
		t.Errorf("the machine is provisioned before its host: %+v", m)
	}

	b.run()
	m := b.machine()
	if m.Spec.ProviderID != "metal3://metal/a/m-1" || m.Status.Initialization.Provisioned == nil || !*m.Status.Initialization.Provisioned ||
		len(m.Status.Addresses) != 3 || m.Status.FailureDomain != "row-a" || m.Status.UserData == nil {
		t.Errorf("machine is %+v", m)
	}
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
	b.wantCondition(v1beta2.AssociateMetal3MachineMetaDataCondition, metav1.ConditionTrue, v1beta2.AssociateMetal3MachineMetaDataSuccessReason, "")

	b.remove()
	b.passes()
	b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionFalse, v1beta2.DeletingReason, `host metal/a, which is in state "provisioned"`)
	if h := b.held(); h == nil || h.Spec.Image != nil || h.Spec.UserData != nil || h.Spec.Online {
		t.Fatalf("host is %+v, want one that the machine still holds, with nothing to deploy", h)
	}
	b.run()
	b.isFreed("a")
}

// isFreed checks that a host has nothing left of the machine, which is gone.
func (b *bench) isFreed(name string) {
	b.Helper()
	if m := b.machine(); m != nil {
		b.Errorf("the machine is still there: %+v", m)
	}
	h := b.host(name)
	if h.Spec.ConsumerRef != nil || isSpecified(h) || h.Spec.UserData != nil || len(h.Labels[clusterv1.ClusterNameLabel]) > 0 || isAnnotated(h, v1beta2.ConsumerHostUIDAnnotation) {
		b.Errorf("host %s is not free: %+v", name, h)
	}
	if labels := b.secretLabels(name); labels[clusterv1.ClusterNameLabel] != "" {
		b.Errorf("the Secret of host %s has labels %v", name, labels)
	}
}

// refusing makes the n-th write fail: before it is made or, if late, after that. done says whether
// there were so many writes.
func (b *bench) refusing(n int, late bool) (done *bool) {
	done = new(bool)
	count := 0
	write := func(do func() error) error {
		count++
		if count != n {
			return do()
		}
		*done = true
		if late {
			if err := do(); err != nil {
				return err
			}
		}
		return errTest
	}
	b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, obj, o...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, obj, o...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			return write(func() error {
				err := c.Patch(ctx, obj, p, o...)
				b.check()
				return err
			})
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
			return write(func() error { return c.SubResource(sub).Patch(ctx, obj, p, o...) })
		},
	})
	return done
}

// check checks what has to hold after each write.
func (b *bench) check() {
	b.Helper()
	h, m := b.held(), b.machine()
	if h == nil {
		return
	}
	if m == nil {
		b.Errorf("host %s has a consumer that is gone", h.Name)
		return
	}
	if key, chosen := related.HostName(m); !chosen || key.Name != h.Name || len(m.Finalizers) == 0 {
		b.Errorf("host %s has a consumer that does not know it: annotations %v, finalizers %v", h.Name, m.Annotations, m.Finalizers)
	}
	if _, blocked := m.Annotations[related.BlockMoveAnnotation]; !blocked && !isAnnotated(h, v1alpha1.PausedAnnotation) {
		b.Error("clusterctl could move the machine before its host is paused")
	}
	for _, other := range b.hosts() {
		if other.Name != h.Name && isSpecified(&other) {
			b.Errorf("host %s is deployed, and host %s belongs to the machine", other.Name, h.Name)
		}
	}
}

func TestLifeGoesOnAfterAFailureAtEachWrite(t *testing.T) {
	for _, late := range []bool{false, true} {
		missed := 0
		for n := 1; missed == 0; n++ {
			t.Run(fmt.Sprintf("write %d, late %v", n, late), func(t *testing.T) {
				b := newMachineBench(t, newHost("a"), newHost("b"), newHost("c"))
				edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.DataTemplate = &v1beta2.ObjectReference{Name: "data"} })
				done := b.refusing(n, late)
				b.passes()
				b.rendered("m-1")
				b.run()
				b.wantCondition(v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason, "")
				h := b.held()
				if h == nil || h.Spec.MetaData == nil || h.Spec.MetaData.Name != "m-1-metadata" {
					t.Fatalf("host %+v, want one with the rendered metadata", h)
				}
				b.pause(true)
				b.passes()
				if h := b.held(); h.Annotations[v1alpha1.PausedAnnotation] != v1alpha1.PausedByClusterAPI || h.Annotations[v1alpha1.StatusAnnotation] == "" {
					t.Errorf("host has annotations %v, want it paused", h.Annotations)
				}
				b.pause(false)
				b.passes()
				if isAnnotated(b.held(), v1alpha1.PausedAnnotation) {
					t.Error("the host is still paused")
				}
				b.remove()
				b.run()
				b.isFreed(h.Name)
				for _, h := range b.hosts() {
					if isConsumed(&h) || isSpecified(&h) {
						t.Errorf("host %s is in use: %+v", h.Name, h.Spec)
					}
				}
				if !*done {
					missed = n
				}
			})
			if t.Failed() {
				return
			}
		}
		if missed < 12 {
			t.Errorf("a life has %d writes, want more", missed-1)
		}
	}
}

// pause pauses the Cluster, or ends that.
func (b *bench) pause(paused bool) {
	b.Helper()
	edit(b, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "edge"}}, func(c *clusterv1.Cluster) { c.Spec.Paused = new(paused) })
}

// rendered answers the claim for data of a machine.
func (b *bench) rendered(name string) {
	b.Helper()
	data := &v1beta2.Metal3Data{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-0"}}
	data.Spec.MetaData = &corev1.SecretReference{Name: name + "-metadata"}
	var m v1beta2.Metal3Machine
	if err := b.api.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &m); err != nil {
		b.Fatal(err)
	}
	data.Annotations = map[string]string{v1beta2.HostAnnotation: m.Annotations[v1beta2.HostAnnotation]}
	if err := b.api.Create(b.Context(), data); err != nil {
		b.Fatal(err)
	}
	report(b, data, func(d *v1beta2.Metal3Data) { d.Status.Ready = true })
	b.passes()
	report(b, &v1beta2.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, func(c *v1beta2.Metal3DataClaim) {
		c.Status.RenderedData = &corev1.ObjectReference{Name: "data-0"}
	})
}
