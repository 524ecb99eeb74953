package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

const (
	managedHosts  = 1000 // hosts with these numbers are not paused
	deployedHosts = 50   // how many of them are deployed, and freed again, at the same time
	deployRounds  = 3
	deployTime    = time.Second // what a deployment and its removal take
	workLimit     = 20          // the operator's default: hosts that the engine works on at once
)

// benchOperatorDeploy measures what a deployment, or the removal of one, costs an operator that has
// many hosts with BMCs. More hosts ask for it than the engine may work on at once, so that they
// wait in the queue; all take part in the search for duplicates.
func benchOperatorDeploy(ctx context.Context, b *bench) (err error) {
	c, err := b.startCluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	operator.RouteLogs(slog.New(slog.DiscardHandler))
	if err := c.createAll(ctx, managedHosts, func(i int) kube.Object { return hostSecret(i) }); err != nil {
		return err
	}
	engine := demo.New(demo.Options{Durations: map[demo.Verb]time.Duration{demo.VerbDeploy: deployTime, demo.VerbUndeploy: deployTime}})
	var costs [len(hostCounts)]changeCost
	created := 0
	for i, size := range hostCounts {
		if err := c.createAll(ctx, size-created, func(i int) kube.Object { return deployHost(created + i) }); err != nil {
			return err
		}
		addOthers(engine, max(created, managedHosts), size)
		created = size
		first := func(ctx context.Context) error {
			if err := c.awaitStates(ctx, min(size, managedHosts), v1alpha1.StateAvailable); err != nil {
				return err
			}
			return c.deployAndFree(ctx)
		}
		options := operator.Options{Engine: engine, Capacity: workLimit}
		if costs[i], err = c.measureChanges(ctx, options, changing{first, c.deployAndFree, deployRounds, 2 * deployedHosts}); err != nil {
			return err
		}
	}
	b.addChangeCosts(fmt.Sprintf("a deployment or removal of one of %d hosts with BMCs, %d of them not paused, at most %d at once, to one of %d",
		hostCounts[1], managedHosts, workLimit, hostCounts[0]), costs)
	return nil
}

// deployHost returns a host whose ramdisk boots from the network, so that the limit of machines at
// work applies to it.
func deployHost(i int) *v1alpha1.BareMetalHost {
	h := virtualMediaHost(i)
	h.Spec.BMC.Address = fmt.Sprintf("redfish://198.51.%d.%d/redfish/v1/Systems/1", i/256, i%256)
	if i >= managedHosts {
		h.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""}
	}
	return h
}

// deployAndFree deploys an image on hosts at the same time. When all run it, it removes it from all.
func (c *cluster) deployAndFree(ctx context.Context) error {
	for _, to := range []struct {
		image string
		state v1alpha1.ProvisioningState
	}{
		{`{"url":"https://images.example/system.raw","checksum":"https://images.example/system.raw.sha256","checksumType":"sha256","format":"raw"}`, v1alpha1.StateProvisioned},
		{"null", v1alpha1.StateAvailable},
	} {
		patch := kube.RawPatch("application/merge-patch+json", []byte(`{"spec":{"image":`+to.image+`}}`))
		for i := range deployedHosts {
			if err := c.client.Patch(ctx, virtualMediaHost(i), patch); err != nil {
				return err
			}
		}
		if err := c.awaitStates(ctx, deployedHosts, to.state); err != nil {
			return err
		}
	}
	return nil
}

// awaitStates waits until the first hosts are in a state, one after the other, because each reading
// counts as a cost of the changes.
func (c *cluster) awaitStates(ctx context.Context, hosts int, state v1alpha1.ProvisioningState) error {
	ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	for i := range hosts {
		var h v1alpha1.BareMetalHost
		err := poll(ctx, 100*time.Millisecond, func() (bool, error) {
			h = v1alpha1.BareMetalHost{}
			err := c.client.Get(ctx, kube.ObjectKey{Namespace: hostNamespace, Name: hostName(i)}, &h)
			return h.Status.Provisioning.State == state, err
		})
		if err != nil {
			return fmt.Errorf("wait until host %s is %s, last seen %q with the error %q: %w", hostName(i), state, h.Status.Provisioning.State, h.Status.ErrorMessage, err)
		}
	}
	return nil
}
