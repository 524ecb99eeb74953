package autoscale

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// deployment is a MachineDeployment that follows hosts, changed by edits.
func deployment(name string, edits ...func(*clusterv1.MachineDeployment)) *clusterv1.MachineDeployment {
	replicas := int32(1)
	d := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "metal", UID: types.UID(name), Labels: map[string]string{},
		Annotations: map[string]string{v1beta2.AutoscaleToHostsAnnotation: ""},
	}}
	d.Spec.Replicas, d.Spec.ClusterName = &replicas, "edge"
	d.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: v1beta2.GroupVersion.Group, Kind: templateKind, Name: "worker",
	}
	for _, edit := range edits {
		edit(d)
	}
	return d
}

// template selects hosts by their rack.
func template(rack string) *v1beta2.Metal3MachineTemplate {
	t := &v1beta2.Metal3MachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "worker", Namespace: "metal"}}
	if rack != "" {
		t.Spec.Template.Spec.HostSelector = &v1beta2.HostSelector{MatchLabels: map[string]string{"rack": rack}}
	}
	return t
}

func annotate(key, value string) func(*clusterv1.MachineDeployment) {
	return func(d *clusterv1.MachineDeployment) { d.Annotations[key] = value }
}

func TestSetsThatCannotFollowAreRefused(t *testing.T) {
	t.Parallel()
	yes := true
	broken := template("a")
	broken.Spec.Template.Spec.HostSelector.MatchExpressions = []v1beta2.HostSelectorRequirement{{Key: "rack", Operator: "near"}}
	all := annotate(v1beta2.AutoscaleToHostsAnnotation, v1beta2.AutoscaleAllHosts)
	for name, tc := range map[string]struct {
		edits    []func(*clusterv1.MachineDeployment)
		template *v1beta2.Metal3MachineTemplate
		cluster  *clusterv1.Cluster
		want     string
		says     string
	}{
		"usual":                       {template: template("a")},
		"bounds":                      {edits: []func(*clusterv1.MachineDeployment){annotate(v1beta2.AutoscaleMinAnnotation, "0"), annotate(v1beta2.AutoscaleMaxAnnotation, "0")}, template: template("a")},
		"all hosts":                   {edits: []func(*clusterv1.MachineDeployment){all}, template: template("")},
		"all hosts, but a selector":   {edits: []func(*clusterv1.MachineDeployment){all}, template: template("a")},
		"another Cluster, not paused": {template: template("a"), cluster: &clusterv1.Cluster{}},
		"no selector":                 {template: template(""), want: v1beta2.AutoscaleNoSelectorReason, says: `"all-hosts"`},
		"no template":                 {want: v1beta2.AutoscaleTemplateMissingReason, says: "metal/worker"},
		"selector that is wrong":      {template: broken, want: v1beta2.AutoscaleInvalidSelectorReason, says: "near"},
		"least is no number":          {edits: []func(*clusterv1.MachineDeployment){annotate(v1beta2.AutoscaleMinAnnotation, "few")}, template: template("a"), want: v1beta2.AutoscaleInvalidBoundsReason, says: `"few"`},
		"most is negative":            {edits: []func(*clusterv1.MachineDeployment){annotate(v1beta2.AutoscaleMaxAnnotation, "-1")}, template: template("a"), want: v1beta2.AutoscaleInvalidBoundsReason, says: `"-1"`},
		"least above most":            {edits: []func(*clusterv1.MachineDeployment){annotate(v1beta2.AutoscaleMinAnnotation, "4"), annotate(v1beta2.AutoscaleMaxAnnotation, "3")}, template: template("a"), want: v1beta2.AutoscaleInvalidBoundsReason, says: "4"},
		"most is huge":                {edits: []func(*clusterv1.MachineDeployment){annotate(v1beta2.AutoscaleMaxAnnotation, "99999999999")}, template: template("a"), want: v1beta2.AutoscaleInvalidBoundsReason},
		"smallest of cluster scaler":  {edits: []func(*clusterv1.MachineDeployment){annotate(clusterv1.AutoscalerMinSizeAnnotation, "1")}, template: template("a"), want: v1beta2.AutoscaleConflictReason},
		"largest of cluster scaler":   {edits: []func(*clusterv1.MachineDeployment){annotate(clusterv1.AutoscalerMaxSizeAnnotation, "1")}, template: template("a"), want: v1beta2.AutoscaleConflictReason},
		"owned by a topology":         {edits: []func(*clusterv1.MachineDeployment){func(d *clusterv1.MachineDeployment) { d.Labels[clusterv1.ClusterTopologyOwnedLabel] = "" }}, template: template("a"), want: v1beta2.AutoscaleTopologyReason},
		"other machines": {edits: []func(*clusterv1.MachineDeployment){func(d *clusterv1.MachineDeployment) {
			d.Spec.Template.Spec.InfrastructureRef.Kind = "DockerMachineTemplate"
		}}, want: v1beta2.AutoscaleOtherMachinesReason, says: "DockerMachineTemplate"},
		"such machines of other group": {edits: []func(*clusterv1.MachineDeployment){func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.APIGroup = "example.com" }}, template: template("a"), want: v1beta2.AutoscaleOtherMachinesReason},
		"paused by annotation":         {edits: []func(*clusterv1.MachineDeployment){annotate(clusterv1.PausedAnnotation, "")}, template: template("a"), want: v1beta2.AutoscalePausedReason},
		"paused by its spec":           {edits: []func(*clusterv1.MachineDeployment){func(d *clusterv1.MachineDeployment) { d.Spec.Paused = &yes }}, template: template("a"), want: v1beta2.AutoscalePausedReason},
		"paused Cluster":               {template: template("a"), cluster: &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: &yes}}, want: v1beta2.AutoscalePausedReason},
	} {
		s := asSet(deployment("d", tc.edits...))
		s.template, s.cluster = tc.template, tc.cluster
		got := s.check()
		if got == nil {
			got = &refusal{}
		}
		if got.reason != tc.want || !strings.Contains(got.message, tc.says) {
			t.Errorf("%s: refused because %q: %s; want %q with %q", name, got.reason, got.message, tc.want, tc.says)
		}
	}
}

func TestControlPlanesAreRefused(t *testing.T) {
	t.Parallel()
	u := newControlPlane()
	u.SetAnnotations(map[string]string{v1beta2.AutoscaleToHostsAnnotation: v1beta2.AutoscaleAllHosts})
	plane := &controlPlane{u}
	s := asSet(plane)
	if got := s.check(); !s.follows() || got == nil || got.reason != v1beta2.AutoscaleControlPlaneReason {
		t.Errorf("refused: %+v, want %q", got, v1beta2.AutoscaleControlPlaneReason)
	}
	condition := metav1.Condition{Type: v1beta2.AutoscaledToHostsCondition, Status: metav1.ConditionFalse, Reason: "R", Message: "m", LastTransitionTime: metav1.NewTime(now)}
	plane.SetConditions([]metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}, condition})
	if !asSet(&controlPlane{u.DeepCopyObject().(*unstructured.Unstructured)}).followed() {
		t.Errorf("the condition is not found in %v", u.Object)
	}
	if got := plane.GetConditions(); len(got) != 2 || got[1].Message != "m" || !got[1].LastTransitionTime.Time.Equal(now) {
		t.Errorf("conditions are %v", got)
	}
}
