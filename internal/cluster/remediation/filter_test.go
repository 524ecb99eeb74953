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
