package up

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1alpha1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	metal3v1alpha1 "github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
)

// The discovery resource in the cluster, and settings of the operator.
const (
	namespace     = "default"
	discoveryName = "all-machines"
	pollInterval  = 5 * time.Second
	// maxProvisioningFailures, maxServicingAttempts and capacity are limits of the operator, with
	// the values that they have when it runs alone.
	maxProvisioningFailures, maxServicingAttempts, capacity = 5, 3, 20
)

// applyDiscovery creates the resource that creates hosts for machines. It leaves an existing
// resource as it is, because a user may have edited it.
func (u *Up) applyDiscovery(ctx context.Context) (string, error) {
	c, err := newClient(u)
	if err != nil {
		return "", err
	}
	d := &discoveryv1alpha1.BareMetalHostDiscovery{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: discoveryName},
		Spec: discoveryv1alpha1.BareMetalHostDiscoverySpec{
			ResourceNameTemplate: discoveryv1alpha1.ResourceNameTemplate{
				Prefix: "node-", HardwareDetails: discoveryv1alpha1.DetailSerialNumber,
			},
			PollInterval: metav1.Duration{Duration: pollInterval},
		},
	}
	if err := c.Create(ctx, d); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("create BareMetalHostDiscovery %s/%s: %w", namespace, discoveryName, err)
	}
	return fmt.Sprintf("BareMetalHostDiscovery %s/%s, every %s", namespace, discoveryName, pollInterval), nil
}

// heartbeatTimeout returns the engine's timeout in the time of the machines' clock.
func (o Options) heartbeatTimeout() time.Duration {
	return time.Duration(float64(o.AgentTimeout) * o.Speed)
}

// startMachines powers on all simulated machines at once.
func (u *Up) startMachines(ctx context.Context) (string, error) {
	if u.opts.Machines == 0 {
		return "none", nil
	}
	machines, err := sim.New(sim.Options{
		Engine: u.engine.URL(), Machines: u.opts.Machines, Seed: u.opts.Seed, Network: u.opts.discoveredNetwork(), Log: u.log.With("part", "sim"),
		Instance: u.runInstance(), Clock: agent.Accelerated(u.opts.Speed), HeartbeatTimeout: u.opts.heartbeatTimeout(),
	})
	if err != nil {
		return "", err
	}
	u.machines = machines
	u.onStop("machines", func(context.Context) error { machines.Stop(); return nil })
	if err := machines.PowerOn(ctx, 0); err != nil {
		return "", fmt.Errorf("power machines on: %w", err)
	}
	return fmt.Sprintf("%d simulated, powered on", u.opts.Machines), nil
}

func newClient(u *Up) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{metal3v1alpha1.AddToScheme, discoveryv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	c, err := client.New(u.Config(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster at %s: %w", u.config.Host, err)
	}
	return c, nil
}
