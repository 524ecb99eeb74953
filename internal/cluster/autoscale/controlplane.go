package autoscale

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// controlPlaneKind is the kind of the control planes whose condition says that they cannot follow
// hosts.
var controlPlaneKind = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"}

// controlPlane is an object of controlPlaneKind. Only its conditions are used.
type controlPlane struct{ *unstructured.Unstructured }

// newControlPlane returns an empty object of controlPlaneKind, for a watch.
func newControlPlane() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(controlPlaneKind)
	return u
}

// readControlPlanes adds the control planes of a namespace.
func (s *snapshot) readControlPlanes(ctx context.Context, from client.Reader, namespace string) error {
	planes := &unstructured.UnstructuredList{}
	planes.SetGroupVersionKind(controlPlaneKind)
	if err := list(ctx, from, namespace, "control planes", planes); err != nil {
		return err
	}
	for i := range planes.Items {
		s.add(&controlPlane{&planes.Items[i]})
	}
	return nil
}

// status is the part of an object's status that GetConditions and SetConditions use.
type status struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GetConditions returns the conditions of the object, or none if they cannot be read.
func (c *controlPlane) GetConditions() []metav1.Condition {
	fields, _, _ := unstructured.NestedMap(c.Object, "status")
	var read status
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &read) != nil {
		return nil
	}
	return read.Conditions
}

// SetConditions replaces the conditions of the object.
func (c *controlPlane) SetConditions(conditions []metav1.Condition) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status{conditions})
	if err == nil { // cannot fail for conditions
		_ = unstructured.SetNestedField(c.Object, fields["conditions"], "status", "conditions")
	}
}
