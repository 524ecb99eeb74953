// Package webhook checks objects of metal3.io before the API server stores them. It refuses
// what cannot work, with the field and with what to write instead, and warns about what will
// not do what it seems to.
//
// What a schema can say is in the CustomResourceDefinitions; here is what needs more than one
// field, the state of the object, or other objects. The checks of a single object are pure.
// Webhooks are asked for by the API server; nothing but the answer depends on
// them, so each replica of the operator serves them, whether it leads or not.
package webhook

import (
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/duplicate"
)

// +kubebuilder:webhookconfiguration:mutating=false,name=ingot-webhook

// ConfigurationName is the name of the ValidatingWebhookConfiguration.
const ConfigurationName = "ingot-webhook"

// ServiceName is the name of the Service that the API server reaches webhooks at.
const ServiceName = "ingot-webhook"

// pathPrefix begins the paths that webhooks are served at, the same as upstream's; the kind
// in lower case follows.
const pathPrefix = "/validate-metal3-io-v1alpha1-"

// Config is what the webhooks need.
type Config struct {
	// Cache has the indexes of [IndexFields].
	Cache client.Reader
	// Live reads past the cache.
	Live client.Reader
	// Scheme has the kinds that are checked.
	Scheme *runtime.Scheme
	// Checks are the checks of single objects.
	Checks Checks
}

// Register adds the webhooks to a server.
func Register(server crwebhook.Server, c Config) {
	for kind, hook := range map[string]*admission.Webhook{
		"baremetalhost":          handler(c.Scheme, hosts{finder: duplicate.Finder{Cache: c.Cache, Live: c.Live}, checks: c.Checks}),
		"baremetalhostdiscovery": handler(c.Scheme, discoveries{cache: c.Cache}),
		"hostfirmwarecomponents": handler(c.Scheme, alone[*v1alpha1.HostFirmwareComponents]{"HostFirmwareComponents", c.Checks.components}),
		"dataimage":              handler(c.Scheme, alone[*v1alpha1.DataImage]{"DataImage", c.Checks.dataImage}),
		"bmceventsubscription":   handler(c.Scheme, alone[*v1alpha1.BMCEventSubscription]{"BMCEventSubscription", checkSubscription}),
		"hostupdatepolicy":       handler(c.Scheme, alone[*v1alpha1.HostUpdatePolicy]{"HostUpdatePolicy", policyCheck(c.Cache)}),
	} {
		server.Register(pathPrefix+kind, hook)
	}
}

// handler answers requests for one kind. A panic is an answer with status 500, not the end of
// the operator.
func handler[T runtime.Object](scheme *runtime.Scheme, v admission.Validator[T]) *admission.Webhook {
	return admission.WithValidator(scheme, v).WithRecoverPanic(true)
}
