package firmware

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// maxOwners bounds the owners of a schema, because each added owner writes the whole object. If all
// owners of a schema are gone, it is deleted although other hosts may use it. Those hosts create it
// again.
const maxOwners = 50

// schemas keeps FirmwareSchemas, which the hosts of a namespace share.
type schemas struct {
	client client.Client
	live   client.Reader
}

// schemaStep is what has to be done about a schema.
type schemaStep int

const (
	schemaKeep    schemaStep = iota // nothing
	schemaOwn                       // another owner has to be added
	schemaRewrite                   // its vendor, or owners or settings that somebody removed, have to be written
	schemaRefuse                    // it has other settings with the same hash
)

// decideSchema decides what to do about the existing schema that has the name of wanted.
func decideSchema(present *v1alpha1.FirmwareSchema, wanted v1alpha1.FirmwareSchemaSpec, owner types.UID) schemaStep {
	owners := present.OwnerReferences
	owned := slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return r.UID == owner })
	same := v1alpha1.SameSchema(present.Spec.Schema, wanted.Schema)
	name, err := v1alpha1.FirmwareSchemaName(present.Spec.Schema)
	switch {
	case !same && err == nil && name == present.Name:
		return schemaRefuse
	case !same, len(owners) == 0, present.Spec.HardwareVendor == "" && wanted.HardwareVendor != "":
		return schemaRewrite
	case !owned && len(owners) < maxOwners:
		return schemaOwn
	default:
		return schemaKeep
	}
}

// ensure makes sure that the schema exists and that its owners include h, unless it already has
// maxOwners. It returns a reference to the schema, or nil for a machine without settings.
func (p schemas) ensure(ctx context.Context, h *v1alpha1.HostFirmwareSettings, wanted v1alpha1.FirmwareSchemaSpec) (*v1alpha1.SchemaReference, error) {
	if len(wanted.Schema) == 0 {
		return nil, nil
	}
	name, err := v1alpha1.FirmwareSchemaName(wanted.Schema)
	if err != nil {
		return nil, err
	}
	key := client.ObjectKey{Namespace: h.Namespace, Name: name}
	var present v1alpha1.FirmwareSchema
	err = p.client.Get(ctx, key, &present)
	if apierrors.IsNotFound(err) {
		err = p.create(ctx, key, wanted, h)
		if apierrors.IsAlreadyExists(err) { // another host's pass was faster
			err = p.live.Get(ctx, key, &present)
		}
	}
	if err == nil && present.Name != "" {
		err = p.update(ctx, &present, wanted, h)
	}
	if err != nil {
		return nil, fmt.Errorf("keep FirmwareSchema %s: %w", name, err)
	}
	return &v1alpha1.SchemaReference{Namespace: key.Namespace, Name: key.Name}, nil
}

func (p schemas) create(ctx context.Context, key client.ObjectKey, spec v1alpha1.FirmwareSchemaSpec, h *v1alpha1.HostFirmwareSettings) error {
	return p.client.Create(ctx, &v1alpha1.FirmwareSchema{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, OwnerReferences: []metav1.OwnerReference{userOf(h)}},
		Spec:       spec,
	})
}

func (p schemas) update(ctx context.Context, present *v1alpha1.FirmwareSchema, wanted v1alpha1.FirmwareSchemaSpec, h *v1alpha1.HostFirmwareSettings) error {
	switch decideSchema(present, wanted, h.UID) {
	case schemaRefuse:
		return fmt.Errorf("it has other settings than those of host %s, although their hash is the same; delete it, if no other host needs it", h.Name)
	case schemaOwn:
		return p.addOwner(ctx, present, userOf(h))
	case schemaRewrite:
		before := present.DeepCopy()
		present.Spec.Schema = wanted.Schema
		if present.Spec.HardwareVendor == "" {
			present.Spec.HardwareVendor, present.Spec.HardwareModel = wanted.HardwareVendor, wanted.HardwareModel
		}
		if len(present.OwnerReferences) < maxOwners {
			present.OwnerReferences = append(slices.DeleteFunc(present.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == h.UID }), userOf(h))
		}
		return p.client.Patch(ctx, present, locked(before))
	}
	return nil
}

// addOwner appends to the list of owners on the server, so that many hosts can do so at once. The
// server drops duplicates.
func (p schemas) addOwner(ctx context.Context, present *v1alpha1.FirmwareSchema, owner metav1.OwnerReference) error {
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/metadata/ownerReferences/-", "value": owner}})
	if err != nil {
		return err
	}
	return p.client.Patch(ctx, present, client.RawPatch(types.JSONPatchType, patch))
}

// userOf returns the reference to HostFirmwareSettings that use a schema.
func userOf(h *v1alpha1.HostFirmwareSettings) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "HostFirmwareSettings", Name: h.Name, UID: h.UID,
	}
}
