package operator

import (
	"crypto/tls"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	crwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/ingot-metal/ingot/internal/webhook"
	"github.com/ingot-metal/ingot/internal/webhook/certificate"
)

// WebhookOptions say how webhooks are served. Every replica serves them, whether it leads or not.
type WebhookOptions struct {
	// Port is the TCP port; 0 serves no webhooks.
	Port int
	// CertDir is a folder with tls.crt and tls.key, which are read again when they change. Whoever
	// writes these files also has to write their CA into the webhook configuration and into the
	// definitions of the kinds with conversion. If CertDir is empty, the operator makes the
	// certificate and writes its CA there.
	CertDir string
	// Namespace is where the operator keeps the Secret with its own certificate, and where the
	// Service of the webhooks is; ingot-system.
	Namespace string
	// Hosts are the names and addresses by which the API server reaches this port; by default the
	// names of the Service ingot-webhook.
	Hosts []string
}

// defaultNamespace is the namespace of the manifests in config.
const defaultNamespace = "ingot-system"

func (o *WebhookOptions) setDefaults() error {
	if o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("the port %d of the webhooks is not between 1 and 65535, nor 0 for none", o.Port)
	}
	if o.Port == 0 && o.CertDir != "" {
		return errors.New("there is a folder of certificates for webhooks and no port to serve them on")
	}
	if o.Namespace == "" {
		o.Namespace = defaultNamespace
	}
	if len(o.Hosts) == 0 {
		name := webhook.ServiceName + "." + o.Namespace + ".svc"
		o.Hosts = []string{name, name + ".cluster.local"}
	}
	return nil
}

// addWebhooks adds the server of webhooks and, without CertDir, the keeper of its certificate.
func (o *Operator) addWebhooks() error {
	opts := o.opts.Webhook
	if opts.Port == 0 {
		return nil
	}
	serverOptions := crwebhook.Options{Port: opts.Port, CertDir: opts.CertDir, TLSOpts: []func(*tls.Config){
		func(c *tls.Config) { c.MinVersion = tls.VersionTLS12 },
	}}
	if opts.CertDir == "" {
		keeper, err := o.newKeeper()
		if err != nil {
			return err
		}
		serverOptions.TLSOpts = append(serverOptions.TLSOpts, func(c *tls.Config) { c.GetCertificate = keeper.GetCertificate })
		if err := errors.Join(o.manager.Add(keeper), o.manager.AddReadyzCheck("webhook-certificate", keeper.Ready)); err != nil {
			return err
		}
	}
	server := crwebhook.NewServer(serverOptions)
	webhook.Register(server, webhook.Config{
		Cache: o.manager.GetClient(), Live: o.manager.GetAPIReader(), Scheme: o.manager.GetScheme(),
		Checks: webhook.Checks{LocalImages: o.opts.LocalImages},
	})
	return errors.Join(o.manager.Add(server), o.manager.AddReadyzCheck("webhook", server.StartedChecker()))
}

// newKeeper returns the keeper of the certificate. The keeper has a client of its own, because the
// operator's cache does not hold the data of Secrets.
func (o *Operator) newKeeper() (*certificate.Keeper, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), admissionregistrationv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := ctrlclient.New(o.config, ctrlclient.Options{Scheme: scheme, HTTPClient: o.manager.GetHTTPClient()})
	if err != nil {
		return nil, fmt.Errorf("reach Kubernetes at %s: %w", o.config.Host, err)
	}
	return certificate.New(certificate.Options{
		Client: c, Namespace: o.opts.Webhook.Namespace, Configuration: webhook.ConfigurationName,
		Definitions: webhook.Definitions, Hosts: o.opts.Webhook.Hosts, Logger: o.opts.Logger,
	}), nil
}
