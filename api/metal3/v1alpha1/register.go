package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types of this package.
var GroupVersion = schema.GroupVersion{Group: "metal3.io", Version: "v1alpha1"}

// schemeBuilder collects what AddToScheme registers.
var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the types of this package with a scheme. It returns an
// error only when another type already has one of the names.
func AddToScheme(scheme *runtime.Scheme) error {
	return schemeBuilder.AddToScheme(scheme)
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&BareMetalHost{}, &BareMetalHostList{},
		&HardwareData{}, &HardwareDataList{},
		&HostFirmwareSettings{}, &HostFirmwareSettingsList{},
		&FirmwareSchema{}, &FirmwareSchemaList{},
		&HostFirmwareComponents{}, &HostFirmwareComponentsList{},
		&HostUpdatePolicy{}, &HostUpdatePolicyList{},
		&DataImage{}, &DataImageList{},
		&PreprovisioningImage{}, &PreprovisioningImageList{},
		&BMCEventSubscription{}, &BMCEventSubscriptionList{},
		&HardwareClassification{}, &HardwareClassificationList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
