package machine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/workload"
)

// maxAddresses bounds the addresses of a machine (status.addresses).
const maxAddresses = 32

// runs reports whether a host runs what its spec asks for, and if not, what is missing.
func runs(h *v1alpha1.BareMetalHost) (bool, string) {
	state := h.Status.Provisioning.State
	deployed := state == v1alpha1.StateProvisioned || state == v1alpha1.StateExternallyProvisioned
	switch {
	case h.Status.ErrorMessage != "" && !deployed:
		return false, fmt.Sprintf("Host %s is in state %q: %s", h.Name, state, h.Status.ErrorMessage)
	case !deployed:
		return false, fmt.Sprintf("Host %s is in state %q.", h.Name, state)
	case !h.Spec.Online:
		return false, fmt.Sprintf("Host %s is to be powered off: its spec.online is false.", h.Name)
	default:
		return true, ""
	}
}

// addressesOf returns the addresses of a host's NICs, and its name.
func addressesOf(hardware *v1alpha1.HardwareDetails) []clusterv1.MachineAddress {
	if hardware == nil {
		return nil
	}
	var all []clusterv1.MachineAddress
	seen := map[string]bool{}
	for _, nic := range hardware.NICs {
		if nic.IP != "" && !seen[nic.IP] {
			seen[nic.IP] = true
			all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: nic.IP})
		}
	}
	if hardware.Hostname != "" {
		all = all[:min(len(all), maxAddresses-2)]
		all = append(all,
			clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: hardware.Hostname},
			clusterv1.MachineAddress{Type: clusterv1.MachineInternalDNS, Address: hardware.Hostname})
	}
	return all[:min(len(all), maxAddresses)]
}

// observe tells Cluster API that the machine is provisioned once the host runs what is deployed.
func (p *pass) observe(ctx context.Context, h *v1alpha1.BareMetalHost) (ctrl.Result, error) {
	if !p.deployed(h) {
		p.noNode(p.why.message)
		return ctrl.Result{}, nil
	}
	hardware, err := p.hardware(ctx, h)
	if err != nil {
		return ctrl.Result{}, err
	}
	if addresses := addressesOf(hardware); len(addresses) > 0 {
		p.m.Status.Addresses = addresses
	}
	err = p.patchMachine(ctx, func(m *v1beta2.Metal3Machine) {
		if m.Spec.ProviderID == "" {
			m.Spec.ProviderID = workload.ProviderID(m, h)
		}
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	p.m.Status.Initialization.Provisioned = new(true)
	p.ready, p.why = true, reason{v1beta2.ReadyReason, ""}
	return p.syncNode(ctx, h)
}

// deployed reports whether the host runs what is deployed. If not, the condition Ready says what is
// missing. It also copies the failure domain of the host to the status.
func (p *pass) deployed(h *v1alpha1.BareMetalHost) bool {
	p.m.Status.FailureDomain = h.Labels[v1beta2.FailureDomainLabel]
	ok, missing := runs(h)
	if !ok {
		p.notReady("%s", missing)
	}
	return ok
}

// hardware returns what is known about the hardware of a host, or nil.
func (p *pass) hardware(ctx context.Context, h *v1alpha1.BareMetalHost) (*v1alpha1.HardwareDetails, error) {
	if h.Status.HardwareDetails != nil {
		return h.Status.HardwareDetails, nil
	}
	var data v1alpha1.HardwareData // HardwareData in the cache has no addresses
	err := p.Live.Get(ctx, client.ObjectKeyFromObject(h), &data)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read HardwareData %s/%s: %w", h.Namespace, h.Name, err)
	}
	return data.Spec.HardwareDetails, nil
}

// syncNode brings the Node in line with the machine and its host. The machine is ready without a
// Node, which comes later. A Node that has got its provider ID by other means keeps it, and the
// machine gets the same.
func (p *pass) syncNode(ctx context.Context, h *v1alpha1.BareMetalHost) (ctrl.Result, error) {
	if p.Nodes == nil || p.machine == nil || p.cluster == nil || p.infrastructure == nil {
		return ctrl.Result{}, nil
	}
	result, err := p.Nodes.Sync(ctx, p.cluster, p.machine, p.m, h, p.infrastructure)
	if result.Reason != "" {
		p.set(v1beta2.AssociateMetal3MachineMetaDataCondition, result.Reason == v1beta2.AssociateMetal3MachineMetaDataSuccessReason,
			reason{result.Reason, result.Message})
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if result.ProviderID != "" {
		err = p.patchMachine(ctx, func(m *v1beta2.Metal3Machine) { m.Spec.ProviderID = result.ProviderID })
	}
	return ctrl.Result{RequeueAfter: result.RequeueAfter}, err
}
