package host

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// secretsField is the index of hosts by all Secrets that they name, including those that do not
// exist yet. It says which hosts a Secret wakes; accessField says which hosts keep a Secret.
const secretsField = "spec.secrets"

func allSecretsOf(obj client.Object) []string {
	h, ok := obj.(*v1alpha1.BareMetalHost)
	if !ok {
		return nil
	}
	return distinct(append(secretsOf(h), dataSecretsOf(h)...))
}

// dataSecretsOf returns the names of the Secrets that a deployment or the ramdisk of a host uses,
// apart from those with the credentials of the BMC.
func dataSecretsOf(h *v1alpha1.BareMetalHost) []string {
	names := []string{h.Spec.PreprovisioningNetworkDataName}
	for _, ref := range []*corev1.SecretReference{h.Spec.UserData, h.Spec.MetaData, h.Spec.NetworkData} {
		if ref != nil && (ref.Namespace == "" || ref.Namespace == h.Namespace) {
			names = append(names, ref.Name)
		}
	}
	for _, image := range []*v1alpha1.Image{h.Spec.Image, h.Status.LastAttemptedImage} {
		if image != nil && image.OCIAuthSecretName != nil {
			names = append(names, *image.OCIAuthSecretName)
		}
	}
	return distinct(names)
}

// distinct sorts names and drops empty ones and duplicates.
func distinct(names []string) []string {
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// dataVersions notes the versions that the Secrets of dataSecretsOf have in the shared cache at the
// beginning of a pass. They are never newer than what the pass reads later, so no failure is
// recorded for a version that was not tried.
type dataVersions struct{ client client.Client }

func (p dataVersions) reconcile(ctx context.Context, s *scope) (result, error) {
	names := dataSecretsOf(s.host)
	if len(names) == 0 {
		return result{}, nil
	}
	s.dataVersions = make(map[string]string, len(names))
	for _, name := range names {
		secret := watch.SecretMetadata()
		err := p.client.Get(ctx, client.ObjectKey{Namespace: s.host.Namespace, Name: name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return stopped(), fmt.Errorf("read the version of Secret %s: %w", name, err)
		}
		s.dataVersions[name] = secret.ResourceVersion
		if apierrors.IsNotFound(err) {
			s.dataVersions[name] = "0"
		}
	}
	return result{}, nil
}
