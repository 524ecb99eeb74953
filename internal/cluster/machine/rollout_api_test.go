package machine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
)

// TestHostsAndDisksComeBackInARolloutAndLeaveNothingBehind runs the first flow of the
// specification, the rollout of a new template, with all controllers that have to do with
// reservations.
func TestHostsAndDisksComeBackInARolloutAndLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	s := newAPIBench(t, 2)
	s.run()
	s.template("old", false, "")
	s.addHost("a")
	s.addHost("b")
	held := map[string]string{}
	for _, name := range []string{"m-1", "m-2"} {
		s.addMachine(name)
		s.condition(name, v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason)
		held[name] = s.hostOf(name)
	}
	for _, spare := range []string{"spare-1", "spare-2", "spare-3", "spare-4"} {
		s.addHost(spare)
	}
	s.template("new", true, v1beta2.CleaningModeDisabled)
	for earlier, name := range map[string]string{"m-1": "m-3", "m-2": "m-4"} {
		s.removeMachine(earlier)
		s.addMachine(name)
		s.condition(name, v1beta2.AssociateBareMetalHostCondition, metav1.ConditionTrue, v1beta2.AssociateBareMetalHostViaNodeReuseSuccessReason)
		s.condition(name, v1beta2.ReadyCondition, metav1.ConditionTrue, v1beta2.ReadyReason)
		s.machineGone(earlier)
		h := held[earlier]
		if got := s.hostOf(name); got != h {
			t.Errorf("machine %s has host %s, want %s, which its predecessor had", name, got, h)
		}
		if got := s.secretCluster(h); got != "edge" {
			t.Errorf("the Secret of host %s is labelled for Cluster %q", h, got)
		}
		s.mu.Lock()
		if modes := s.cleaned[h]; !slices.Equal(modes, []v1alpha1.AutomatedCleaningMode{v1alpha1.CleaningModeDisabled}) {
			t.Errorf("host %s was deprovisioned with the modes %q, want once, without cleaning", h, modes)
		}
		s.mu.Unlock()
		held[name] = h
	}

	s.change(s.deployment, func() { s.deployment.Spec.Replicas = new(int32(1)) })
	s.removeMachine("m-4")
	s.machineGone("m-4")
	s.isFree(held["m-4"])

	h := held["m-3"]
	s.removeMachine("m-3") // its successor is to come
	s.machineGone("m-3")
	if kept := s.host(h); !reuse.ReservedFor(&s.owner, kept) || kept.Status.Provisioning.State != v1alpha1.StateAvailable || s.secretCluster(h) != "" {
		t.Errorf("host %s is %+v in state %q, its Secret is labelled for Cluster %q; want it available and reserved, with no label", h, kept.Spec.ConsumerRef, kept.Status.Provisioning.State, s.secretCluster(h))
	}
	s.change(s.deployment, func() { s.deployment.Spec.Replicas = new(int32(0)) })
	s.isFree(h)
}

// isFree waits until a host has nothing left of a machine or of a reservation.
func (s *apiBench) isFree(name string) {
	s.Helper()
	s.eventually("host "+name+" free", func() string {
		if h := s.host(name); isConsumed(h) || reuse.IsReserved(h) || isSpecified(h) || h.Labels["cluster.x-k8s.io/cluster-name"] != "" || s.secretCluster(name) != "" {
			return "consumer " + h.Spec.ConsumerRef.String() + ", Cluster of the Secret " + s.secretCluster(name)
		}
		return ""
	})
}

func TestEndpointWithoutAPortGetsTheDefault(t *testing.T) {
	t.Parallel()
	s := newAPIBench(t, 0)
	s.create(s.infrastructure("nowhere", ""))
	s.run()
	for name, want := range map[string]metav1.ConditionStatus{"edge": metav1.ConditionTrue, "nowhere": metav1.ConditionFalse} {
		c := &v1beta2.Metal3Cluster{}
		s.eventually("Metal3Cluster "+name+" seen", func() string {
			if err := s.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, c); err != nil {
				return err.Error()
			}
			ready := meta.FindStatusCondition(c.Status.Conditions, v1beta2.BaremetalInfrastructureReadyCondition)
			if ready == nil || ready.Status != want || want == metav1.ConditionFalse && ready.Reason != v1beta2.ControlPlaneEndpointFailedReason {
				return "no such condition"
			}
			return ""
		})
		if want == metav1.ConditionTrue && c.Spec.ControlPlaneEndpoint.Port != 6443 {
			t.Errorf("port %d, want the default", c.Spec.ControlPlaneEndpoint.Port)
		}
	}
}

// TestOneOfTwoMachinesGetsAReservedHost makes two replicas of the controller choose the same host
// before either claims it.
func TestOneOfTwoMachinesGetsAReservedHost(t *testing.T) {
	t.Parallel()
	s := newAPIBench(t, 2)
	s.template("workers", true, "")
	s.addHost("kept", reservedFor(s.owner, time.Now()))
	registry := prometheus.NewRegistry()
	counted, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	var choices atomic.Int32
	chosen := make(chan struct{})
	replica := func() *Reconciler {
		waits := true
		c, err := client.NewWithWatch(s.config, client.Options{Scheme: s.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		c = interceptor.NewClient(c, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
				if _, host := obj.(*v1alpha1.BareMetalHost); host && waits {
					waits = false
					if choices.Add(1) == 2 {
						close(chosen)
					}
					select {
					case <-chosen:
					case <-ctx.Done():
					case <-time.After(apiTimeout):
						t.Error("the other machine has not chosen the host")
					}
				}
				return c.Patch(ctx, obj, patch, options...)
			},
		})
		return New(Config{
			Client: c, Live: c, Recorder: events.NewFakeRecorder(100), Now: time.Now, Reuse: reuse.Reuse{Client: c, Live: c, Now: time.Now}, Metrics: counted,
		})
	}
	pass := func(r *Reconciler, name string) {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.namespace, Name: name}}); err != nil {
			t.Errorf("machine %s: %v", name, err)
		}
	}
	for _, name := range []string{"m-1", "m-2"} {
		s.addMachine(name)
		r := replica()
		done.Go(func() { pass(r, name) })
	}
	done.Wait()
	winner := s.host("kept").Spec.ConsumerRef.Name
	loser := map[string]string{"m-1": "m-2", "m-2": "m-1"}[winner]
	if loser == "" {
		t.Fatalf("the host has the consumer %s, want one of the machines", winner)
	}
	s.condition(winner, v1beta2.AssociateBareMetalHostCondition, metav1.ConditionTrue, v1beta2.AssociateBareMetalHostViaNodeReuseSuccessReason)
	s.condition(loser, v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.ClaimConflictReason)
	if m, err := s.machine(loser); err != nil || m.Annotations[v1beta2.HostAnnotation] != "" {
		t.Errorf("the machine that lost names host %q, error %v", m.Annotations[v1beta2.HostAnnotation], err)
	}
	if families, err := registry.Gather(); err != nil || len(families) != 1 || families[0].GetMetric()[0].GetCounter().GetValue() != 1 {
		t.Errorf("metrics %v, error %v, want one conflict", families, err)
	}
	again := New(Config{Client: s.Client, Live: s.Client, Recorder: events.NewFakeRecorder(100), Now: time.Now, Reuse: reuse.Reuse{Client: s.Client, Live: s.Client, Now: time.Now}})
	for range 3 {
		pass(again, loser)
	}
	s.condition(loser, v1beta2.AssociateBareMetalHostCondition, metav1.ConditionFalse, v1beta2.NoMatchingHostReason)
	if h := s.host("kept"); h.Spec.ConsumerRef.Name != winner {
		t.Errorf("host has the consumer %s, want %s", h.Spec.ConsumerRef.Name, winner)
	}
}
