package autoscale

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func names(machines []machine) string {
	text := ""
	for _, m := range machines {
		text += m.Name
	}
	return text
}

func TestNewestMachinesWithoutHostGoFirst(t *testing.T) {
	t.Parallel()
	// old, middle and new have no host; x and y hold one.
	one := func(name string, age int, edits ...func(*machine)) machine {
		m := machine{Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(age) * time.Minute)), Annotations: map[string]string{},
		}}}
		for _, edit := range edits {
			edit(&m)
		}
		return m
	}
	holds := func(m *machine) { m.host = &v1alpha1.BareMetalHost{} }
	marked := func(value string) func(*machine) {
		return func(m *machine) { m.Annotations[clusterv1.DeleteMachineAnnotation] = value }
	}
	ours, gone := marked(v1beta2.AutoscaleDeletionMark), func(m *machine) { m.DeletionTimestamp = &metav1.Time{Time: now} }
	for name, tc := range map[string]struct {
		machines     []machine
		planned      int32
		mark, unmark string
	}{
		"enough":                        {[]machine{one("a", 1), one("b", 2)}, 2, "", ""},
		"more replicas than machines":   {[]machine{one("a", 1)}, 3, "", ""},
		"one too many":                  {[]machine{one("a", 3), one("b", 1), one("c", 2)}, 2, "b", ""},
		"two too many":                  {[]machine{one("a", 3), one("b", 1), one("c", 2)}, 1, "bc", ""},
		"of one age, by name":           {[]machine{one("b", 1), one("a", 1)}, 1, "a", ""},
		"never one that holds a host":   {[]machine{one("a", 1, holds), one("b", 9)}, 1, "b", ""},
		"more too many than without":    {[]machine{one("a", 1, holds), one("b", 9)}, 0, "b", ""},
		"deleted ones do not count":     {[]machine{one("a", 1), one("b", 2, gone)}, 1, "", ""},
		"marked already":                {[]machine{one("a", 1, ours), one("b", 2)}, 1, "", ""},
		"marked by somebody":            {[]machine{one("a", 1, marked("yes")), one("b", 2)}, 1, "", ""},
		"got a host meanwhile":          {[]machine{one("a", 1, ours, holds), one("b", 2)}, 1, "b", "a"},
		"not too many any more":         {[]machine{one("a", 1, ours), one("b", 2)}, 2, "", "a"},
		"a newer one came":              {[]machine{one("a", 2, ours), one("b", 1)}, 1, "b", "a"},
		"somebody's mark stays":         {[]machine{one("a", 1, marked(""), holds)}, 1, "", ""},
		"marked one is deleted":         {[]machine{one("a", 1, ours, gone), one("b", 2)}, 1, "", ""},
		"nothing there, nothing wanted": {nil, 0, "", ""},
	} {
		mark, unmark := marks(tc.machines, tc.planned, false)
		if diff := cmp.Diff([]string{tc.mark, tc.unmark}, []string{names(mark), names(unmark)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// A deployment that just became smaller counts as rolling until Cluster API has seen its spec.
	// By then, Cluster API has not deleted any Machine.
	for name, tc := range map[string]struct {
		machines     []machine
		mark, unmark string
	}{
		"none is a surplus":      {[]machine{one("a", 1), one("b", 2)}, "", ""},
		"marks stay":             {[]machine{one("a", 1, ours), one("b", 2)}, "", ""},
		"got a host meanwhile":   {[]machine{one("a", 1, ours, holds), one("b", 2)}, "", "a"},
		"somebody's marks stay":  {[]machine{one("a", 1, marked("yes"), holds)}, "", ""},
		"deleted ones stay such": {[]machine{one("a", 1, ours, gone)}, "", ""},
	} {
		mark, unmark := marks(tc.machines, 0, true)
		if diff := cmp.Diff([]string{tc.mark, tc.unmark}, []string{names(mark), names(unmark)}); diff != "" {
			t.Errorf("rollout, %s (-want +got):\n%s", name, diff)
		}
	}
}
