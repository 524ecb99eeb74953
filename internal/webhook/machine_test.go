package webhook_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// machineRows are specs of machines, and what is to be said about them.
func machineRows() map[string]struct {
	change func(*v1beta2.Metal3MachineSpec)
	err    string
} {
	type spec = v1beta2.Metal3MachineSpec
	expression := func(operator string, values ...string) func(*spec) {
		return func(s *spec) {
			s.HostSelector = &v1beta2.HostSelector{MatchExpressions: []v1beta2.HostSelectorRequirement{{Key: "rack", Operator: operator, Values: values}}}
		}
	}
	return map[string]struct {
		change func(*spec)
		err    string
	}{
		"image":                    {func(*spec) {}, ""},
		"nothing to deploy":        {func(s *spec) { s.Image = v1beta2.Image{} }, "image: Required value: nothing says what is deployed"},
		"custom deploy":            {func(s *spec) { s.Image, s.CustomDeploy.Method = v1beta2.Image{}, "install" }, ""},
		"image and custom deploy":  {func(s *spec) { s.CustomDeploy.Method = "install" }, ""},
		"image that is no URL":     {func(s *spec) { s.Image.URL = "os.qcow2" }, `image.url: Invalid value: "os.qcow2": is not a URL`},
		"image without a checksum": {func(s *spec) { s.Image.Checksum = "" }, "image.checksum: Required value"},
		"checksum of the engine":   {func(s *spec) { s.Image.Checksum = "http://localhost/os.sha256" }, `image.checksum: Invalid value: "http://localhost/os.sha256": may not be given`},
		"live image":               {func(s *spec) { s.Image.Checksum, s.Image.DiskFormat = "", "live-iso" }, ""},
		"image of a registry":      {func(s *spec) { s.Image = v1beta2.Image{URL: "oci://example.org/os@sha256:1"} }, ""},
		"registry with a checksum": {func(s *spec) { s.Image.URL = "oci://example.org/os" }, "image.checksum: Forbidden"},
		"operator in capitals":     {expression("In", "r1"), ""},
		"DoesNotExist":             {expression("DoesNotExist"), ""},
		"unknown operator":         {expression("like", "r1"), `hostSelector.matchExpressions[0]: Invalid value: "like"`},
		"operator without values":  {expression("in"), "hostSelector.matchExpressions[0]"},
		"label that cannot be":     {func(s *spec) { s.HostSelector = &v1beta2.HostSelector{MatchLabels: map[string]string{"a b": ""}} }, "hostSelector.matchLabels"},
		"Secret of the namespace":  {func(s *spec) { s.UserData = &corev1.SecretReference{Name: "s", Namespace: "racks"} }, ""},
		"Secret without one":       {func(s *spec) { s.MetaData = &corev1.SecretReference{Name: "s"} }, ""},
		"user data from elsewhere": {func(s *spec) { s.UserData = &corev1.SecretReference{Name: "s", Namespace: "other"} }, "userData.namespace: Forbidden"},
		"metadata from elsewhere":  {func(s *spec) { s.MetaData = &corev1.SecretReference{Name: "s", Namespace: "other"} }, "metaData.namespace: Forbidden"},
		"network from elsewhere":   {func(s *spec) { s.NetworkData = &corev1.SecretReference{Name: "s", Namespace: "other"} }, "networkData.namespace: Forbidden"},
		"template of data":         {func(s *spec) { s.DataTemplate = &v1beta2.ObjectReference{Name: "d", Namespace: "racks"} }, ""},
		"data from elsewhere":      {func(s *spec) { s.DataTemplate = &v1beta2.ObjectReference{Name: "d", Namespace: "other"} }, "dataTemplate.namespace: Forbidden"},
	}
}

func machine() *v1beta2.Metal3Machine {
	m := &v1beta2.Metal3Machine{ObjectMeta: meta("worker-1")}
	m.Spec.Image = v1beta2.Image{URL: "https://example.org/os.qcow2", Checksum: "https://example.org/os.sha256"}
	return m
}

func machineTemplate() *v1beta2.Metal3MachineTemplate {
	t := &v1beta2.Metal3MachineTemplate{ObjectMeta: meta("workers")}
	t.Spec.Template.Spec = machine().Spec
	return t
}

func TestEveryRuleForMachinesAcceptsAndRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, r := range machineRows() {
		m, template := machine(), machineTemplate()
		r.change(&m.Spec)
		r.change(&template.Spec.Template.Spec)
		for at, got := range map[string]answer{"spec.": b.ask("metal3machine", nil, m), "spec.template.spec.": b.ask("metal3machinetemplate", nil, template)} {
			want := r.err
			if want != "" {
				want = at + want
			}
			if got.allowed != (want == "") || !strings.Contains(got.message, want) || len(got.warnings) > 0 {
				t.Errorf("%s: %+v, want an error with %q", name, got, want)
			}
		}
		if r.err == "" {
			continue
		}
		changed := m.DeepCopy()
		changed.Finalizers = []string{v1beta2.MachineFinalizer}
		if got := b.ask("metal3machine", m, changed); !got.allowed || len(got.warnings) != 1 {
			t.Errorf("%s, which was so before: %+v, want a warning", name, got)
		}
	}
}

func TestLabelsOfATemplateThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	template := machineTemplate()
	template.Spec.Template.ObjectMeta.Labels = map[string]string{"a b": "c"}
	if got := newBench(t).ask("metal3machinetemplate", nil, template); got.allowed || !strings.Contains(got.message, "spec.template.metadata.labels") {
		t.Errorf("%+v", got)
	}
}

// TestChangesOfATemplateThatExistingMachinesDoNotGetAreWarnedAbout makes each change alone.
func TestChangesOfATemplateThatExistingMachinesDoNotGetAreWarnedAbout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, tt := range map[string]struct {
		change func(*v1beta2.Metal3MachineTemplate)
		warns  bool
	}{
		"nothing":    {func(*v1beta2.Metal3MachineTemplate) {}, false},
		"node reuse": {func(t *v1beta2.Metal3MachineTemplate) { t.Spec.NodeReuse = new(true) }, false},
		"cleaning":   {func(t *v1beta2.Metal3MachineTemplate) { t.Spec.Template.Spec.AutomatedCleaningMode = "disabled" }, false},
		"own labels": {func(t *v1beta2.Metal3MachineTemplate) { t.Labels = map[string]string{"a": "b"} }, false},
		"image": {func(t *v1beta2.Metal3MachineTemplate) {
			t.Spec.Template.Spec.Image.URL = "https://example.org/new.qcow2"
		}, true},
		"their labels": {func(t *v1beta2.Metal3MachineTemplate) {
			t.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b"}
		}, true},
		"a trial of Cluster API": {func(t *v1beta2.Metal3MachineTemplate) {
			t.Annotations = map[string]string{clusterv1.TopologyDryRunAnnotation: ""}
			t.Spec.Template.Spec.Image.URL = "https://example.org/new.qcow2"
		}, false},
	} {
		old, changed := machineTemplate(), machineTemplate()
		tt.change(changed)
		if got := b.ask("metal3machinetemplate", old, changed); !got.allowed || (len(got.warnings) > 0) != tt.warns {
			t.Errorf("%s: %+v, want a warning: %v", name, got, tt.warns)
		}
	}
}
