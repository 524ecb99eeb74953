package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

// credentials reads the Secret with the BMC's credentials, and claims it. The labels say what the
// Secret is for and that it moves with the hosts. The finalizer keeps it while a host refers to it.
// The deletion of a Secret never holds a host up: the engine has the credentials.
type credentials struct {
	client     client.Client
	live       client.Reader
	maxBackoff time.Duration
	metrics    *Metrics
}

// secretContents are credentials with the version of their Secret.
type secretContents struct {
	bmc.Credentials

	status v1alpha1.CredentialsStatus
	// version is written into the node, where nothing else names the Secret; see
	// v1alpha1.NodeCredentialsKey.
	version string
}

func (p credentials) reconcile(ctx context.Context, s *scope) (result, error) {
	if !s.host.HasBMC() || !registeredStates[s.state()] || isLeaving(s.host) && !needsNode(s.host) {
		return result{}, nil
	}
	credentials, err := p.read(ctx, s.host)
	s.credentialsVersion = credentials.status.Version
	if credentials.status.Reference != nil {
		s.host.Status.TriedCredentials = credentials.status // what has been claimed is on record
	}
	if err != nil {
		return p.fail(s, err)
	}
	s.credentials = &credentials
	return result{}, nil
}

// fail ends a pass that got no credentials. Each version of a Secret, and each time that it is
// missing, counts once in a pause: an event that wakes the host meanwhile has not solved the
// problem.
func (p credentials) fail(s *scope, err error) (result, error) {
	var failed *failure
	if errors.As(err, &failed) && s.before.Status.ErrorMessage == node.CutText(failed.Error()) {
		if pause := s.wait(v1alpha1.OperationRegister, p.maxBackoff); pause > 0 {
			return stoppedFor(pause), nil
		}
	}
	return stopped(), err
}

// read returns the credentials of a host, or only their status when the Secret is there and
// cannot be used. Errors that a person has to mend are failures.
func (p credentials) read(ctx context.Context, h *v1alpha1.BareMetalHost) (secretContents, error) {
	name := h.Spec.BMC.CredentialsName
	switch {
	case h.Spec.BMC.Address == "":
		return secretContents{}, registrationError("spec.bmc.address is empty; set it, or remove spec.bmc for a machine without a BMC")
	case name == "":
		return secretContents{}, registrationError("spec.bmc.credentialsName is empty; set it to a Secret with the keys username and password")
	}
	var secret corev1.Secret
	err := p.live.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		count(p.metrics.noSecret, h)
		return secretContents{}, registrationError("Secret %s with the BMC's credentials does not exist; create it with the keys username and password", name)
	}
	if err != nil {
		count(p.metrics.secretErrors, h)
		return secretContents{}, fmt.Errorf("read Secret %s: %w", name, err)
	}
	if err := p.claim(ctx, &secret); err != nil {
		return secretContents{}, err
	}
	read := secretContents{status: v1alpha1.CredentialsStatus{
		Reference: &corev1.SecretReference{Namespace: h.Namespace, Name: name},
		Version:   secret.ResourceVersion,
	}, version: fingerprint(secret.UID, secret.ResourceVersion)}
	if read.Credentials, err = bmc.ReadCredentials(secret.Data); err != nil {
		count(p.metrics.badSecret, h)
		return read, registrationError("Secret %s: %w", name, err)
	}
	return read, nil
}

func registrationError(format string, args ...any) error {
	return &failure{v1alpha1.OperationRegister, fmt.Errorf(format, args...)}
}

// claim adds the labels and the finalizer where they are missing. The host does not become an owner
// of the Secret: otherwise somebody who may write hosts could have any Secret deleted, by naming it
// in a host and deleting that host.
func (p credentials) claim(ctx context.Context, secret *corev1.Secret) error {
	if !secret.DeletionTimestamp.IsZero() {
		return nil // it takes no more finalizers; it is read as long as it is there
	}
	before := secret.DeepCopy()
	if secret.Labels[v1alpha1.SecretLabel] != v1alpha1.SecretLabelValue {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, v1alpha1.SecretLabel, v1alpha1.SecretLabelValue)
	}
	if _, moves := secret.Labels[v1alpha1.MoveLabel]; !moves {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, v1alpha1.MoveLabel, "")
	}
	controllerutil.AddFinalizer(secret, v1alpha1.SecretFinalizer)
	return patchMeta(ctx, p.client, secret, before)
}

// releaseAll releases all Secrets of a deleted host.
func (p credentials) releaseAll(ctx context.Context, h *v1alpha1.BareMetalHost) error {
	return p.release(ctx, h, secretsOf(h))
}

// releaseLeft releases the Secrets that a host referred to before a pass and does not any more. It
// is called before the pass is written, so that a pass that is repeated releases them again.
func (p credentials) releaseLeft(ctx context.Context, before, h *v1alpha1.BareMetalHost) error {
	has := secretsOf(h)
	return p.release(ctx, h, slices.DeleteFunc(secretsOf(before), func(name string) bool { return slices.Contains(has, name) }))
}

// release removes the finalizer from Secrets, unless another host still refers to one. It also
// removes the host from their owners. Earlier versions and Metal3's operator made it an owner, and
// Kubernetes would delete a Secret together with the last of its owners.
func (p credentials) release(ctx context.Context, h *v1alpha1.BareMetalHost, names []string) error {
	for _, name := range names {
		var secret corev1.Secret
		err := p.live.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, &secret)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read Secret %s: %w", name, err)
		}
		shared, err := p.isShared(ctx, h, name)
		if err != nil {
			return err
		}
		before := secret.DeepCopy()
		secret.OwnerReferences = slices.DeleteFunc(secret.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == h.UID })
		if !shared {
			controllerutil.RemoveFinalizer(&secret, v1alpha1.SecretFinalizer)
		}
		if err := patchMeta(ctx, p.client, &secret, before); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// isShared reports whether another host that is not being deleted refers to a Secret.
func (p credentials) isShared(ctx context.Context, h *v1alpha1.BareMetalHost, name string) (bool, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := p.client.List(ctx, &hosts, client.InNamespace(h.Namespace), client.MatchingFields{accessField: name}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list hosts with Secret %s: %w", name, err)
	}
	return slices.ContainsFunc(hosts.Items, func(other v1alpha1.BareMetalHost) bool {
		return other.UID != h.UID && other.DeletionTimestamp.IsZero()
	}), nil
}

// accessField is the index of hosts by the Secrets that they refer to.
const accessField = "spec.bmc.credentialsName"

func namedSecretsOf(obj client.Object) []string {
	h, ok := obj.(*v1alpha1.BareMetalHost)
	if !ok {
		return nil
	}
	return secretsOf(h)
}

// secretsOf returns the names of the Secrets with credentials that a host refers to: the one in its
// spec, the one that worked last, and the one that was tried last.
func secretsOf(h *v1alpha1.BareMetalHost) []string {
	names := []string{h.Spec.BMC.CredentialsName}
	for _, status := range []v1alpha1.CredentialsStatus{h.Status.GoodCredentials, h.Status.TriedCredentials} {
		if status.Reference != nil {
			names = append(names, status.Reference.Name)
		}
	}
	return distinct(names)
}
