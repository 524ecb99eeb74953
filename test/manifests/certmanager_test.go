package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// overlayOfThePage renders the overlay with which the page about webhooks installs everything.
func overlayOfThePage(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "webhooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	overlay := regexp.MustCompile("(?s)```yaml\n(resources: [^`]*config/webhook-certmanager[^`]*)```").FindSubmatch(page)
	if overlay == nil {
		t.Fatal("the page has no overlay with config/webhook-certmanager")
	}
	folder := t.TempDir()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err == nil {
		root, err = filepath.Rel(folder, root)
	}
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(overlay[1]), "../ingot/", root+"/")
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return built(t, folder)
}

// TestWebhooksCanUseACertificateOfCertManager follows the certificate from the object that asks for it to the
// process that serves it and to those who check it. The kinds are in the same overlay, so that nothing else which is applied
// takes the authority from them. The kinds of cert-manager itself are not in the cluster.
func TestWebhooksCanUseACertificateOfCertManager(t *testing.T) {
	const inject, certificate = "cert-manager.io/inject-ca-from", namespace + "/ingot-webhook"
	var rest []*unstructured.Unstructured
	var certificates, checked int
	secret, served := "", ""
	for _, obj := range overlayOfThePage(t) {
		if obj.GetAPIVersion() == "cert-manager.io/v1" {
			if obj.GetKind() == "Certificate" {
				certificates++
				secret, _, _ = unstructured.NestedString(obj.Object, "spec", "secretName")
				names, _, _ := unstructured.NestedStringSlice(obj.Object, "spec", "dnsNames")
				if obj.GetNamespace()+"/"+obj.GetName() != certificate || !slices.Contains(names, "ingot-webhook."+namespace+".svc") {
					t.Errorf("certificate %s/%s is for %v", obj.GetNamespace(), obj.GetName(), names)
				}
			}
			continue
		}
		rest = append(rest, obj)
		_, converted, _ := unstructured.NestedMap(obj.Object, "spec", "conversion", "webhook")
		if obj.GetKind() == "ValidatingWebhookConfiguration" || converted {
			checked++
			if got := obj.GetAnnotations()[inject]; got != certificate {
				t.Errorf("%s %s gets the authority of %q, want that of %q", obj.GetKind(), obj.GetName(), got, certificate)
			}
		} else if got := obj.GetAnnotations()[inject]; got != "" {
			t.Errorf("%s %s gets the authority of %q", obj.GetKind(), obj.GetName(), got)
		}
		if obj.GetName() == "ingot-webhook" && obj.GetKind() == "Deployment" {
			volumes, _, _ := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "volumes")
			for _, v := range volumes {
				volume, _ := v.(map[string]any)
				served, _, _ = unstructured.NestedString(volume, "secret", "secretName")
			}
		}
	}
	if certificates != 1 || checked < 2 || secret == "" || secret != served {
		t.Errorf("%d certificates in Secret %q, which %d objects check, and Secret %q is served", certificates, secret, checked, served)
	}
	plain, with := commands(t, kustomized(t, "webhook"))["ingot-webhook"], commands(t, rest)["ingot-webhook"]
	if got := slices.DeleteFunc(with, func(arg string) bool { return strings.HasPrefix(arg, "--webhook-cert-dir=/") }); !slices.Equal(got, plain) {
		t.Errorf("arguments %v, want those of config/webhook and the folder of the certificate: %v", got, plain)
	}
	isAccepted(t, rest, false)
}
