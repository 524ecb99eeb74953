package controlplane

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const released = `
kind: Namespace
metadata: {name: widget-system}
---
kind: CustomResourceDefinition
metadata: {name: widgets.test.example}
spec:
  conversion:
    strategy: Webhook
    webhook:
      clientConfig: {service: {name: widget, namespace: widget-system, path: /convert}}
      conversionReviewVersions: [v1]
---
kind: CustomResourceDefinition
metadata: {name: plain.test.example}
spec: {group: test.example}
---
kind: ServiceAccount
metadata: {name: manager, namespace: widget-system}
---
kind: Deployment
metadata: {name: manager, namespace: widget-system}
---
kind: ValidatingWebhookConfiguration
metadata: {name: widgets}
webhooks:
- name: first.test.example
  clientConfig: {service: {name: widget, namespace: widget-system, path: /validate-a}}
- name: second.test.example
  clientConfig: {service: {name: widget, namespace: widget-system, path: /validate-b}}
`

func TestManifestsOfAPodServeAProcess(t *testing.T) {
	m, err := readManifests(fstest.MapFS{"widgets.yaml": {Data: []byte(released)}}, "widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.user(), "system:serviceaccount:widget-system:manager"; got != want {
		t.Errorf("user = %q, want %q", got, want)
	}
	objects, err := m.servedAt("https://127.0.0.1:9443", []byte("authority"))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.GetKind())
	}
	if want := []string{"Namespace", crdKind, crdKind, accountKind, validatingWebhookKind}; !cmp.Equal(kinds, want) {
		t.Fatalf("kinds = %v, want %v", kinds, want)
	}
	at := func(path string) map[string]any {
		return map[string]any{"url": "https://127.0.0.1:9443" + path, "caBundle": "YXV0aG9yaXR5"}
	}
	want := map[string]any{
		"strategy": "Webhook",
		"webhook":  map[string]any{"clientConfig": at("/convert"), "conversionReviewVersions": []any{"v1"}},
	}
	got, _, _ := unstructured.NestedFieldNoCopy(objects[1].Object, "spec", "conversion")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conversion (-want +got)\n%s", diff)
	}
	wantWebhooks := []any{
		map[string]any{"name": "first.test.example", "clientConfig": at("/validate-a")},
		map[string]any{"name": "second.test.example", "clientConfig": at("/validate-b")},
	}
	if diff := cmp.Diff(wantWebhooks, objects[4].Object["webhooks"]); diff != "" {
		t.Errorf("webhooks (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(m.objects[2], objects[2]); diff != "" {
		t.Errorf("a CRD without webhooks changed (-read +got)\n%s", diff)
	}
	// A second port is tried when the first one is taken.
	again, err := m.servedAt("https://127.0.0.1:9444", nil)
	if err != nil {
		t.Fatal(err)
	}
	url, _, _ := unstructured.NestedString(again[1].Object, "spec", "conversion", "webhook", "clientConfig", "url")
	if want := "https://127.0.0.1:9444/convert"; url != want {
		t.Errorf("with another URL the CRD has %q, want %q", url, want)
	}
}

func TestManifestsWithoutServiceAccountAreRefused(t *testing.T) {
	if _, err := readManifests(fstest.MapFS{"a.yaml": {Data: []byte("kind: Namespace\n")}}, "a.yaml"); err == nil {
		t.Error("no error")
	}
}

func TestWebhookWithoutServiceIsRefused(t *testing.T) {
	const text = "kind: ServiceAccount\n---\nkind: MutatingWebhookConfiguration\nwebhooks: [{clientConfig: {url: 'https://elsewhere'}}]\n"
	m, err := readManifests(fstest.MapFS{"a.yaml": {Data: []byte(text)}}, "a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.servedAt("https://127.0.0.1:1", nil); err == nil {
		t.Error("no error")
	}
}
