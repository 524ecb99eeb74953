// Package v1beta1 holds the Kubernetes types of the API group
// infrastructure.cluster.x-k8s.io in the version that clusters of earlier years have stored.
// It is served for them, and converted to and from version v1beta2, which is stored.
//
// What both versions write in the same way has the types of v1beta2. Controllers do not use
// this package; it is what the schemas of the version are generated from.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1
