package fencing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// ProvenOff returns nil if the machine of a host is proven to be off by this very hold. That means:
// the annotation key has this value, and the host operator has recorded that it read the machine as
// off after the request that this annotation caused. Otherwise the error says why that is not
// known. The host has to be read from the API server and not from a cache.
//
// status.poweredOn alone proves nothing. It is the last reading, perhaps from before the request,
// and nobody corrects it while the BMC does not answer or the host is paused.
func ProvenOff(h *v1alpha1.BareMetalHost, key, value string) error {
	if why := unwatched(h); why != "" {
		return errors.New(why)
	}
	switch held, ok := h.Annotations[key]; {
	case !ok:
		return fmt.Errorf("host %s does not have the annotation %s", h.Name, key)
	case held != value:
		return fmt.Errorf("the annotation %s of host %s has another value: somebody replaced the hold", key, h.Name)
	case h.Status.PoweredOn:
		return fmt.Errorf("the machine of host %s is on", h.Name)
	}
	for _, record := range h.Status.PowerOffHolds {
		if record.Key != key {
			continue
		}
		if record.Value != recordedValue(value) {
			return fmt.Errorf("host %s has a record of an earlier value of the annotation %s only", h.Name, key)
		}
		if record.ConfirmedAt == nil {
			return fmt.Errorf("host %s was asked to power off for the annotation %s, and is not confirmed to be off", h.Name, key)
		}
		return nil
	}
	return fmt.Errorf("host %s has no record in status.powerOffHolds for the annotation %s: it was not powered off for it yet, or its operator keeps no such records", h.Name, key)
}

// unwatched says why the power state of a host is not known now, or is empty.
func unwatched(h *v1alpha1.BareMetalHost) string {
	if why := unfenceable(h); why != "" {
		return why
	}
	_, paused := h.Annotations[v1alpha1.PausedAnnotation]
	switch {
	case paused:
		return fmt.Sprintf("host %s is paused by the annotation %s", h.Name, v1alpha1.PausedAnnotation)
	case !h.DeletionTimestamp.IsZero():
		return fmt.Sprintf("host %s is being deleted", h.Name)
	case h.Status.Provisioning.ID == "":
		return fmt.Sprintf("host %s has no node in the engine", h.Name)
	}
	switch h.Status.ErrorType {
	case v1alpha1.ErrorPowerManagement, v1alpha1.ErrorRegistration, v1alpha1.ErrorProvisionedRegistration, v1alpha1.ErrorDetach:
		return fmt.Sprintf("host %s has a %s: %s", h.Name, h.Status.ErrorType, h.Status.ErrorMessage)
	default:
		return ""
	}
}

// unfenceable says why the machine of a host cannot be powered off and kept off, or is empty.
func unfenceable(h *v1alpha1.BareMetalHost) string {
	_, detached := h.Annotations[v1alpha1.DetachedAnnotation]
	switch {
	case !h.HasBMC():
		return fmt.Sprintf("host %s has no BMC", h.Name)
	case !h.SupportsPowerControl():
		return fmt.Sprintf("the BMC in the spec of host %s belongs to another machine, by its condition %s", h.Name, v1alpha1.IdentityVerifiedCondition)
	case h.Spec.DisablePowerOff:
		return fmt.Sprintf("spec.disablePowerOff of host %s forbids to power it off", h.Name)
	case detached, h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached:
		return fmt.Sprintf("host %s is detached", h.Name)
	default:
		return ""
	}
}

// DoubtNode says why a Node that was found for a Machine may belong to another machine than the one
// on its host, or is empty. A proof that the host is off says nothing about such a Node.
func DoubtNode(ctx context.Context, live client.Reader, machine *clusterv1.Machine, h *v1alpha1.BareMetalHost, node *corev1.Node) (string, error) {
	id := node.Spec.ProviderID
	if namesOtherHost(id, h) {
		return fmt.Sprintf("Node %s has the provider ID %q, and the Machine has host %s", node.Name, id, h.Name), nil
	}
	if why, err := doubtHost(ctx, live, h, node); why != "" || err != nil {
		return why, err
	}
	if id != "" {
		return "", nil
	}
	var machines clusterv1.MachineList
	err := live.List(ctx, &machines, client.InNamespace(machine.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: machine.Spec.ClusterName})
	if err != nil {
		return "", fmt.Errorf("look for other Machines with Node %s: %w", node.Name, err)
	}
	for i := range machines.Items {
		if m := &machines.Items[i]; m.UID != machine.UID && m.Status.NodeRef.Name == node.Name {
			return fmt.Sprintf("Node %s has no provider ID, and Machine %s names it, too", node.Name, m.Name), nil
		}
	}
	return "", nil
}

// doubtHost says which other host of the namespace the Node names by its UID, or is empty. The UID
// is in the label of the Node, or in its provider ID as earlier versions wrote it. A UID that no
// host has raises no doubt: it is from before a move, or from before the host was created anew.
func doubtHost(ctx context.Context, live client.Reader, h *v1alpha1.BareMetalHost, node *corev1.Node) (string, error) {
	named := map[types.UID]bool{types.UID(node.Labels[v1beta2.NodeHostLabel]): true}
	if id, ok := strings.CutPrefix(node.Spec.ProviderID, v1beta2.ProviderIDPrefix); ok && !strings.Contains(id, "/") {
		named[types.UID(id)] = true
	}
	delete(named, "")
	delete(named, h.UID)
	if len(named) == 0 {
		return "", nil
	}
	var hosts v1alpha1.BareMetalHostList
	if err := live.List(ctx, &hosts, client.InNamespace(h.Namespace)); err != nil {
		return "", fmt.Errorf("look for the host of Node %s: %w", node.Name, err)
	}
	for i := range hosts.Items {
		if other := &hosts.Items[i]; named[other.UID] {
			return fmt.Sprintf("Node %s has the UID of host %s in its provider ID or in its label %s, and the Machine has host %s", node.Name, other.Name, v1beta2.NodeHostLabel, h.Name), nil
		}
	}
	return "", nil
}

// namesOtherHost reports whether a provider ID is that of a machine on another host. It compares
// the name of the host, unless an earlier version made the provider ID from the UID. It does not
// compare the namespace, which a move may have changed.
func namesOtherHost(providerID string, h *v1alpha1.BareMetalHost) bool {
	id, ok := strings.CutPrefix(providerID, v1beta2.ProviderIDPrefix)
	parts := strings.Split(id, "/")
	return ok && len(parts) == 3 && parts[1] != h.Name
}

// longestRecorded is the longest value that a record has unchanged, in bytes.
const longestRecorded = 256

// recordedValue returns the form in which status.powerOffHolds records the value of an annotation.
func recordedValue(value string) string {
	if len(value) <= longestRecorded {
		return value
	}
	digest := sha256.Sum256([]byte(value))
	return "sha256:" + hex.EncodeToString(digest[:])
}
