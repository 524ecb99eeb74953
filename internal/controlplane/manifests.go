package controlplane

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Kinds of objects, besides CRDs, that a program outside the cluster needs in the cluster.
const (
	accountKind           = "ServiceAccount"
	mutatingWebhookKind   = "MutatingWebhookConfiguration"
	validatingWebhookKind = "ValidatingWebhookConfiguration"
)

// installedKinds are the kinds that are installed from the manifests of a program. The other
// objects would run the program in a pod and issue its certificate.
var installedKinds = []string{
	"Namespace", crdKind, accountKind,
	"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
	mutatingWebhookKind, validatingWebhookKind,
}

// manifests are the objects of a program that serves webhooks, in the order in which they are
// installed.
type manifests struct {
	objects []*unstructured.Unstructured
	account *unstructured.Unstructured // the service account that it runs as
}

// readManifests decodes a YAML file that is meant to run a program in a pod.
func readManifests(fsys fs.FS, name string) (manifests, error) {
	objects, err := readObjects(fsys, name, installedKinds...)
	if err != nil {
		return manifests{}, err
	}
	for _, object := range objects {
		if object.GetKind() == accountKind {
			return manifests{objects: objects, account: object}, nil
		}
	}
	return manifests{}, errors.New("there is no ServiceAccount in " + name)
}

// user returns the user name of the program's service account.
func (m manifests) user() string {
	return "system:serviceaccount:" + m.account.GetNamespace() + ":" + m.account.GetName()
}

// servedAt returns copies of the objects in which every webhook, including those for conversion, is
// called at a URL instead of a Service of the cluster.
func (m manifests) servedAt(url string, authority []byte) ([]*unstructured.Unstructured, error) {
	moved := make([]*unstructured.Unstructured, 0, len(m.objects))
	for _, object := range m.objects {
		object = object.DeepCopy()
		for _, webhook := range webhooks(object) {
			path, found, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
			if err != nil || !found {
				return nil, fmt.Errorf("webhook of %s %s: its service has no path", object.GetKind(), object.GetName())
			}
			webhook["clientConfig"] = map[string]any{
				"url":      url + path,
				"caBundle": base64.StdEncoding.EncodeToString(authority),
			}
		}
		moved = append(moved, object)
	}
	return moved, nil
}

// webhooks returns the parts of an object that say how its webhooks are called.
func webhooks(object *unstructured.Unstructured) []map[string]any {
	switch object.GetKind() {
	case crdKind:
		conversion, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "conversion", "webhook")
		if webhook, ok := conversion.(map[string]any); ok {
			return []map[string]any{webhook}
		}
		return nil
	case mutatingWebhookKind, validatingWebhookKind:
		var found []map[string]any
		list, _ := object.Object["webhooks"].([]any)
		for _, item := range list {
			if webhook, ok := item.(map[string]any); ok {
				found = append(found, webhook)
			}
		}
		return found
	default:
		return nil
	}
}
