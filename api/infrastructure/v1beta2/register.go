package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types of this package.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}

// schemeBuilder collects what AddToScheme registers.
var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the types of this package with a scheme. It returns an
// error only when another type already has one of the names.
func AddToScheme(scheme *runtime.Scheme) error {
	return schemeBuilder.AddToScheme(scheme)
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Metal3Cluster{}, &Metal3ClusterList{},
		&Metal3ClusterTemplate{}, &Metal3ClusterTemplateList{},
		&Metal3Machine{}, &Metal3MachineList{},
		&Metal3MachineTemplate{}, &Metal3MachineTemplateList{},
		&Metal3Remediation{}, &Metal3RemediationList{},
		&Metal3RemediationTemplate{}, &Metal3RemediationTemplateList{},
		&Metal3DataTemplate{}, &Metal3DataTemplateList{},
		&Metal3Data{}, &Metal3DataList{},
		&Metal3DataClaim{}, &Metal3DataClaimList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
