package fencing

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestABackupRestoresWhatTheNodeLacksAndKeepsWhatItHas(t *testing.T) {
	old := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "node-0", UID: "old",
			Labels: map[string]string{"rack": "1", "zone": "old"}, Annotations: map[string]string{"owner": "storage"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "dedicated", Value: "storage", Effect: corev1.TaintEffectNoSchedule},
			{Key: "dedicated", Value: "storage", Effect: corev1.TaintEffectNoExecute},
			{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute},
			{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule},
		}},
	}
	earlier := takeBackup(&corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node-0", UID: "oldest", Labels: map[string]string{"rack": "0", "lost": "once"},
	}}, nil)
	saved := takeBackup(old, &earlier)
	back := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-0", UID: "new", Labels: map[string]string{"zone": "new", "arch": "arm64"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoSchedule},
		}},
	}
	if !saved.restore(back) {
		t.Error("nothing was missing")
	}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "node-0", UID: "new",
			Labels:      map[string]string{"zone": "new", "arch": "arm64", "rack": "1", "lost": "once"},
			Annotations: map[string]string{"owner": "storage"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoSchedule},
			{Key: "dedicated", Value: "storage", Effect: corev1.TaintEffectNoExecute},
		}},
	}
	if diff := cmp.Diff(want, back); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if saved.restore(back) {
		t.Error("something is missing after it was restored")
	}
}

func TestABackupIsBoundedAndDropsTheLongestFirst(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node-0", Labels: map[string]string{"rack": "1"},
		Annotations: map[string]string{"big": strings.Repeat("<", 20000), "bigger": strings.Repeat("x", maxBackup-10), "small": "1"},
	}}
	saved := takeBackup(node, nil)
	if size := len(encode(saved)); size > maxBackup {
		t.Errorf("%d bytes, want %d at most", size, maxBackup)
	}
	if saved.Annotations["small"] != "1" || saved.Labels["rack"] != "1" || saved.Dropped == 0 || saved.Annotations["bigger"] != "" {
		t.Errorf("%d dropped, labels %v, %d annotations", saved.Dropped, saved.Labels, len(saved.Annotations))
	}
	for key := range 9000 {
		node.Labels[strings.Repeat("l", 10)+name("label", key)] = "value"
	}
	if size := len(encode(takeBackup(node, nil))); size > maxBackup {
		t.Errorf("with many labels %d bytes, want %d at most", size, maxBackup)
	}
}
