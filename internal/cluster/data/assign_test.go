package data

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

const ns = "rack"

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testTemplate(name string) *v1beta2.Metal3DataTemplate {
	return &v1beta2.Metal3DataTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       v1beta2.Metal3DataTemplateSpec{ClusterName: "edge"},
	}
}

// testClaim is a claim of template t that was made some seconds after the epoch.
func testClaim(name string, age int, change ...func(*v1beta2.Metal3DataClaim)) *v1beta2.Metal3DataClaim {
	c := &v1beta2.Metal3DataClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, CreationTimestamp: metav1.NewTime(epoch.Add(time.Duration(age) * time.Second))},
		Spec:       v1beta2.Metal3DataClaimSpec{Template: corev1.ObjectReference{Name: "t"}},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func ending(c *v1beta2.Metal3DataClaim) {
	c.DeletionTimestamp = &metav1.Time{Time: epoch}
	c.Finalizers = []string{v1beta2.DataClaimFinalizer}
}

func rendered(name string) func(*v1beta2.Metal3DataClaim) {
	return func(c *v1beta2.Metal3DataClaim) { c.Status.RenderedData = &corev1.ObjectReference{Name: name} }
}

// testData is data of template t.
func testData(index int32, claim string, change ...func(*v1beta2.Metal3Data)) *v1beta2.Metal3Data {
	d := &v1beta2.Metal3Data{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: dataName("t", index)},
		Spec: v1beta2.Metal3DataSpec{
			Index: index, Claim: corev1.ObjectReference{Namespace: ns, Name: claim}, Template: corev1.ObjectReference{Namespace: ns, Name: "t"},
		},
	}
	for _, f := range change {
		f(d)
	}
	return d
}

func endingData(d *v1beta2.Metal3Data) { d.DeletionTimestamp = &metav1.Time{Time: epoch} }

func TestClaimsGetTheLowestFreeIndexesInTheOrderOfTheirAge(t *testing.T) {
	present, deleted := testTemplate("t"), testTemplate("t")
	deleted.DeletionTimestamp = &metav1.Time{Time: epoch}
	type outcome struct {
		Claim  string
		Action action
		Index  int32
		Text   string // a part of the refusal
	}
	for _, tt := range []struct {
		name     string
		template *v1beta2.Metal3DataTemplate
		claims   []*v1beta2.Metal3DataClaim
		existing []*v1beta2.Metal3Data
		want     []outcome
		extra    []string
	}{
		{
			name: "oldest first, then by name", template: present,
			claims: []*v1beta2.Metal3DataClaim{testClaim("c", 2), testClaim("b", 1), testClaim("a", 1)},
			want:   []outcome{{"a", actionCreate, 0, ""}, {"b", actionCreate, 1, ""}, {"c", actionCreate, 2, ""}},
		},
		{
			name: "gaps are filled", template: present,
			claims:   []*v1beta2.Metal3DataClaim{testClaim("a", 1), testClaim("b", 2), testClaim("c", 3), testClaim("d", 4)},
			existing: []*v1beta2.Metal3Data{testData(0, "a"), testData(2, "b")},
			want:     []outcome{{"a", actionPoint, 0, ""}, {"b", actionPoint, 0, ""}, {"c", actionCreate, 1, ""}, {"d", actionCreate, 3, ""}},
		},
		{
			name: "data that is made, but not in the status of the claim", template: present,
			claims:   []*v1beta2.Metal3DataClaim{testClaim("old", 0), testClaim("new", 1)},
			existing: []*v1beta2.Metal3Data{testData(0, "new")},
			want:     []outcome{{"old", actionCreate, 1, ""}, {"new", actionPoint, 0, ""}},
		},
		{
			name: "data that is being deleted keeps its index", template: present,
			claims:   []*v1beta2.Metal3DataClaim{testClaim("gone", 0, ending), testClaim("new", 1)},
			existing: []*v1beta2.Metal3Data{testData(0, "gone", endingData)},
			want:     []outcome{{"gone", actionWait, 0, ""}, {"new", actionCreate, 1, ""}},
		},
		{
			name: "data of the name that belongs to no template takes the index", template: present,
			claims:   []*v1beta2.Metal3DataClaim{testClaim("a", 0)},
			existing: []*v1beta2.Metal3Data{testData(0, "a", func(d *v1beta2.Metal3Data) { d.Spec.Template.Name = "other" })},
			want:     []outcome{{"a", actionCreate, 1, ""}},
		},
		{
			name: "templates whose names begin alike", template: present,
			claims:   []*v1beta2.Metal3DataClaim{testClaim("a", 0)},
			existing: []*v1beta2.Metal3Data{testData(0, "x", func(d *v1beta2.Metal3Data) { d.Name, d.Spec.Template.Name = "t-0-0", "t-0" })},
			want:     []outcome{{"a", actionCreate, 0, ""}},
		},
		{
			name: "two data of one claim: that of the status stays", template: present,
			claims:   []*v1beta2.Metal3DataClaim{testClaim("a", 0, rendered("t-1"))},
			existing: []*v1beta2.Metal3Data{testData(0, "a"), testData(1, "a")},
			want:     []outcome{{"a", actionPoint, 0, ""}}, extra: []string{"t-0"},
		},
		{
			name: "data without a claim", template: present,
			existing: []*v1beta2.Metal3Data{testData(3, "nobody")}, extra: []string{"t-3"},
		},
		{
			name: "deleted claims", template: present,
			claims: []*v1beta2.Metal3DataClaim{
				testClaim("full", 0, ending), testClaim("empty", 1, ending),
				testClaim("foreign", 2, ending, func(c *v1beta2.Metal3DataClaim) { c.Finalizers = []string{"other"} }),
				testClaim("metal3", 3, ending, func(c *v1beta2.Metal3DataClaim) { c.Finalizers = []string{v1beta2.MachineFinalizer} }),
			},
			existing: []*v1beta2.Metal3Data{testData(0, "full")},
			want:     []outcome{{"full", actionRemove, 0, ""}, {"empty", actionRelease, 0, ""}, {"foreign", actionNone, 0, ""}, {"metal3", actionRelease, 0, ""}},
		},
		{
			name:     "no template",
			claims:   []*v1beta2.Metal3DataClaim{testClaim("a", 0), testClaim("b", 1), testClaim("c", 2, ending)},
			existing: []*v1beta2.Metal3Data{testData(0, "b")},
			want:     []outcome{{"a", actionRefuse, 0, "does not exist"}, {"b", actionPoint, 0, ""}, {"c", actionRelease, 0, ""}},
		},
		{
			name: "template that is being deleted", template: deleted,
			claims: []*v1beta2.Metal3DataClaim{testClaim("a", 0)},
			want:   []outcome{{"a", actionRefuse, 0, "being deleted"}},
		},
		{
			name: "template of another namespace", template: present,
			claims: []*v1beta2.Metal3DataClaim{testClaim("a", 0, func(c *v1beta2.Metal3DataClaim) { c.Spec.Template.Namespace = "elsewhere" })},
			want:   []outcome{{"a", actionRefuse, 0, "is in namespace elsewhere"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := assign("t", tt.template, tt.claims, tt.existing)
			var got []outcome
			for i, s := range a.steps {
				o := outcome{s.claim.Name, s.action, s.index, s.text}
				if i < len(tt.want) && tt.want[i].Text != "" && strings.Contains(o.Text, tt.want[i].Text) {
					o.Text = tt.want[i].Text
				}
				got = append(got, o)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			var extra []string
			for _, d := range a.extra {
				extra = append(extra, d.Name)
			}
			if diff := cmp.Diff(tt.extra, extra); diff != "" {
				t.Errorf("extra data (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIndexesOfATemplateAreBounded(t *testing.T) {
	var existing []*v1beta2.Metal3Data
	for i := range int32(maxIndexes) {
		existing = append(existing, testData(i, dataName("m", i)))
	}
	var claims []*v1beta2.Metal3DataClaim
	for _, d := range existing {
		claims = append(claims, testClaim(d.Spec.Claim.Name, 0))
	}
	claims = append(claims, testClaim("late", 1))
	steps := assign("t", testTemplate("t"), claims, existing).steps
	if last := steps[len(steps)-1]; last.action != actionRefuse || !strings.Contains(last.text, "2000 indexes in use") {
		t.Errorf("claim %s: %+v, want it refused", last.claim.Name, last)
	}
	long := strings.Repeat("t", 245)
	claim := testClaim("a", 0, func(c *v1beta2.Metal3DataClaim) { c.Spec.Template.Name = long })
	if s := assign(long, testTemplate(long), []*v1beta2.Metal3DataClaim{claim}, nil).steps[0]; s.action != actionRefuse || !strings.Contains(s.text, "too long a name") {
		t.Errorf("template with a long name: %+v, want it refused", s)
	}
}

func TestIndexesThatAreInUseAreListedInTheirOrder(t *testing.T) {
	got := indexes("t", []*v1beta2.Metal3Data{
		testData(10, "b"), testData(2, "a", endingData), testData(0, "other", func(d *v1beta2.Metal3Data) { d.Spec.Template.Name = "u" }),
	})
	if diff := cmp.Diff([]v1beta2.IndexEntry{{Name: "a", Index: 2}, {Name: "b", Index: 10}}, got); diff != "" {
		t.Errorf("indexes (-want +got):\n%s", diff)
	}
}

func TestDataIsReadyOnlyForTheHostThatItWasRenderedFor(t *testing.T) {
	data := func(host string, ready bool) *v1beta2.Metal3Data {
		return testData(0, "m", func(d *v1beta2.Metal3Data) {
			d.Annotations, d.Status.Ready = map[string]string{v1beta2.HostAnnotation: host}, ready
		})
	}
	for _, tt := range []struct {
		data    *v1beta2.Metal3Data
		machine string
		want    bool
	}{
		{data("rack/web", true), "rack/web", true},
		{data("rack/web", true), "rack/db", false},
		{data("rack/web", false), "rack/web", false},
		{data("", true), "", false},
		{testData(0, "m", endingData), "rack/web", false},
	} {
		m := &v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1beta2.HostAnnotation: tt.machine}}}
		if got := ReadyFor(tt.data, m); got != tt.want {
			t.Errorf("data %+v for %q: %v, want %v", tt.data.ObjectMeta, tt.machine, got, tt.want)
		}
	}
}
