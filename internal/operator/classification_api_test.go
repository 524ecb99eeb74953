package operator_test

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// classification creates a profile of hosts with at least so many processors.
func (b *bench) classification(name string, processors int) *v1alpha1.HardwareClassification {
	b.Helper()
	p := &v1alpha1.HardwareClassification{ObjectMeta: b.meta(name), Spec: v1alpha1.HardwareClassificationSpec{
		HardwareCharacteristics: v1alpha1.HardwareCharacteristics{CPU: &v1alpha1.CPUCharacteristics{MinimumCount: processors}},
	}}
	b.create(p)
	return p
}

// classified waits until a host has the label of a profile or, if want is false, lacks it.
func (b *bench) classified(host, profile string, want bool) {
	b.Helper()
	b.eventually(fmt.Sprintf("host %s with the label of %s: %v", host, profile, want), func() string {
		labels := b.host(host).Labels
		if value, there := labels[v1alpha1.ClassificationLabelPrefix+profile]; there == want && (!want || value == "matches") {
			return ""
		}
		return fmt.Sprint(labels)
	})
}

// counts waits until a profile counts so many hosts.
func (b *bench) counts(profile string, matched, unmatched int) {
	b.Helper()
	b.eventually(fmt.Sprintf("profile %s counts %d and %d hosts", profile, matched, unmatched), func() string {
		var p v1alpha1.HardwareClassification
		if err := b.client.Get(context.Background(), client.ObjectKey{Namespace: b.namespace, Name: profile}, &p); err != nil {
			return err.Error()
		}
		if p.Status.MatchedCount == matched && p.Status.UnmatchedCount == unmatched {
			return ""
		}
		return fmt.Sprintf("%+v", p.Status)
	})
}

func TestHostsHaveTheLabelsOfTheProfilesThatTheyMatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	small := b.classification("small", 1)
	b.bmcHost("one", nil)
	b.bmcHost("two", nil)
	b.inState("one", v1alpha1.StateAvailable)
	b.inState("two", v1alpha1.StateAvailable)
	b.classified("one", "small", true)
	b.counts("small", 2, 0)

	// A profile that comes later, for hosts that do not change.
	b.classification("huge", 4096)
	b.counts("huge", 0, 2)

	// One host's hardware changes.
	data := &v1alpha1.HardwareData{ObjectMeta: b.meta("one")}
	b.update(data, func() { data.Spec.HardwareDetails.CPU.Count = 5000 })
	b.classified("one", "huge", true)
	b.classified("two", "huge", false)
	b.counts("huge", 1, 1)

	// Somebody takes the label away, and a profile changes.
	h := b.host("two")
	b.update(h, func() { delete(h.Labels, v1alpha1.ClassificationLabelPrefix+"small") })
	b.classified("two", "small", true)
	b.update(small, func() { small.Spec.HardwareCharacteristics.CPU.MinimumCount = 5000 })
	b.classified("two", "small", false)
	b.counts("small", 1, 1)

	b.remove(small)
	b.isGone(small)
	b.classified("one", "small", false)
	b.classified("one", "huge", true)
}

func TestImportedHostIsClassified(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.classification("small", 1)
	b.plainHost("demo-preparing", nil) // imported, and never available
	b.inState("demo-preparing", v1alpha1.StatePreparing)
	b.classified("demo-preparing", "small", true)
	b.counts("small", 1, 0)
}
