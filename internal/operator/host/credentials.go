package host

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

// credentials reads the Secret with the BMC's credentials, and claims it: the label lets
// the shared cache see it, the owner lets its changes reconcile the host, and the
// finalizer keeps it while a host refers to it. A host never waits for its Secret to be
// deleted: the engine has the credentials.
type credentials struct {
	client  client.Client
	live    client.Reader
	metrics *Metrics
}

// found are credentials with the version of their Secret.
type found struct {
	bmc.Credentials

	status v1alpha1.CredentialsStatus
}

func (p credentials) reconcile(ctx context.Context, s *scope) (result, error) {
	deleted := !s.host.DeletionTimestamp.IsZero()
	if !s.host.HasBMC() || !registeredStates[s.state()] || deleted && !needsNode(s.host) {
		return result{}, nil
	}
	credentials, err := p.read(ctx, s.host)
	if err != nil {
		return result{stop: true}, err
	}
	s.credentials = &credentials
	s.credentialsVersion = credentials.status.Version
	return result{}, nil
}

// read returns the credentials of a host. Errors that a person has to mend are failures.
func (p credentials) read(ctx context.Context, h *v1alpha1.BareMetalHost) (found, error) {
	name := h.Spec.BMC.CredentialsName
	switch {
	case h.Spec.BMC.Address == "":
		return found{}, registrationError("spec.bmc.address is empty; set it, or remove spec.bmc for a machine without a BMC")
	case name == "":
		return found{}, registrationError("spec.bmc.credentialsName is empty; set it to a Secret with the keys username and password")
	}
	var secret corev1.Secret
	err := p.live.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		count(p.metrics.noSecret, h)
		return found{}, registrationError("Secret %s with the BMC's credentials does not exist; create it with the keys username and password", name)
	}
	if err != nil {
		count(p.metrics.secretErrors, h)
		return found{}, fmt.Errorf("read Secret %s: %w", name, err)
	}
	read := found{}
	if read.Credentials, err = bmc.ReadCredentials(secret.Data); err != nil {
		count(p.metrics.badSecret, h)
		return found{}, registrationError("Secret %s: %w", name, err)
	}
	if err := p.claim(ctx, h, &secret); err != nil {
		return found{}, err
	}
	read.status = v1alpha1.CredentialsStatus{
		Reference: &corev1.SecretReference{Namespace: h.Namespace, Name: name},
		Version:   secret.ResourceVersion,
	}
	return read, nil
}

func registrationError(format string, args ...any) error {
	return &failure{v1alpha1.OperationRegister, fmt.Errorf(format, args...)}
}

// claim writes label, owner and finalizer where they are missing.
func (p credentials) claim(ctx context.Context, h *v1alpha1.BareMetalHost, secret *corev1.Secret) error {
	if !secret.DeletionTimestamp.IsZero() {
		return nil // it takes no more finalizers; it is read as long as it is there
	}
	before := secret.DeepCopy()
	if secret.Labels[v1alpha1.SecretLabel] != v1alpha1.SecretLabelValue {
		if secret.Labels == nil {
			secret.Labels = map[string]string{}
		}
		secret.Labels[v1alpha1.SecretLabel] = v1alpha1.SecretLabelValue
	}
	controllerutil.AddFinalizer(secret, v1alpha1.SecretFinalizer)
	owner := ownerReference(h)
	owner.Controller, owner.BlockOwnerDeletion = nil, nil // several hosts may share it
	if !ownedBy(secret.OwnerReferences, owner) {
		secret.OwnerReferences = append(secret.OwnerReferences, owner)
	}
	return patchMeta(ctx, p.client, secret, before)
}

// release removes the finalizer from the Secret of a deleted host, unless another host
// still refers to it, and the host from its owners.
func (p credentials) release(ctx context.Context, h *v1alpha1.BareMetalHost) error {
	name := h.Spec.BMC.CredentialsName
	if name == "" {
		return nil
	}
	var secret corev1.Secret
	if err := p.live.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, &secret); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := secret.DeepCopy()
	var owners []metav1.OwnerReference
	others := false
	for _, owner := range secret.OwnerReferences {
		if owner.UID == h.UID {
			continue
		}
		owners = append(owners, owner)
		others = others || owner.Kind == "BareMetalHost"
	}
	if others {
		// The last owner takes the Secret with it, so this one goes before its host does.
		secret.OwnerReferences = owners
	} else {
		controllerutil.RemoveFinalizer(&secret, v1alpha1.SecretFinalizer)
	}
	return client.IgnoreNotFound(patchMeta(ctx, p.client, &secret, before))
}

func ownedBy(owners []metav1.OwnerReference, owner metav1.OwnerReference) bool {
	for _, other := range owners {
		if other.UID == owner.UID {
			return true
		}
	}
	return false
}
