// Package webhook checks objects of metal3.io and infrastructure.cluster.x-k8s.io before the API
// server stores them, and converts the latter between their versions. It refuses what cannot work,
// names the field and says what to write instead. It warns about what will not do what it seems to
// do.
//
// What a schema can express is in the CustomResourceDefinitions. This package has the checks that
// need more than one field, the state of the object, or other objects. The checks of a single
// object have no side effects. The API server calls webhooks, and nothing but the answer depends on
// them. Therefore each replica of the operator serves them, whether it leads or not.
package webhook

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/duplicate"
	"github.com/ingot-metal/ingot/internal/webhook/conversion"
)

// +kubebuilder:webhookconfiguration:mutating=false,name=ingot-webhook

// ConfigurationName is the name of the ValidatingWebhookConfiguration.
const ConfigurationName = "ingot-webhook"

// ServiceName is the name of the Service through which the API server reaches the webhooks.
const ServiceName = "ingot-webhook"

// Definitions are the names of the CustomResourceDefinitions whose objects are converted.
var Definitions = []string{
	"metal3clusters.infrastructure.cluster.x-k8s.io",
	"metal3clustertemplates.infrastructure.cluster.x-k8s.io",
	"metal3machines.infrastructure.cluster.x-k8s.io",
	"metal3machinetemplates.infrastructure.cluster.x-k8s.io",
	"metal3remediations.infrastructure.cluster.x-k8s.io",
	"metal3remediationtemplates.infrastructure.cluster.x-k8s.io",
	"metal3datatemplates.infrastructure.cluster.x-k8s.io",
	"metal3datas.infrastructure.cluster.x-k8s.io",
	"metal3dataclaims.infrastructure.cluster.x-k8s.io",
}

// hostPath and clusterPath are the beginnings of the paths of checks, the same as upstream's. The
// kind in lower case follows. conversionPath is the path of the conversion of objects.
const (
	hostPath       = "/validate-metal3-io-v1alpha1-"
	clusterPath    = "/validate-infrastructure-cluster-x-k8s-io-v1beta2-"
	conversionPath = "/convert"
)

// Config is what the webhooks need.
type Config struct {
	// Cache has the indexes of [IndexFields].
	Cache client.Reader
	// Live reads from the API server itself.
	Live client.Reader
	// Scheme has the kinds that are checked.
	Scheme *runtime.Scheme
	// Checks are the checks of single objects.
	Checks Checks
}

// Register adds the webhooks to a server.
func Register(server crwebhook.Server, c Config) {
	host := func(kind string) schema.GroupKind { return v1alpha1.GroupVersion.WithKind(kind).GroupKind() }
	cluster := func(kind string) schema.GroupKind { return v1beta2.GroupVersion.WithKind(kind).GroupKind() }
	for path, hook := range map[string]*admission.Webhook{
		hostPath + "baremetalhost":          handler(c.Scheme, hosts{finder: duplicate.Finder{Cache: c.Cache, Live: c.Live}, checks: c.Checks}),
		hostPath + "baremetalhostdiscovery": handler(c.Scheme, discoveries{cache: c.Cache}),
		hostPath + "hostfirmwarecomponents": handler(c.Scheme, alone[*v1alpha1.HostFirmwareComponents]{host("HostFirmwareComponents"), c.Checks.components}),
		hostPath + "dataimage":              handler(c.Scheme, alone[*v1alpha1.DataImage]{host("DataImage"), c.Checks.dataImage}),
		hostPath + "bmceventsubscription":   handler(c.Scheme, alone[*v1alpha1.BMCEventSubscription]{host("BMCEventSubscription"), checkSubscription}),
		hostPath + "hostupdatepolicy":       handler(c.Scheme, alone[*v1alpha1.HostUpdatePolicy]{host("HostUpdatePolicy"), policyCheck(c.Cache)}),
		clusterPath + "metal3machine":       handler(c.Scheme, alone[*v1beta2.Metal3Machine]{cluster("Metal3Machine"), c.Checks.machine}),
		clusterPath + "metal3machinetemplate": handler(c.Scheme, machineTemplates{
			alone[*v1beta2.Metal3MachineTemplate]{cluster("Metal3MachineTemplate"), c.Checks.machineTemplate},
		}),
	} {
		server.Register(path, hook)
	}
	server.Register(conversionPath, conversion.Handler())
}

// handler answers requests for one kind. A panic becomes an answer with status 500 and does not end
// the operator.
func handler[T runtime.Object](scheme *runtime.Scheme, v admission.Validator[T]) *admission.Webhook {
	return admission.WithValidator(scheme, v).WithRecoverPanic(true)
}
