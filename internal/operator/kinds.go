package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// kindsTimeout bounds the wait for kinds that the cluster does not list, and kindsPoll is the
// time between two looks. Kubernetes lists a kind some moments after its definition was
// accepted.
const kindsPoll, kindsTimeout = 200 * time.Millisecond, 10 * time.Second

// kindsOf are the kinds of metal3.io that each group of controllers watches.
var kindsOf = map[string][]string{
	GroupHost: {
		"BareMetalHost", "HardwareData", "HostFirmwareSettings", "HostFirmwareComponents", "HostUpdatePolicy",
		"DataImage", "PreprovisioningImage", "HardwareClassification", "BMCEventSubscription",
	},
	GroupDiscovery: {"BareMetalHost", "BareMetalHostDiscovery"},
	GroupFirmware:  {"BareMetalHost", "HostFirmwareSettings", "FirmwareSchema", "HostFirmwareComponents", "HostUpdatePolicy"},
}

// webhookKinds are the kinds that webhooks read.
var webhookKinds = []string{"BareMetalHost", "BareMetalHostDiscovery"}

// checkKinds reports missing CRDs, instead of a cache that never syncs.
func (o *Operator) checkKinds(ctx context.Context) error {
	kinds := map[string]bool{}
	for _, group := range o.opts.Controllers {
		for _, kind := range kindsOf[group] {
			kinds[kind] = true
		}
	}
	if o.opts.Webhook.Port != 0 {
		for _, kind := range webhookKinds {
			kinds[kind] = true
		}
	}
	var missing error
	err := wait.PollUntilContextTimeout(ctx, kindsPoll, kindsTimeout, true, func(context.Context) (bool, error) {
		missing = nil
		for kind := range kinds {
			_, err := o.manager.GetRESTMapper().RESTMapping(schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: kind}, v1alpha1.GroupVersion.Version)
			switch {
			case meta.IsNoMatchError(err):
				missing = fmt.Errorf("the cluster at %s has no %s; install Ingot's CustomResourceDefinitions (config/crd)", o.config.Host, kind)
			case err != nil:
				return false, fmt.Errorf("reach Kubernetes at %s: %w", o.config.Host, err)
			}
		}
		return missing == nil, nil
	})
	switch {
	case ctx.Err() != nil:
		return nil // the manager ends at once
	case missing != nil && errors.Is(err, context.DeadlineExceeded):
		return missing
	}
	return err
}

// marksNodes reports whether a group looks at the marks of nodes.
func marksNodes(group string) bool { return group == GroupHost || group == GroupFirmware }
