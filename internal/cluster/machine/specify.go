package machine

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// secrets are the Secrets with which a host is deployed; nil means none.
type secrets struct{ userData, metaData, networkData *corev1.SecretReference }

// secretsOf returns the Secrets with which the host of a machine is deployed. Those that the spec
// names come first, then those that are rendered for the machine. The user data is otherwise the
// bootstrap data of the Machine.
func secretsOf(m *v1beta2.Metal3Machine, machine *clusterv1.Machine, rendered secrets) secrets {
	s := secrets{
		userData:    cmp.Or(within(m.Namespace, m.Spec.UserData), bootstrapOf(machine)),
		metaData:    cmp.Or(within(m.Namespace, m.Spec.MetaData), rendered.metaData),
		networkData: cmp.Or(within(m.Namespace, m.Spec.NetworkData), rendered.networkData),
	}
	return s
}

// bootstrapOf returns the Secret with the bootstrap data of a Machine, or nil.
func bootstrapOf(machine *clusterv1.Machine) *corev1.SecretReference {
	if machine == nil || machine.Spec.Bootstrap.DataSecretName == nil || *machine.Spec.Bootstrap.DataSecretName == "" {
		return nil
	}
	return &corev1.SecretReference{Namespace: machine.Namespace, Name: *machine.Spec.Bootstrap.DataSecretName}
}

// within completes a reference with the namespace of the object that it is in. A reference without
// a name becomes nil.
func within(namespace string, ref *corev1.SecretReference) *corev1.SecretReference {
	if ref == nil || ref.Name == "" {
		return nil
	}
	return &corev1.SecretReference{Namespace: cmp.Or(ref.Namespace, namespace), Name: ref.Name}
}

// deploy edits a host object so that the host deploys what a machine wants.
func deploy(h *v1alpha1.BareMetalHost, m *v1beta2.Metal3Machine, s secrets) {
	if image := m.Spec.Image; image.URL != "" {
		h.Spec.Image = &v1alpha1.Image{URL: image.URL, Checksum: image.Checksum, ChecksumType: v1alpha1.ChecksumType(image.ChecksumType)}
		if image.DiskFormat != "" {
			h.Spec.Image.DiskFormat = &image.DiskFormat
		}
	}
	if method := m.Spec.CustomDeploy.Method; method != "" {
		h.Spec.CustomDeploy = &v1alpha1.CustomDeploy{Method: method}
	}
	h.Spec.UserData, h.Spec.MetaData, h.Spec.NetworkData = s.userData, s.metaData, s.networkData
	h.Spec.Online = true
	clean(h, m.Spec.AutomatedCleaningMode)
}

// clean sets the cleaning mode of a host; an empty mode leaves that of the host.
func clean(h *v1alpha1.BareMetalHost, mode string) {
	if mode != "" {
		h.Spec.AutomatedCleaningMode = v1alpha1.AutomatedCleaningMode(mode)
	}
}

// specify has the host deployed. It returns nil when something is missing; the conditions say what.
// It happens once in the life of a machine: a host that has, or had, something deployed keeps its
// spec.
func (p *pass) specify(ctx context.Context, h *v1alpha1.BareMetalHost) (*v1alpha1.BareMetalHost, error) {
	s := p.secrets()
	switch {
	case s.userData == nil:
		p.notReady("The machine has no bootstrap data yet.")
		return nil, nil
	case p.m.Spec.Image.URL == "" && p.m.Spec.CustomDeploy.Method == "":
		p.notReady("Nothing says what is deployed: the spec has neither image nor customDeploy.")
		return nil, nil
	}
	if err := p.labelSecret(ctx, h, true); err != nil {
		return nil, err
	}
	// The status says which Secrets are taken back when the machine is deleted.
	p.deployed(h)
	if err := p.writeStatus(ctx); err != nil {
		return nil, err
	}
	return p.patchHost(ctx, h, func(h *v1alpha1.BareMetalHost) { deploy(h, p.m, s) })
}

// secrets returns the Secrets of the machine. Those that are rendered are in its status.
func (p *pass) secrets() secrets {
	return secretsOf(p.m, p.machine, secrets{metaData: p.m.Status.MetaData, networkData: p.m.Status.NetworkData})
}

// labelSecret labels the Secret of the host's BMC with the name of the Cluster, or removes the
// label. The host's operator, not this controller, makes clusterctl move the Secret, because hosts
// are moved whether they are in use or not.
func (p *pass) labelSecret(ctx context.Context, h *v1alpha1.BareMetalHost, used bool) error {
	if h.Spec.BMC.CredentialsName == "" {
		return nil
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	key := client.ObjectKey{Namespace: h.Namespace, Name: h.Spec.BMC.CredentialsName}
	if err := p.Live.Get(ctx, key, secret); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil // the host's condition says so
		}
		return fmt.Errorf("read the labels of Secret %s with the credentials of host %s: %w", key, h.Name, err)
	}
	before := secret.DeepCopy()
	if used {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, clusterv1.ClusterNameLabel, h.Labels[clusterv1.ClusterNameLabel])
	} else {
		delete(secret.Labels, clusterv1.ClusterNameLabel)
	}
	if maps.Equal(before.Labels, secret.Labels) {
		return nil
	}
	if err := p.Client.Patch(ctx, secret, client.MergeFrom(before)); err != nil && client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("label Secret %s with the credentials of host %s: %w", key, h.Name, err)
	}
	return nil
}

// copyCleaningMode gives the machine the cleaning mode of the template that it was made from, if that
// has one.
func (p *pass) copyCleaningMode(ctx context.Context, r client.Reader) error {
	name := templateOf(p.m)
	if name == "" {
		return nil
	}
	var template v1beta2.Metal3MachineTemplate
	if err := r.Get(ctx, client.ObjectKey{Namespace: p.m.Namespace, Name: name}, &template); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("read Metal3MachineTemplate %s/%s: %w", p.m.Namespace, name, err)
	}
	mode := template.Spec.Template.Spec.AutomatedCleaningMode
	if mode == "" {
		return nil
	}
	return p.patchMachine(ctx, func(m *v1beta2.Metal3Machine) { m.Spec.AutomatedCleaningMode = mode })
}

// templateOf returns the name of the Metal3MachineTemplate that a machine was made from; empty when
// it was made by hand.
func templateOf(m *v1beta2.Metal3Machine) string {
	if m.Annotations[clusterv1.TemplateClonedFromGroupKindAnnotation] != "Metal3MachineTemplate."+v1beta2.GroupVersion.Group {
		return ""
	}
	return m.Annotations[clusterv1.TemplateClonedFromNameAnnotation]
}
