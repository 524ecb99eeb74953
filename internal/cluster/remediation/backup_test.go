package remediation

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestANodeIsDeletedEvenIfItsLabelsOrAnnotationsAreTooLongForABackup(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(n *corev1.Node)
		isBack func(n *corev1.Node) bool
	}{
		"annotations": {
			func(n *corev1.Node) { // JSON has two characters for each quote
				n.Annotations["longest"], n.Annotations["long"] = strings.Repeat(`"`, 150<<10), strings.Repeat("x", 90<<10)
			},
			func(n *corev1.Node) bool {
				return n.Labels["rack"] == "r1" && n.Annotations["team"] == "db" && n.Annotations["long"] != "" && n.Annotations["longest"] == ""
			},
		},
		"labels": {
			func(n *corev1.Node) {
				for i := range 3000 {
					n.Labels[fmt.Sprintf("%0100d", i)] = "value"
				}
			},
			func(n *corev1.Node) bool {
				return n.Labels["rack"] == "r1" && len(n.Labels) > 1500 && len(n.Labels) < 3000
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, ways["deletion"])
			l.patchNode(tt.change)
			l.untilPhase(waiting)
			l.published(eventNodeDeleted)
			l.published(eventNodeRestored)
			if n := l.told(eventEvictionIncomplete); n > 0 {
				t.Errorf("%d attempts went on without the deletion", n)
			}
			if n := l.node(); n.UID != "n2" || !tt.isBack(n) {
				t.Errorf("Node %s came back with %d labels and the annotations %.100q", n.UID, len(n.Labels), n.Annotations)
			}
			l.takeBack()
		})
	}
}
