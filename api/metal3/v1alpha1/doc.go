// Package v1alpha1 holds the Kubernetes types of the API group metal3.io in
// version v1alpha1: BareMetalHost, the kinds that belong to one host, and
// HardwareClassification.
//
// The types are Ingot's own and compatible on the wire with the resources that
// clusters already hold: names, groups, JSON keys and enumerations are kept,
// fields are only ever added. Writers use merge or JSON patches, never a full
// update, because an object may carry fields of a newer schema that these
// types do not know.
//
// +kubebuilder:object:generate=true
// +groupName=metal3.io
package v1alpha1
