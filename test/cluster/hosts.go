package cluster

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/up"
)

// RegisterHosts registers machines that nobody has taken as hosts of these names, with labels, and does not wait
// for them. Their disks are not cleaned.
func (c *Cluster) RegisterHosts(tb testing.TB, labels map[string]string, names ...string) {
	tb.Helper()
	for i, machine := range c.take(tb, len(names)) {
		name := names[i]
		c.Hosts[name] = machine
		address, err := url.Parse(c.Machine(name).BMCURL())
		if err != nil {
			tb.Fatal(err)
		}
		c.Create(tb, &corev1.Secret{
			ObjectMeta: c.Meta(name + "-bmc"),
			StringData: map[string]string{"username": up.BMCUser, "password": up.BMCPassword},
		})
		meta := c.Meta(name)
		meta.Labels = maps.Clone(labels)
		c.Create(tb, &v1alpha1.BareMetalHost{ObjectMeta: meta, Spec: v1alpha1.BareMetalHostSpec{
			BootMACAddress: c.Machine(name).BootMAC(), AutomatedCleaningMode: v1alpha1.CleaningModeDisabled,
			BMC: v1alpha1.BMCDetails{
				Address: "redfish-virtualmedia://" + address.Host, CredentialsName: name + "-bmc", DisableCertificateVerification: true,
			},
		}})
	}
}

// AddHosts is RegisterHosts that waits until the hosts are available.
func (c *Cluster) AddHosts(tb testing.TB, labels map[string]string, names ...string) {
	tb.Helper()
	c.RegisterHosts(tb, labels, names...)
	for _, name := range names {
		c.HostShows(tb, name, "available", func(h *v1alpha1.BareMetalHost) bool {
			return h.Status.Provisioning.State == v1alpha1.StateAvailable
		})
	}
}

// Machine is the machine of a host.
func (c *Cluster) Machine(host string) *sim.Machine {
	return c.MachinesWithBMC().Machine(c.Hosts[host])
}

// Host reads a host.
func (c *Cluster) Host(ctx context.Context, name string) (*v1alpha1.BareMetalHost, error) {
	h := &v1alpha1.BareMetalHost{}
	return h, c.Kube.Get(ctx, c.Key(name), h)
}

// HostShows waits until a host shows what is wanted, and returns it.
func (c *Cluster) HostShows(tb testing.TB, name, what string, is func(*v1alpha1.BareMetalHost) bool) (h *v1alpha1.BareMetalHost) {
	tb.Helper()
	Eventually(tb, func(ctx context.Context) (err error) {
		if h, err = c.Host(ctx, name); err != nil {
			return err
		}
		if !is(h) {
			return fmt.Errorf("the host %s is not %s: it is %q, consumed by %v, powered on %t, %s", name, what,
				h.Status.Provisioning.State, h.Spec.ConsumerRef, h.Status.PoweredOn, h.Status.ErrorMessage)
		}
		return nil
	})
	return h
}

// ChangeHost changes a host as kubectl edit does.
func (c *Cluster) ChangeHost(tb testing.TB, name string, change func(*v1alpha1.BareMetalHost)) {
	tb.Helper()
	Change(tb, c, &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: c.Name, Name: name}}, change)
}

// Consumers returns the names of the Metal3Machines that hold hosts, by the names of the hosts.
func (c *Cluster) Consumers(ctx context.Context) (map[string]string, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := c.Kube.List(ctx, &hosts, client.InNamespace(c.Name)); err != nil {
		return nil, err
	}
	consumers := map[string]string{}
	for _, h := range hosts.Items {
		if ref := h.Spec.ConsumerRef; ref != nil && ref.Kind == "Metal3Machine" {
			consumers[h.Name] = ref.Name
		}
	}
	return consumers, nil
}

// HostIsFree waits until a host is available and nobody's.
func (c *Cluster) HostIsFree(tb testing.TB, name string) {
	tb.Helper()
	h := c.HostShows(tb, name, "free", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Provisioning.State == v1alpha1.StateAvailable && h.Spec.ConsumerRef == nil
	})
	if left := reservation(h); left != "" {
		tb.Errorf("the host %s is free and has a reservation: %s", name, left)
	}
}
