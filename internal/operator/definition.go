package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// An API server publishes the schema of a new definition only some moments later. checkDefinition
// reads the schema every definitionPoll, for at most definitionTimeout.
const definitionPoll, definitionTimeout = 200 * time.Millisecond, 10 * time.Second

// checkDefinition returns an error if the cluster's definition of BareMetalHost lacks
// status.operation or status.updates. Without these records the operator would repeat its requests
// to the engine for ever. checkDefinition reads the schema that the API server publishes to
// everybody, because the operator has no other need for the right to read definitions. A schema
// that cannot be read is no error.
func (o *Operator) checkDefinition(ctx context.Context) error {
	client, err := discovery.NewDiscoveryClientForConfig(o.config)
	if err != nil {
		return fmt.Errorf("reach Kubernetes at %s: %w", o.config.Host, err)
	}
	root := openapi3.NewRoot(client.OpenAPIV3())
	lacks := false
	_ = wait.PollUntilContextTimeout(ctx, definitionPoll, definitionTimeout, true, func(context.Context) (bool, error) {
		lacks = lacksRecords(root)
		return !lacks, nil
	})
	if lacks && ctx.Err() == nil {
		return fmt.Errorf("the CustomResourceDefinition of BareMetalHost in the cluster at %s is of another version, without status.operation or status.updates; "+
			"install the definitions of this version (config/crd)", o.config.Host)
	}
	return nil
}

// lacksRecords reports whether a published schema of BareMetalHost has no status.operation
// or no status.updates.
func lacksRecords(root openapi3.Root) bool {
	document, err := root.GVSpec(v1alpha1.GroupVersion)
	if err != nil || document.Components == nil {
		return false
	}
	for name, kind := range document.Components.Schemas {
		if !strings.HasSuffix(name, ".BareMetalHost") {
			continue
		}
		status := kind.Properties["status"]
		_, operation := status.Properties["operation"]
		_, updates := status.Properties["updates"]
		return !operation || !updates
	}
	return false
}
