package fencing

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestMachineWithoutTheLabelThatTheFilterWantsIsNotFenced(t *testing.T) {
	w := newWorld(t, 1)
	w.r.Filter = "blue"
	w.request(0)
	w.passes(0)
	if made := w.made(); len(made) > 0 {
		t.Fatalf("writes %q, want none", made)
	}
	m := w.theMachine(0)
	m.Labels[clusterv1.WatchLabel] = "blue"
	if err := w.mgmt.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.passes(0)
	if len(w.made()) == 0 {
		t.Error("nothing is done for the Machine with the label")
	}
}
