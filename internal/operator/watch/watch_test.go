package watch

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestUpdatesSeeOnlyWhatTheyAreAskedFor(t *testing.T) {
	const key = "example.com/key"
	all := map[string]func(a, b *corev1.ConfigMap) bool{
		"generation":  Generation[*corev1.ConfigMap],
		"deletion":    Deletion[*corev1.ConfigMap],
		"annotations": Annotations[*corev1.ConfigMap],
		"annotated":   Annotated[*corev1.ConfigMap](key),
		"labels":      Labels[*corev1.ConfigMap],
		"owners":      Owners[*corev1.ConfigMap],
		"facts":       Facts(func(c *corev1.ConfigMap) string { return c.Data["fact"] }),
	}
	before := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Generation: 1, ResourceVersion: "1", Annotations: map[string]string{key: "a"}, Labels: map[string]string{key: "a"},
		OwnerReferences: []metav1.OwnerReference{{Name: "a"}},
	}, Data: map[string]string{"fact": "a", "other": "a"}}
	for _, tt := range []struct {
		name   string
		change func(*corev1.ConfigMap)
		seen   []string
	}{
		{"only the version", func(c *corev1.ConfigMap) { c.ResourceVersion = "2" }, nil},
		{"the spec", func(c *corev1.ConfigMap) { c.Generation = 2 }, []string{"generation"}},
		{"deletion begins", func(c *corev1.ConfigMap) { now := metav1.Now(); c.DeletionTimestamp = &now }, []string{"deletion"}},
		{"the value of the annotation", func(c *corev1.ConfigMap) { c.Annotations[key] = "b" }, []string{"annotations"}},
		{"the annotation goes", func(c *corev1.ConfigMap) { delete(c.Annotations, key) }, []string{"annotations", "annotated"}},
		{"another annotation comes", func(c *corev1.ConfigMap) { c.Annotations["other"] = "" }, []string{"annotations"}},
		{"a label", func(c *corev1.ConfigMap) { c.Labels[key] = "b" }, []string{"labels"}},
		{"an owner", func(c *corev1.ConfigMap) { c.OwnerReferences[0].Name = "b" }, []string{"owners"}},
		{"a fact", func(c *corev1.ConfigMap) { c.Data["fact"] = "b" }, []string{"facts"}},
		{"what is no fact", func(c *corev1.ConfigMap) { c.Data["other"] = "b" }, nil},
	} {
		after := before.DeepCopy()
		tt.change(after)
		update := event.TypedUpdateEvent[*corev1.ConfigMap]{ObjectOld: before, ObjectNew: after}
		want := map[string]bool{}
		for _, name := range tt.seen {
			want[name] = true
		}
		for name, sees := range all {
			if got := Updates(sees).Update(update); got != want[name] {
				t.Errorf("%s: Updates(%s) passes it: %t, want %t", tt.name, name, got, want[name])
			}
		}
		if got := Updates(all["labels"], all["generation"], all["facts"]).Update(update); got != (want["labels"] || want["generation"] || want["facts"]) {
			t.Errorf("%s: one of several functions decides otherwise: %t", tt.name, got)
		}
	}
}

func TestObjectsThatComeOrGoAlwaysPass(t *testing.T) {
	none := Updates[*corev1.ConfigMap]()
	if !none.Create(event.TypedCreateEvent[*corev1.ConfigMap]{}) || !none.Delete(event.TypedDeleteEvent[*corev1.ConfigMap]{}) ||
		!none.Generic(event.TypedGenericEvent[*corev1.ConfigMap]{}) {
		t.Error("a creation, deletion or generic event was dropped")
	}
	if none.Update(event.TypedUpdateEvent[*corev1.ConfigMap]{ObjectOld: &corev1.ConfigMap{}, ObjectNew: &corev1.ConfigMap{}}) {
		t.Error("an update passed without a function that sees changes")
	}
}
