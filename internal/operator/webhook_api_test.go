package operator_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/webhook"
	"github.com/ingot-metal/ingot/internal/webhook/certificate"
)

// webhookBench prepares an operator that only serves webhooks, under its own service account, and
// an API server that asks it. start starts the operator, with other options if change is not nil.
func webhookBench(t *testing.T) (b *bench, start func(change func(*operator.Options))) {
	t.Helper()
	port := freePort(t)
	config := controlplanetest.Start(t, controlplanetest.Options{}).Config()
	options := func(o *operator.Options) {
		o.Config = rest.CopyConfig(config)
		o.Config.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + operatorNamespace + ":ingot-webhook",
			Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + operatorNamespace, "system:authenticated"},
		}
		o.Namespaces, o.Engine, o.Controllers = nil, nil, []string{operator.NoControllers}
		o.Webhook = operator.WebhookOptions{Port: port, Hosts: []string{"127.0.0.1"}}
	}
	b = newIdleBenchOn(t, config)
	b.install()
	b.installWebhooks(port)
	start = func(change func(*operator.Options)) {
		b.startWith(config, func(o *operator.Options) {
			options(o)
			change(o)
		})
	}
	return b, start
}

// freePort returns a TCP port that nothing listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// installWebhooks creates the configuration of config/webhook as kustomize makes it, but with the
// address of this process instead of the Service, because nothing here routes the addresses of
// Services. It does the same for the conversion of objects.
func (b *bench) installWebhooks(port int) {
	b.Helper()
	text, err := os.ReadFile("../../config/webhook/deletion_patch.yaml")
	if err != nil {
		b.Fatal(err)
	}
	patch, err := yaml.YAMLToJSON(text)
	if err != nil {
		b.Fatal(err)
	}
	for _, obj := range b.decode("../../config/webhook/manifests.yaml") {
		raw, err := obj.MarshalJSON()
		if err != nil {
			b.Fatal(err)
		}
		if raw, err = strategicpatch.StrategicMergePatch(raw, patch, admissionregistrationv1.ValidatingWebhookConfiguration{}); err != nil {
			b.Fatal(err)
		}
		if err := obj.UnmarshalJSON(raw); err != nil {
			b.Fatal(err)
		}
		webhooks, _, _ := unstructured.NestedSlice(obj.Object, "webhooks")
		if len(webhooks) != 8 {
			b.Errorf("%d webhooks; does the patch name one that does not exist?", len(webhooks))
		}
		for _, w := range webhooks {
			w, _ := w.(map[string]any)
			path, _, _ := unstructured.NestedString(w, "clientConfig", "service", "path")
			w["clientConfig"] = map[string]any{"url": fmt.Sprintf("https://127.0.0.1:%d%s", port, path)}
		}
		if err := unstructured.SetNestedSlice(obj.Object, webhooks, "webhooks"); err != nil {
			b.Fatal(err)
		}
		b.create(obj)
	}
	patch = fmt.Appendf(nil, `[{"op": "replace", "path": "/spec/conversion/webhook/clientConfig", "value": {"url": "https://127.0.0.1:%d/convert"}}]`, port)
	for _, name := range webhook.Definitions {
		crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
		crd.SetName(name)
		if err := b.client.Patch(b.Context(), crd, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			b.Fatal(err)
		}
	}
}

func TestServiceOfWebhooksFindsItsPods(t *testing.T) {
	t.Parallel()
	b := newIdleBenchOn(t, plane.Config(t))
	objects := map[string]*unstructured.Unstructured{}
	for _, file := range []string{"service", "deployment"} {
		for _, obj := range b.decode("../../config/webhook/" + file + ".yaml") {
			obj.SetNamespace(b.namespace)
			strict := &client.CreateOptions{Raw: &metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}, DryRun: []string{metav1.DryRunAll}}
			if err := b.client.Create(t.Context(), obj.DeepCopy(), strict); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			objects[obj.GetKind()] = obj
		}
	}
	selector, _, _ := unstructured.NestedStringMap(objects["Service"].Object, "spec", "selector")
	labels, _, _ := unstructured.NestedStringMap(objects["Deployment"].Object, "spec", "template", "metadata", "labels")
	if len(selector) == 0 || !maps.Equal(selector, labels) {
		t.Errorf("the Service selects %v, the pods have %v", selector, labels)
	}
}

// rackHost is a host of a machine with a MAC address.
func rackHost(namespace, name, mac string) *v1alpha1.BareMetalHost {
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	h.Spec.Online, h.Spec.BootMACAddress = true, mac
	return h
}

// refused waits until the API server refuses an object with a text. The API server says something
// else until it knows the certificate and the cache has the objects.
func (b *bench) refused(obj client.Object, want string) {
	b.Helper()
	b.eventually("refusal with "+want, func() string {
		copied, _ := obj.DeepCopyObject().(client.Object)
		err := b.client.Create(b.Context(), copied, client.DryRunAll)
		if err == nil {
			return "it is accepted"
		}
		if !strings.Contains(err.Error(), want) {
			return err.Error()
		}
		return ""
	})
}

func TestSecondHostOfAMachineIsRefusedByTheAPIServer(t *testing.T) {
	t.Parallel()
	b, start := webhookBench(t)
	start(func(*operator.Options) {})
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "another-team"}}
	b.create(other)

	// An address that cannot be read is refused as soon as the webhook is asked.
	broken := rackHost(b.namespace, "broken", "")
	broken.Spec.BMC = v1alpha1.BMCDetails{Address: "ilo4://192.0.2.7", CredentialsName: "bmc"}
	b.refused(broken, `BareMetalHost.metal3.io "broken" is invalid: spec.bmc.address: Invalid value: "ilo4://192.0.2.7": the scheme ilo4 is of a driver that no longer exists; use redfish://`)

	first := rackHost(b.namespace, "first", "00:00:5e:00:53:0a")
	first.Finalizers = []string{v1alpha1.HostFinalizer}
	b.create(first)
	second := rackHost(other.Name, "second", "00:00:5E:00:53:0A")
	b.refused(second, "spec.bootMACAddress: Invalid value: \"00:00:5E:00:53:0A\": host "+b.namespace+"/first has the same; delete one of the two")
	if err := b.client.Create(t.Context(), second); !apierrors.IsInvalid(err) {
		t.Errorf("creation: %v, want status 422", err)
	}

	b.remove(first)
	b.refused(second, "is being deleted; wait until it is gone")
	before := first.DeepCopy()
	first.Finalizers = nil
	if err := b.client.Patch(t.Context(), first, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	b.eventually("machine free", func() string {
		if err := b.client.Create(t.Context(), second.DeepCopy(), client.DryRunAll); err != nil {
			return err.Error()
		}
		return ""
	})
	second.Finalizers = []string{v1alpha1.HostFinalizer}
	b.create(second)

	t.Run("without an operator", func(t *testing.T) {
		b.stop()
		err := b.client.Create(t.Context(), rackHost(b.namespace, "third", "00:00:5e:00:53:0c"))
		if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("creation: %v, want it refused", err)
		}
		removeFinalizers := func() error {
			changed := second.DeepCopy()
			changed.Finalizers = nil
			return b.client.Patch(t.Context(), changed, client.MergeFrom(second))
		}
		if err := removeFinalizers(); err == nil {
			t.Error("a host was changed without being checked")
		}
		b.remove(second)
		if err := removeFinalizers(); err != nil {
			t.Errorf("removal of the finalizer of a deleted host: %v", err)
		}
	})

	t.Run("with given files", func(t *testing.T) {
		var secret corev1.Secret
		if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: operatorNamespace, Name: certificate.SecretName}, &secret); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		for _, name := range []string{"tls.crt", "tls.key"} {
			if err := os.WriteFile(filepath.Join(dir, name), secret.Data[name], 0o600); err != nil {
				t.Fatal(err)
			}
		}
		start(func(o *operator.Options) { o.Webhook.CertDir = dir })
		b.refused(broken, "the scheme ilo4 is of a driver that no longer exists")
		b.stop()
	})
}
