// Package v1alpha1 holds BareMetalHostDiscovery, the resource that turns
// machines the engine discovered into hosts. It is in the API group metal3.io
// like the hosts themselves, and in a Go package of its own, because the
// discovery controller is independent of the host operator and its API may
// move to another version alone.
//
// +kubebuilder:object:generate=true
// +groupName=metal3.io
package v1alpha1
