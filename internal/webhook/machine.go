package webhook

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// +kubebuilder:webhook:path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3machine,verbs=create;update,groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,versions=v1beta2,name=metal3machine.infrastructure.cluster.x-k8s.io,mutating=false,matchPolicy=Equivalent,failurePolicy=fail,sideEffects=None,admissionReviewVersions=v1,timeoutSeconds=10,serviceName=ingot-webhook,serviceNamespace=ingot-system
// +kubebuilder:webhook:path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-metal3machinetemplate,verbs=create;update,groups=infrastructure.cluster.x-k8s.io,resources=metal3machinetemplates,versions=v1beta2,name=metal3machinetemplate.infrastructure.cluster.x-k8s.io,mutating=false,matchPolicy=Equivalent,failurePolicy=fail,sideEffects=None,admissionReviewVersions=v1,timeoutSeconds=10,serviceName=ingot-webhook,serviceNamespace=ingot-system

func (c Checks) machine(_ context.Context, m *v1beta2.Metal3Machine, f *Findings) error {
	c.machineSpec(spec, m.Namespace, &m.Spec, f)
	return nil
}

func (c Checks) machineTemplate(_ context.Context, t *v1beta2.Metal3MachineTemplate, f *Findings) error {
	path := spec.Child("template")
	f.Errors = append(f.Errors, t.Spec.Template.ObjectMeta.Validate(path.Child("metadata"))...)
	c.machineSpec(path.Child("spec"), t.Namespace, &t.Spec.Template.Spec, f)
	return nil
}

// machineTemplates checks templates, and says what a change of a template does.
type machineTemplates struct {
	alone[*v1beta2.Metal3MachineTemplate]
}

// ValidateUpdate warns about a change that existing machines do not get. It does not warn about the
// changes that Cluster API only tries in a dry run.
func (v machineTemplates) ValidateUpdate(ctx context.Context, old, t *v1beta2.Metal3MachineTemplate) (admission.Warnings, error) {
	warnings, err := v.alone.ValidateUpdate(ctx, old, t)
	if _, trial := t.Annotations[clusterv1.TopologyDryRunAnnotation]; !trial && !equality.Semantic.DeepEqual(lasting(old), lasting(t)) {
		var f Findings
		f.warn(spec.Child("template"), "machines that exist keep what they were made with; only automatedCleaningMode and nodeReuse change for them. "+
			"To replace them, make a new template and name it in their owner")
		warnings = append(warnings, f.Warnings...)
	}
	return warnings, err
}

// lasting returns the part of a template that its machines keep when the template changes.
func lasting(t *v1beta2.Metal3MachineTemplate) v1beta2.Metal3MachineTemplateResource {
	resource := t.Spec.Template
	resource.Spec.AutomatedCleaningMode = ""
	return resource
}

// machineSpec checks the spec of a machine, which is at path in an object of the namespace.
func (c Checks) machineSpec(path *field.Path, namespace string, m *v1beta2.Metal3MachineSpec, f *Findings) {
	image := path.Child("image")
	switch {
	case m.Image.URL != "":
		scheme := c.imageURL(image.Child("url"), m.Image.URL, f)
		c.checksum(image.Child("checksum"), scheme, m.Image.Checksum, m.Image.DiskFormat == v1beta2.DiskFormatLiveISO, f)
	case m.CustomDeploy.Method == "":
		f.require(image, "nothing says what is deployed; set image or customDeploy")
	}
	checkSelector(path.Child("hostSelector"), m.HostSelector, f)
	for name, secret := range map[string]*corev1.SecretReference{"userData": m.UserData, "metaData": m.MetaData, "networkData": m.NetworkData} {
		if secret != nil && secret.Namespace != "" && secret.Namespace != namespace {
			f.forbid(path.Child(name, "namespace"), "a host reads Secrets of its own namespace only, which is that of its machine; leave it out, or copy the Secret to namespace %s", namespace)
		}
	}
	if data := m.DataTemplate; data != nil && data.Namespace != "" && data.Namespace != namespace {
		f.forbid(path.Child("dataTemplate", "namespace"), "the data of a machine is rendered in its own namespace; leave it out, or copy the Metal3DataTemplate to namespace %s", namespace)
	}
}

func checkSelector(path *field.Path, s *v1beta2.HostSelector, f *Findings) {
	if s == nil {
		return
	}
	byLabels := v1beta2.HostSelector{MatchLabels: s.MatchLabels}
	if _, err := byLabels.Selector(); err != nil {
		f.refuse(path.Child("matchLabels"), field.OmitValueType{}, "%v", err)
	}
	for i, expression := range s.MatchExpressions {
		if _, err := expression.Requirement(); err != nil {
			f.refuse(path.Child("matchExpressions").Index(i), expression.Operator, "%v", err)
		}
	}
}
