// Package v1beta2 holds the Kubernetes types of the API group
// infrastructure.cluster.x-k8s.io in the version that is stored: those with which Cluster API
// puts its machines on BareMetalHosts.
//
// The types are Ingot's own and compatible on the wire with the resources that clusters
// already hold: names, groups, JSON keys and enumerations are kept, fields are only ever
// added. Version v1beta1 is served beside it; internal/webhook/conversion converts.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta2
