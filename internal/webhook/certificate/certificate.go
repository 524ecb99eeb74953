// Package certificate makes the certificate that webhooks are served with, renews it in time and
// tells the API server which CA to trust. It needs no other program.
//
// The certificate is in a Secret that all replicas share. Each replica reads the Secret every
// minute. If the certificate is missing or about to expire, the replica replaces it; if two do so
// at once, the API server lets one of them win. A new certificate is served only after its CA has
// been in the webhook configuration and the definitions for a while, and the former CA stays there.
// So no request fails in between, whichever replica it reaches.
package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",namespace=ingot-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=ingot-system,resources=secrets,resourceNames=ingot-webhook-certificate,verbs=get;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=ingot-webhook,verbs=get;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=metal3clusters.infrastructure.cluster.x-k8s.io;metal3clustertemplates.infrastructure.cluster.x-k8s.io;metal3machines.infrastructure.cluster.x-k8s.io;metal3machinetemplates.infrastructure.cluster.x-k8s.io;metal3remediations.infrastructure.cluster.x-k8s.io;metal3remediationtemplates.infrastructure.cluster.x-k8s.io;metal3datatemplates.infrastructure.cluster.x-k8s.io;metal3datas.infrastructure.cluster.x-k8s.io;metal3dataclaims.infrastructure.cluster.x-k8s.io,verbs=get;patch

const (
	// SecretName is the name of the Secret with the certificate.
	SecretName = "ingot-webhook-certificate" //nolint:gosec // a name, no secret
	// interval is the time between two reads of the Secret. retry is the time after an error while
	// there is no certificate to serve yet.
	interval, retry = time.Minute, 2 * time.Second
	// attempt bounds one pass, with all its requests.
	attempt = 30 * time.Second
)

// Options say what a Keeper keeps, and where.
type Options struct {
	// Client reads from and writes to the API server itself, without a cache.
	Client client.Client
	// Namespace is the namespace of the Secret.
	Namespace string
	// Configuration is the name of the ValidatingWebhookConfiguration that gets the CAs.
	Configuration string
	// Definitions are the names of the CustomResourceDefinitions that get the CAs and Namespace.
	// Those that do not exist, or have no conversion, are left out.
	Definitions []string
	// Hosts are the names and IP addresses by which the API server reaches the webhooks.
	Hosts []string
	// Logger gets a line for each change and each failure.
	Logger *slog.Logger
}

// Keeper keeps the certificate of this process in step with the Secret.
type Keeper struct {
	opts    Options
	serving atomic.Pointer[tls.Certificate]

	// next is the certificate that the next pass may serve: its CA is published, and API servers
	// get a minute to learn of it by their watch. Only Start uses it.
	next []byte
	// last is what the Secret had at the last pass. Its CAs stay trusted if somebody deletes the
	// Secret, even if a replica that has just started replaces it, because all other replicas still
	// serve that certificate. Only Start uses it.
	last stored
	// unchecked is true if there was no webhook configuration at the last pass. Only Start uses it.
	unchecked bool
}

// New returns a keeper. It has no certificate before it is started.
func New(opts Options) *Keeper { return &Keeper{opts: opts} }

// errNotReady is the error of connections that come before the first certificate.
var errNotReady = errors.New("the certificate of the webhooks is not there yet")

// GetCertificate returns the certificate to serve, for use in tls.Config. It is safe for concurrent
// use.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := k.serving.Load(); cert != nil {
		return cert, nil
	}
	return nil, errNotReady
}

// Ready is a readiness check. It returns an error as long as there is no certificate.
func (k *Keeper) Ready(*http.Request) error {
	_, err := k.GetCertificate(nil)
	return err
}

// NeedLeaderElection returns false: each replica runs its keeper.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start keeps the certificate until ctx ends. It never returns an error: it logs failures and tries
// again, because the certificate that is already there can still be served.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		wait := interval
		switch err := k.reconcile(ctx); {
		case err == nil || ctx.Err() != nil:
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			wait = retry // another replica was faster
		default:
			k.opts.Logger.WarnContext(ctx, "The certificate of the webhooks could not be kept", "err", err)
			if k.serving.Load() == nil {
				wait = retry
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// reconcile makes, publishes and serves the certificate, as far as each of these is due.
func (k *Keeper) reconcile(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	s, cert, err := k.ensure(ctx)
	if err != nil {
		return err
	}
	k.last = s
	published := errors.Join(k.publish(ctx, s.bundle), k.publishConversion(ctx, s.bundle))
	if published == nil || !k.serves() {
		k.serve(s, cert)
	}
	return published
}

// serves reports whether the keeper serves a certificate that has not expired.
func (k *Keeper) serves() bool {
	cert := k.serving.Load()
	return cert != nil && time.Now().Before(cert.Leaf.NotAfter)
}

// ensure returns the content of the Secret. Before, it replaces the certificate if that is due, and
// puts CAs back that are still in use.
func (k *Keeper) ensure(ctx context.Context) (stored, *tls.Certificate, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.opts.Namespace, Name: SecretName}, Type: corev1.SecretTypeTLS}
	err := k.opts.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return stored{}, nil, fmt.Errorf("read Secret %s/%s: %w", k.opts.Namespace, SecretName, err)
	}
	now, before := time.Now(), storedIn(secret)
	cert, err := before.load(k.opts.Hosts, now)
	usable := err == nil && !due(cert, now)
	s := before
	if !usable {
		if s, err = issue(k.opts.Hosts, now); err != nil {
			return stored{}, nil, fmt.Errorf("make a certificate: %w", err)
		}
		s = s.withPrevious(before, now)
	}
	s = s.withPrevious(k.last, now)
	if usable && bytes.Equal(s.bundle, before.bundle) {
		return before, cert, nil
	}
	secret.Data = s.data()
	if missing {
		err = k.opts.Client.Create(ctx, secret)
	} else {
		err = k.opts.Client.Update(ctx, secret) // based on the version that was read
	}
	if err != nil {
		return stored{}, nil, fmt.Errorf("write Secret %s/%s: %w", k.opts.Namespace, SecretName, err)
	}
	k.opts.Logger.InfoContext(ctx, "Wrote the certificate of the webhooks", "secret", k.opts.Namespace+"/"+SecretName, "hosts", k.opts.Hosts, "new", !usable)
	cert, err = s.load(k.opts.Hosts, now)
	return s, cert, err
}

// publish writes the CAs into the webhook configuration if they differ. There may be no
// configuration: objects are then stored without checks.
func (k *Keeper) publish(ctx context.Context, bundle []byte) error {
	var config admissionregistrationv1.ValidatingWebhookConfiguration
	err := k.opts.Client.Get(ctx, client.ObjectKey{Name: k.opts.Configuration}, &config)
	if apierrors.IsNotFound(err) {
		if !k.unchecked {
			k.opts.Logger.WarnContext(ctx, "Objects are stored without checks: there is no ValidatingWebhookConfiguration, which is among Ingot's manifests (config/webhook)", "name", k.opts.Configuration)
		}
		k.unchecked = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", k.opts.Configuration, err)
	}
	k.unchecked = false
	before := config.DeepCopy()
	changed := false
	for i := range config.Webhooks {
		if c := &config.Webhooks[i].ClientConfig; !bytes.Equal(c.CABundle, bundle) {
			c.CABundle, changed = bundle, true
		}
	}
	if !changed {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := k.opts.Client.Patch(ctx, &config, patch); err != nil {
		return fmt.Errorf("write the authorities into ValidatingWebhookConfiguration %s: %w", k.opts.Configuration, err)
	}
	return nil
}

// publishConversion writes the CAs, and the namespace of the Service, into the definitions if they
// differ. It also removes annotations that make cert-manager write other CAs there.
func (k *Keeper) publishConversion(ctx context.Context, bundle []byte) error {
	var all error
	for _, name := range k.opts.Definitions {
		all = errors.Join(all, k.publishDefinition(ctx, name, bundle))
	}
	return all
}

func (k *Keeper) publishDefinition(ctx context.Context, name string, bundle []byte) error {
	var crd apiextensionsv1.CustomResourceDefinition
	err := k.opts.Client.Get(ctx, client.ObjectKey{Name: name}, &crd)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	case crd.Spec.Conversion == nil || crd.Spec.Conversion.Webhook == nil || crd.Spec.Conversion.Webhook.ClientConfig == nil:
		return nil
	}
	before := crd.DeepCopy()
	c := crd.Spec.Conversion.Webhook.ClientConfig
	c.CABundle = bundle
	if c.Service != nil {
		c.Service.Namespace = k.opts.Namespace
	}
	maps.DeleteFunc(crd.Annotations, k.injectsOther)
	if equality.Semantic.DeepEqual(before, &crd) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := k.opts.Client.Patch(ctx, &crd, patch); err != nil {
		return fmt.Errorf("write the authorities into CustomResourceDefinition %s: %w", name, err)
	}
	return nil
}

// injectsOther reports whether an annotation of a definition, as Metal3's manifests have it, makes
// cert-manager write a CA into the definition again and again that is not Ingot's. An annotation
// that names the operator's namespace stays: it is for replicas that will soon serve a certificate
// of cert-manager.
func (k *Keeper) injectsOther(key, from string) bool {
	return strings.HasPrefix(key, "cert-manager.io/inject-") && !strings.HasPrefix(from, k.opts.Namespace+"/")
}

// serve serves a certificate at once if no valid one is served yet. Otherwise it waits for the
// second pass that finds the certificate.
func (k *Keeper) serve(s stored, cert *tls.Certificate) {
	if k.serves() && !bytes.Equal(k.next, s.cert) {
		k.next = s.cert
		return
	}
	k.serving.Store(cert)
	k.next = s.cert
}
