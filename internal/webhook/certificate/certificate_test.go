package certificate_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/internal/webhook/certificate"
)

const (
	namespace     = "ingot-system"
	configuration = "ingot-webhook"
	definition    = "metal3machines.infrastructure.cluster.x-k8s.io"
	service       = "ingot-webhook.ingot-system.svc"
)

// bench is a cluster in memory, inside a synctest bubble and with the bubble's time.
type bench struct {
	testing.TB

	client client.WithWatch
	log    *bytes.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, admissionregistrationv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configuration}}
	for _, name := range []string{"a.metal3.io", "b.metal3.io"} {
		config.Webhooks = append(config.Webhooks, admissionregistrationv1.ValidatingWebhook{Name: name})
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: definition}}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "elsewhere", Name: "ingot-webhook"}},
		},
	}
	return &bench{TB: t, client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(config, crd).Build(), log: &bytes.Buffer{}}
}

// replica starts a keeper. stop ends it and waits for its end.
func (b *bench) replica(hosts ...string) (k *certificate.Keeper, stop func()) {
	b.Helper()
	if len(hosts) == 0 {
		hosts = []string{service}
	}
	k = certificate.New(certificate.Options{
		Client: b.client, Namespace: namespace, Configuration: configuration, Definitions: []string{"missing.example.org", definition}, Hosts: hosts, Logger: slog.New(slog.NewTextHandler(b.log, nil)),
	})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Start(ctx) }()
	synctest.Wait()
	return k, func() {
		cancel()
		if err := <-ended; err != nil {
			b.Errorf("keeper ended: %v", err)
		}
	}
}

func (b *bench) wait(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the time of the bubble
	synctest.Wait()
}

// crd reads the definition.
func (b *bench) crd() *apiextensionsv1.CustomResourceDefinition {
	b.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := b.client.Get(b.Context(), client.ObjectKey{Name: definition}, &crd); err != nil {
		b.Fatal(err)
	}
	return &crd
}

// bundles returns the CAs in each webhook of the configuration, and in the definition.
func (b *bench) bundles() []string {
	b.Helper()
	var config admissionregistrationv1.ValidatingWebhookConfiguration
	if err := b.client.Get(b.Context(), client.ObjectKey{Name: configuration}, &config); err != nil {
		b.Fatal(err)
	}
	var list []string
	for _, w := range config.Webhooks {
		list = append(list, string(w.ClientConfig.CABundle))
	}
	conversion := b.crd().Spec.Conversion.Webhook.ClientConfig
	if conversion.Service.Namespace != namespace {
		b.Errorf("objects are converted in namespace %s", conversion.Service.Namespace)
	}
	return append(list, string(conversion.CABundle))
}

func (b *bench) secret() *corev1.Secret {
	b.Helper()
	var s corev1.Secret
	if err := b.client.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: certificate.SecretName}, &s); err != nil {
		b.Fatal(err)
	}
	return &s
}

func (b *bench) deleteConfiguration() {
	b.Helper()
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configuration}}
	if err := b.client.Delete(b.Context(), config); err != nil {
		b.Fatal(err)
	}
}

// dial connects to a replica like an API server that trusts a bundle. It returns the serial number
// of the certificate.
func dial(k *certificate.Keeper, bundle, host string) (string, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle))
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	for _, end := range []net.Conn{near, far} { // both ends may be writing when one of them gives up
		if err := end.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return "", err
		}
	}
	go func() {
		server := tls.Server(far, &tls.Config{GetCertificate: k.GetCertificate, MinVersion: tls.VersionTLS12})
		_ = server.Handshake()
	}()
	conn := tls.Client(near, &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12})
	if err := conn.Handshake(); err != nil {
		return "", err
	}
	return fmt.Sprint(conn.ConnectionState().PeerCertificates[0].SerialNumber), nil
}

func TestReplicasShareOneCertificateThatTheAPIServerTrusts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first, stopFirst := b.replica()
		defer stopFirst()
		second, stopSecond := b.replica()
		defer stopSecond()
		serials := map[string]bool{}
		for _, k := range []*certificate.Keeper{first, second} {
			for _, bundle := range b.bundles() {
				serial, err := dial(k, bundle, service)
				if err != nil {
					t.Error(err)
				}
				serials[serial] = true
			}
			if err := k.Ready(nil); err != nil {
				t.Error(err)
			}
			if _, err := dial(k, b.bundles()[0], "other.example.org"); err == nil {
				t.Error("the certificate is valid for another name")
			}
		}
		if len(serials) != 1 {
			t.Errorf("certificates = %v, want one", serials)
		}
		if s := b.secret(); s.Type != corev1.SecretTypeTLS || strings.Contains(string(s.Data["ca.crt"]), "KEY") || len(s.Data) != 3 {
			t.Errorf("Secret of type %s has %d keys; want no key of the authority", s.Type, len(s.Data))
		}
	})
}

// TestRenewalFailsNoRequest checks two replicas from an API server that learns of changes of the
// configuration late.
func TestRenewalFailsNoRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		_, stop := b.replica()
		stop()
		var seen []string
		for range 2 {
			b.wait(60*24*time.Hour - 20*time.Minute)
			first, stopFirst := b.replica()
			b.wait(17 * time.Second) // so that the replicas do not look at the same moments
			second, stopSecond := b.replica()
			known := b.bundles()[0] // what the API server knows is 20 seconds old
			serials := map[string]bool{}
			for i := range 30 * 6 {
				b.wait(10 * time.Second)
				for _, k := range []*certificate.Keeper{first, second} {
					serial, err := dial(k, known, service)
					if err != nil {
						t.Fatalf("after %d0 s: %v", i, err)
					}
					serials[serial] = true
				}
				if i%2 == 1 {
					known = b.bundles()[0]
				}
			}
			if len(serials) != 2 {
				t.Errorf("certificates = %v, want the old and the new one", serials)
			}
			last, err := dial(first, known, service)
			if other, err2 := dial(second, known, service); err != nil || err2 != nil || other != last {
				t.Errorf("replicas serve %s and %s (%v, %v), want the same", last, other, err, err2)
			}
			seen = append(seen, last)
			stopFirst()
			stopSecond()
		}
		if seen[0] == seen[1] {
			t.Error("the certificate was not renewed a second time")
		}
		if n := strings.Count(b.bundles()[0], "BEGIN CERTIFICATE"); n != 2 {
			t.Errorf("%d authorities are trusted, want those of this certificate and of the one before", n)
		}
	})
}

// TestRenewalByDeletingTheSecretFailsNoRequest checks two replicas from an API server that learns
// of changes of the configuration late.
func TestRenewalByDeletingTheSecretFailsNoRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first, stopFirst := b.replica()
		defer stopFirst()
		b.wait(17 * time.Second) // so that the replicas do not look at the same moments
		second, stopSecond := b.replica()
		defer stopSecond()
		known := b.bundles()[0] // what the API server knows is 20 seconds old
		if err := b.client.Delete(t.Context(), b.secret()); err != nil {
			t.Fatal(err)
		}
		serials := map[string]bool{}
		for i := range 3 * 6 {
			b.wait(10 * time.Second)
			for _, k := range []*certificate.Keeper{first, second} {
				serial, err := dial(k, known, service)
				if err != nil {
					t.Fatalf("after %d0 s: %v", i+1, err)
				}
				serials[serial] = true
			}
			if i%2 == 1 {
				known = b.bundles()[0]
			}
		}
		if len(serials) != 2 {
			t.Errorf("certificates = %v, want the old and the new one", serials)
		}
	})
}

func TestReplicaThatReplacesADeletedSecretLeavesTheOthersTrusted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first, stopFirst := b.replica()
		defer stopFirst()
		b.wait(17 * time.Second) // so that the replicas do not look at the same moments
		second, stopSecond := b.replica()
		defer stopSecond()
		if err := b.client.Delete(t.Context(), b.secret()); err != nil {
			t.Fatal(err)
		}
		third, stopThird := b.replica()
		defer stopThird()
		b.wait(time.Minute)
		serials := map[string]bool{}
		for i := range 3 * 6 {
			for _, k := range []*certificate.Keeper{first, second, third} {
				for _, bundle := range b.bundles() {
					serial, err := dial(k, bundle, service)
					if err != nil {
						t.Fatalf("after %d0 s: %v", i+6, err)
					}
					serials[serial] = true
				}
			}
			b.wait(10 * time.Second)
		}
		if len(serials) != 2 {
			t.Errorf("certificates = %v, want the old and the new one", serials)
		}
	})
}

func TestBundleThatSomebodyRemovedComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		k, stop := b.replica()
		defer stop()
		var config admissionregistrationv1.ValidatingWebhookConfiguration
		if err := b.client.Get(t.Context(), client.ObjectKey{Name: configuration}, &config); err != nil {
			t.Fatal(err)
		}
		config.Webhooks[1].ClientConfig.CABundle = nil // as when the manifests are applied again
		if err := b.client.Update(t.Context(), &config); err != nil {
			t.Fatal(err)
		}
		crd := b.crd()
		crd.Spec.Conversion.Webhook.ClientConfig.CABundle = nil
		crd.Spec.Conversion.Webhook.ClientConfig.Service.Namespace = "elsewhere"
		if err := b.client.Update(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
		b.wait(time.Minute)
		for _, bundle := range b.bundles() {
			if _, err := dial(k, bundle, service); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestDefinitionLosesTheAnnotationsWithWhichOthersWriteTheirAuthority(t *testing.T) {
	t.Parallel()
	const from, fromSecret, fromAPIServer = "cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-apiserver-ca"
	for name, tc := range map[string]struct{ before, after map[string]string }{
		"of Metal3's provider": {
			map[string]string{from: "capm3-system/capm3-serving-cert", "controller-gen.kubebuilder.io/version": "v0.20.0"},
			map[string]string{"controller-gen.kubebuilder.io/version": "v0.20.0"},
		},
		"of other kinds": {map[string]string{fromSecret: "capm3-system/ca", fromAPIServer: "true"}, nil},
		"of Ingot":       {map[string]string{from: namespace + "/ingot-webhook"}, map[string]string{from: namespace + "/ingot-webhook"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				_, stop := b.replica()
				defer stop()
				crd := b.crd()
				crd.Annotations = tc.before
				if err := b.client.Update(t.Context(), crd); err != nil {
					t.Fatal(err)
				}
				b.wait(time.Minute)
				if got := b.crd().Annotations; !maps.Equal(got, tc.after) {
					t.Errorf("annotations are %v, want %v", got, tc.after)
				}
			})
		})
	}
}

func TestCertificateThatCannotServeIsReplaced(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(*bench)
		hosts []string
	}{
		"another name": {func(*bench) {}, []string{"127.0.0.1", "localhost"}},
		"expired":      {func(b *bench) { b.wait(91 * 24 * time.Hour) }, nil},
		"no Secret": {func(b *bench) {
			if err := b.client.Delete(b.Context(), b.secret()); err != nil {
				b.Fatal(err)
			}
		}, nil},
		"no key": {func(b *bench) {
			s := b.secret()
			s.Data["tls.key"] = []byte("unreadable")
			if err := b.client.Update(b.Context(), s); err != nil {
				b.Fatal(err)
			}
		}, nil},
		"no authority": {func(b *bench) {
			s := b.secret()
			delete(s.Data, "ca.crt")
			if err := b.client.Update(b.Context(), s); err != nil {
				b.Fatal(err)
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				_, stop := b.replica()
				stop()
				tc.spoil(b)
				k, stop := b.replica(tc.hosts...)
				defer stop()
				host := service
				if tc.hosts != nil {
					host = tc.hosts[0]
				}
				if _, err := dial(k, b.bundles()[0], host); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestMissingConfigurationIsNamedOnceAndServingGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.deleteConfiguration()
		k, stop := b.replica()
		defer stop()
		b.wait(5 * time.Minute)
		if n := strings.Count(b.log.String(), "config/webhook"); n != 1 {
			t.Errorf("log = %s, want it to name the manifests once", b.log)
		}
		if _, err := dial(k, string(b.secret().Data["ca.crt"]), service); err != nil {
			t.Error(err)
		}
	})
}

func TestRenewedCertificateIsServedWithoutTheConfiguration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		k, stop := b.replica()
		defer stop()
		b.deleteConfiguration()
		if err := b.client.Delete(t.Context(), b.secret()); err != nil {
			t.Fatal(err)
		}
		b.wait(3 * time.Minute)
		serial, err := dial(k, string(b.crd().Spec.Conversion.Webhook.ClientConfig.CABundle), service)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(b.secret().Data[corev1.TLSCertKey])
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprint(cert.SerialNumber); serial != want {
			t.Errorf("certificate %s is served, want the new one, %s", serial, want)
		}
	})
}

// TestExpiredCertificateIsReplacedWhileTheAuthorityCannotBeWritten has a process that slept for
// longer than its certificate is valid.
func TestExpiredCertificateIsReplacedWhileTheAuthorityCannotBeWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		reads := 0
		b.client = interceptor.NewClient(b.client, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, isSecret := obj.(*corev1.Secret); isSecret {
					if reads++; reads == 2 {
						time.Sleep(91 * 24 * time.Hour) //nolint:forbidigo // the time of the bubble
					}
				}
				return c.Get(ctx, key, obj, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if _, isDefinition := obj.(*apiextensionsv1.CustomResourceDefinition); isDefinition {
					return errors.New("refused")
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
		})
		k, stop := b.replica()
		defer stop()
		b.wait(91*24*time.Hour + 5*time.Minute)
		if _, err := dial(k, string(b.secret().Data["ca.crt"]), service); err != nil {
			t.Error(err)
		}
	})
}

func TestNothingIsServedBeforeThereIsACertificate(t *testing.T) {
	t.Parallel()
	k := certificate.New(certificate.Options{})
	if err := k.Ready(nil); err == nil {
		t.Error("ready without a certificate")
	}
}
