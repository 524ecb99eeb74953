package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Kubernetes lists a kind some moments after it accepted the definition. checkKinds checks every
// kindsPoll for kinds that the cluster does not list yet, for at most kindsTimeout.
const kindsPoll, kindsTimeout = 200 * time.Millisecond, 10 * time.Second

// kinds are names of kinds by the API version that they belong to.
type kinds map[schema.GroupVersion][]string

// kindsOf are the kinds that each group of controllers watches.
var kindsOf = map[string]kinds{
	GroupHost: {v1alpha1.GroupVersion: {
		"BareMetalHost", "HardwareData", "HostFirmwareSettings", "HostFirmwareComponents", "HostUpdatePolicy",
		"DataImage", "PreprovisioningImage", "HardwareClassification", "BMCEventSubscription",
	}},
	GroupDiscovery: {v1alpha1.GroupVersion: {"BareMetalHost", "BareMetalHostDiscovery"}},
	GroupFirmware: {v1alpha1.GroupVersion: {
		"BareMetalHost", "HostFirmwareSettings", "FirmwareSchema", "HostFirmwareComponents", "HostUpdatePolicy",
	}},
	GroupCluster: {
		v1alpha1.GroupVersion: {"BareMetalHost", "HardwareData"},
		v1beta2.GroupVersion: {
			"Metal3Cluster", "Metal3Machine", "Metal3MachineTemplate", "Metal3DataTemplate", "Metal3Data", "Metal3DataClaim",
		},
		clusterv1.GroupVersion: {"Cluster", "Machine", "MachineSet", "MachineDeployment"},
		ipamv1.GroupVersion:    {"IPAddressClaim", "IPAddress"},
	},
	GroupRemediation: {
		v1alpha1.GroupVersion:  {"BareMetalHost"},
		v1beta2.GroupVersion:   {"Metal3Machine", "Metal3Remediation"},
		clusterv1.GroupVersion: {"Cluster", "Machine"},
	},
	GroupAutoscale: {
		v1alpha1.GroupVersion:  {"BareMetalHost", "HardwareData", "HardwareClassification"},
		v1beta2.GroupVersion:   {"Metal3Machine", "Metal3MachineTemplate"},
		clusterv1.GroupVersion: {"Cluster", "Machine", "MachineSet", "MachineDeployment"},
	},
}

// webhookKinds are the kinds that webhooks read.
var webhookKinds = kinds{v1alpha1.GroupVersion: {"BareMetalHost", "BareMetalHostDiscovery"}}

// sources say how to install the kinds of an API group that Ingot does not define.
var sources = map[string]string{clusterv1.GroupVersion.Group: "install Cluster API", ipamv1.GroupVersion.Group: "install Cluster API"}

// checkKinds returns an error if CRDs are missing, instead of waiting for a cache that never syncs.
func (o *Operator) checkKinds(ctx context.Context) error {
	needed := map[schema.GroupVersionKind]bool{}
	need := func(all kinds) {
		for version, names := range all {
			for _, name := range names {
				needed[version.WithKind(name)] = true
			}
		}
	}
	for _, group := range o.opts.Controllers {
		need(kindsOf[group])
	}
	if o.opts.Webhook.Port != 0 {
		need(webhookKinds)
	}
	var missing error
	err := wait.PollUntilContextTimeout(ctx, kindsPoll, kindsTimeout, true, func(context.Context) (bool, error) {
		missing = nil
		for kind := range needed {
			_, err := o.manager.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
			switch {
			case meta.IsNoMatchError(err):
				missing = fmt.Errorf("the cluster at %s has no %s of %s; %s", o.config.Host, kind.Kind, kind.GroupVersion(),
					cmp.Or(sources[kind.Group], "install Ingot's CustomResourceDefinitions (config/crd)"))
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

// marksNodes reports whether a group uses the marks with which clusters claim nodes.
func marksNodes(group string) bool { return group == GroupHost || group == GroupFirmware }
