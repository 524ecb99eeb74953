package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/invariant"
	"github.com/ingot-metal/ingot/test/cluster"
)

// attemptTimeout is how long a machine has to become healthy after an attempt, in seconds. It is
// the shortest time that is allowed.
const attemptTimeout = 100

// checkHealth lets Machines of a deployment be recovered by annotation when their Nodes are
// unhealthy, with one retry.
func checkHealth(t *testing.T, c reuse, d *clusterv1.MachineDeployment) {
	t.Helper()
	template := &v1beta2.Metal3RemediationTemplate{ObjectMeta: c.Meta(c.Name)}
	template.Spec.Template.Spec.Strategy = &v1beta2.RemediationStrategy{
		Type: v1beta2.AnnotationRemediation, RetryLimit: 1, TimeoutSeconds: attemptTimeout,
	}
	c.Create(t, template)
	check, never := c.healthCheck(d), int32(0)
	check.Spec.Checks.NodeStartupTimeoutSeconds = &never
	check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{
		APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3RemediationTemplate", Name: template.Name,
	}
	c.Create(t, check)
}

// nodeLabel is a label of Nodes that a person has set.
const nodeLabel = "example.com/rack"

// recovery is the recovery of a Machine.
type recovery struct {
	reuse
	host string
	// machine and node are the Machine and its Node before the recovery.
	machine *clusterv1.Machine
	node    *corev1.Node
	// since is the sequence number of the last effect on the simulated machine before the recovery.
	since int64
}

// recoveryOf returns the recovery of the Machine on a host, before it begins.
func recoveryOf(t *testing.T, c reuse, host string) *recovery {
	t.Helper()
	r := &recovery{reuse: c, host: host}
	cluster.Eventually(t, func(ctx context.Context) error {
		machines, err := c.Machines(ctx)
		if err != nil {
			return err
		}
		hosts, err := c.HostsOfReady(ctx, machines)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(machines, func(m clusterv1.Machine) bool { return hosts[m.Name] == host })
		if i < 0 {
			return fmt.Errorf("no Machine is on the host %s: %v", host, hosts)
		}
		r.machine = &machines[i]
		if r.node, err = c.Node(ctx, r.machine.Status.NodeRef.Name); err != nil || r.node == nil {
			return fmt.Errorf("read the Node of the Machine %s: %w", r.machine.Name, err)
		}
		labelled := r.node.DeepCopy()
		labelled.Labels[nodeLabel] = "7"
		return c.Workload.Patch(ctx, labelled, client.MergeFrom(r.node))
	})
	if all := r.effects(); len(all) > 0 {
		r.since = all[len(all)-1].Sequence
	}
	return r
}

// effects returns what was done to the simulated machine since the recovery began, and what it
// booted.
func (r *recovery) effects() []effect.Effect {
	return r.MachinesWithBMC().Recorder().Effects(strconv.Itoa(r.Hosts[r.host]), r.since)
}

// done returns the kinds of effects that were done to the simulated machine, without what it did
// itself.
func (r *recovery) done() (kinds []string) {
	for _, e := range r.effects() {
		if e.Kind != effect.Boot && e.Kind != sim.InstanceNote {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// deletions returns the times at which the Node was deleted.
func (r *recovery) deletions(t *testing.T) (times []time.Time) {
	t.Helper()
	all, err := invariant.ReadAuditLog(r.Plane.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.UID == r.node.UID {
			times = append(times, d.At)
		}
	}
	return times
}

// ends waits until the Machine has a new Node that is Ready and has the label of the former one,
// and until nothing is left of the recovery.
func (r *recovery) ends(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, func(ctx context.Context) error {
		node, err := r.Node(ctx, r.node.Name)
		switch {
		case err != nil:
			return err
		case node == nil || node.UID == r.node.UID:
			return fmt.Errorf("there is no new Node %s", r.node.Name)
		case node.Labels[nodeLabel] == "":
			return fmt.Errorf("the Node %s lacks the label of the former one", r.node.Name)
		}
		if ready, err := r.NodeReady(ctx, node.Name); err != nil || !ready {
			return fmt.Errorf("the Node %s is not Ready: %w", node.Name, err)
		}
		return r.nothingLeft(ctx)
	})
}

// nothingLeft returns an error that says what is left of a recovery.
func (r *recovery) nothingLeft(ctx context.Context) error {
	var remediations v1beta2.Metal3RemediationList
	if err := r.Kube.List(ctx, &remediations, client.InNamespace(r.Name)); err != nil {
		return err
	}
	if n := len(remediations.Items); n > 0 {
		return fmt.Errorf("there are %d Metal3Remediations", n)
	}
	machine := &clusterv1.Machine{}
	if err := r.Kube.Get(ctx, client.ObjectKeyFromObject(r.machine), machine); err != nil {
		return err
	}
	host, err := r.Host(ctx, r.host)
	if err != nil {
		return err
	}
	for _, object := range []client.Object{machine, host} {
		for key := range object.GetAnnotations() {
			if key == v1beta2.ExternalRemediationAnnotation || key == clusterv1.MachineSkipRemediationAnnotation ||
				strings.HasPrefix(key, "remediation.metal3.io/") || strings.HasPrefix(key, v1alpha1.RebootAnnotationPrefix) {
				return fmt.Errorf("%T %s has the annotation %s", object, object.GetName(), key)
			}
		}
	}
	return nil
}

// wantOneCycle checks that the machine was powered off and on once, and that nothing else was done
// to it. Its Node must have been deleted once, while the machine was off.
func (r *recovery) wantOneCycle(t *testing.T) {
	t.Helper()
	if got, want := r.done(), []string{string(bmc.PowerOff), string(bmc.PowerOn)}; !slices.Equal(got, want) {
		t.Fatalf("done to the machine of %s: %q, want %q", r.host, got, want)
	}
	all := slices.DeleteFunc(r.effects(), func(e effect.Effect) bool { return e.Kind != string(bmc.PowerOff) && e.Kind != string(bmc.PowerOn) })
	off, on := all[0].Time, all[1].Time
	if deleted := r.deletions(t); len(deleted) != 1 || deleted[0].Before(off) || deleted[0].After(on) {
		t.Errorf("the Node was deleted at %v, want once between %v and %v", deleted, off, on)
	}
}

// wantSameMachine checks that the Machine is the one that it was before.
func (r *recovery) wantSameMachine(t *testing.T) {
	t.Helper()
	var machine clusterv1.Machine
	if err := r.Kube.Get(t.Context(), client.ObjectKeyFromObject(r.machine), &machine); err != nil || machine.UID != r.machine.UID {
		t.Errorf("the Machine has the UID %q, %v, want %q as before", machine.UID, err, r.machine.UID)
	}
}

// shows waits until the condition of the recovery has a reason.
func (r *recovery) shows(t *testing.T, reason string) {
	t.Helper()
	cluster.Eventually(t, func(ctx context.Context) error {
		var m v1beta2.Metal3Machine
		if err := r.Kube.Get(ctx, r.Key(r.machine.Spec.InfrastructureRef.Name), &m); err != nil {
			return err
		}
		if shown := meta.FindStatusCondition(m.Status.Conditions, v1beta2.RemediatingCondition); shown == nil || shown.Reason != reason {
			return fmt.Errorf("the condition is %+v, want the reason %s", shown, reason)
		}
		return nil
	})
}

// reports waits until there is an event of a reason about the Machine.
func (r *recovery) reports(t *testing.T, reason string) {
	t.Helper()
	cluster.Eventually(t, func(ctx context.Context) error {
		var events corev1.EventList
		if err := r.Kube.List(ctx, &events, client.InNamespace(r.Name)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.UID == r.machine.UID && e.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("there is no event %s about the Machine %s", reason, r.machine.Name)
	})
}

// measures waits until the metric for stuck recoveries has the value want for the Machine, or no
// value if want is empty.
func (r *recovery) measures(t *testing.T, want string) {
	t.Helper()
	series := fmt.Sprintf("ingot_fencing_stuck{machine=%q,namespace=%q}", r.machine.Name, r.Name)
	cluster.Eventually(t, func(ctx context.Context) error {
		text, err := r.Metrics(ctx)
		if err != nil {
			return err
		}
		_, rest, found := strings.Cut("\n"+text, "\n"+series)
		value, _, _ := strings.Cut(rest, "\n")
		if found != (want != "") || value != want {
			return fmt.Errorf("%s has the value %q, want %q", series, value, want)
		}
		return nil
	})
}

// waitedLong makes the hold of the host an hour old. After that time, the recovery counts as stuck.
func (r *recovery) waitedLong(t *testing.T) {
	t.Helper()
	r.ChangeHost(t, r.host, func(h *v1alpha1.BareMetalHost) {
		var hold map[string]any
		if err := json.Unmarshal([]byte(h.Annotations[v1beta2.MachineRemediationAnnotation]), &hold); err != nil {
			t.Errorf("read the annotation %s: %v", v1beta2.MachineRemediationAnnotation, err)
			return
		}
		hold["requestedAt"] = metav1.NewTime(time.Now().Add(-time.Hour))
		text, err := json.Marshal(hold)
		if err != nil {
			t.Errorf("write the annotation %s: %v", v1beta2.MachineRemediationAnnotation, err)
			return
		}
		h.Annotations[v1beta2.MachineRemediationAnnotation] = string(text)
	})
}
