package remediation

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

func TestRemediationIsWorkedOnWhenItOrItsMachineHasTheLabelThatTheFilterWants(t *testing.T) {
	for name, tt := range map[string]struct {
		own, machine string
		want         bool
	}{
		"none": {"", "", false}, "own": {"blue", "", true}, "that of the Machine": {"", "blue", true},
		"others": {"", "red", false}, "own of another": {"red", "blue", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, func(_ *life, m *v1beta2.Metal3Remediation) {
				if tt.own != "" {
					m.Labels = map[string]string{clusterv1.WatchLabel: tt.own}
				}
			})
			l.r.Filter = "blue"
			machine := l.machine()
			l.write(machine, func() { machine.Labels = map[string]string{clusterv1.WatchLabel: tt.machine} })
			for range 5 {
				l.pass()
			}
			m := l.remediation()
			if worked := len(m.Finalizers) > 0 || m.Status.Phase != ""; worked != tt.want {
				t.Errorf("finalizers %v, phase %q; want it to be worked on: %v", m.Finalizers, m.Status.Phase, tt.want)
			}
			if got := m.Labels[clusterv1.WatchLabel]; tt.want && got != "blue" {
				t.Errorf("label %q, want that of the filter", got)
			}
		})
	}
}

func TestRemediationWithoutALabelIsUndoneWhenItsMachineIsGone(t *testing.T) {
	for name, tt := range map[string]struct {
		label string
		stays bool // the Machine
		want  bool
	}{
		"no label": {want: true}, "no label, with the Machine": {stays: true}, "label of another": {label: "red"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.stuckPower = true
			for range 5 {
				l.pass()
			}
			if len(holds(l.remediation(), l.host())) == 0 {
				t.Fatal("the host is not held off")
			}
			l.r.Filter = "blue"
			m := l.remediation()
			if tt.label != "" {
				l.write(m, func() { m.Labels = map[string]string{clusterv1.WatchLabel: tt.label} })
			}
			if !tt.stays {
				if err := l.management.Delete(t.Context(), l.machine()); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.management.Delete(t.Context(), l.remediation()); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				l.pass()
			}
			if undone := l.remediation() == nil && len(holds(m, l.host())) == 0; undone != tt.want {
				t.Errorf("remediation %+v, holds %v; want it to be undone: %v", l.remediation(), holds(m, l.host()), tt.want)
			}
		})
	}
}
