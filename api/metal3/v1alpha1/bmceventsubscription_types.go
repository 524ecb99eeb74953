package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BMCEventSubscriptionFinalizer keeps a deleted BMCEventSubscription until the
// BMC has ended the subscription.
const BMCEventSubscriptionFinalizer = "bmceventsubscription.metal3.io"

// BMCEventSubscriptionSpec says where a BMC sends its events. Written by users, and
// never changed: to change a subscription, create another one.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a subscription cannot be changed; delete it and create another one"
type BMCEventSubscriptionSpec struct {
	// hostName is the name of the BareMetalHost, in the object's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	HostName string `json:"hostName"`
	// destination is the absolute URL that the BMC posts events to. One without a
	// path ends in a slash.
	// +required
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() != ''",message="destination must be an absolute URL"
	// +kubebuilder:validation:XValidation:rule="!isURL(self) || url(self).getEscapedPath() != ''",message="a destination without a path must end in a slash"
	Destination string `json:"destination"`
	// context is text that the BMC adds to each event.
	// +optional
	Context string `json:"context,omitempty"`
	// httpHeadersRef refers to a Secret with HTTP headers that the BMC sends with
	// each event, in the object's namespace.
	// +optional
	HTTPHeadersRef *corev1.SecretReference `json:"httpHeadersRef,omitempty"`
}

// BMCEventSubscriptionStatus is the subscription at the BMC. Written by the
// operator.
type BMCEventSubscriptionStatus struct {
	// subscriptionID is the BMC's name for the subscription. Empty means that there
	// is none yet.
	// +optional
	SubscriptionID string `json:"subscriptionID,omitempty"`
	// requestedAt is when the BMC is asked for the subscription. It is written before and
	// removed with the answer: while it is there, the BMC may have a subscription whose ID is
	// not known yet.
	// +optional
	RequestedAt *metav1.Time `json:"requestedAt,omitempty"`
	// error says what went wrong last and what to do about it. Empty means nothing.
	// +optional
	Error string `json:"error,omitempty"`
}

// BMCEventSubscription makes the BMC of a BareMetalHost send its events to a URL
// (Redfish EventDestination, DSP0268).
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bes;bmcevent
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:printcolumn:name="Error",type="string",JSONPath=".status.error",description="What went wrong last"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type BMCEventSubscription struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says where events go.
	// +required
	Spec BMCEventSubscriptionSpec `json:"spec"`
	// status is the subscription at the BMC.
	// +optional
	Status BMCEventSubscriptionStatus `json:"status,omitzero"`
}

// BMCEventSubscriptionList is a list of subscriptions.
// +kubebuilder:object:root=true
type BMCEventSubscriptionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the subscriptions.
	Items []BMCEventSubscription `json:"items"`
}
