package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// hostCounts are how many hosts and nodes the two compared operators have.
var hostCounts = [2]int{100, 10_000}

const (
	changedHosts = 50 // how many hosts are changed at the same time
	changeRounds = 8
)

// changedLabel marks the hosts that are changed. The other hosts are paused: they are in the caches
// and indexes like all hosts, but cost no time when they are created.
const changedLabel = "bench"

// benchOperatorScale measures what a change of one host costs an operator that has many hosts. The
// operator runs in this process, so that its allocations can be counted. What the bench itself does
// costs the same for both numbers of hosts.
func benchOperatorScale(ctx context.Context, b *bench) (err error) {
	c, err := b.startCluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	operator.RouteLogs(slog.New(slog.DiscardHandler))
	var costs [len(hostCounts)]changeCost
	created := 0
	for i, size := range hostCounts {
		if err := c.createAll(ctx, size-created, func(i int) kube.Object { return scaleHost(created + i) }); err != nil {
			return err
		}
		created = size
		engine := demo.New(demo.Options{})
		addOthers(engine, changedHosts, size)
		// Polls would be counted as costs of the changes.
		options := operator.Options{Engine: engine, PollInterval: time.Hour}
		if costs[i], err = c.measureChanges(ctx, options, changing{c.changeHosts, c.changeHosts, changeRounds, changedHosts}); err != nil {
			return err
		}
	}
	b.addChangeCosts(fmt.Sprintf("a change of one of %d hosts to one of %d", hostCounts[1], hostCounts[0]), costs)
	return nil
}

// addChangeCosts adds how many times more a change costs among many hosts than among few.
func (b *bench) addChangeCosts(what string, costs [len(hostCounts)]changeCost) {
	b.add(figure{name: what + ": CPU time", value: costs[1].cpu / costs[0].cpu, unit: fmt.Sprintf("times (%.2f ms to %.2f ms)", costs[1].cpu, costs[0].cpu), target: 2, best: least})
	b.add(figure{name: what + ": allocations", value: costs[1].allocations / costs[0].allocations, unit: fmt.Sprintf("times (%.0f to %.0f)", costs[1].allocations, costs[0].allocations), target: 2, best: least})
}

// addOthers adds the nodes from one number to another, which belong to nobody that the operator
// works for.
func addOthers(engine *demo.Engine, from, to int) {
	for i := from; i < to; i++ {
		name := fmt.Sprintf("other-%05d", i)
		engine.Discover(demo.Machine{Inventory: demo.SampleInventory(name), Change: func(n *provisioner.Node) { n.Name = name }})
	}
}

func scaleHost(i int) *v1alpha1.BareMetalHost {
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: hostNamespace, Name: fmt.Sprintf("demo-%05d", i)}}
	h.Spec.BootMACAddress = fmt.Sprintf("00:00:5e:%02x:%02x:%02x", i>>16, i>>8&0xff, i&0xff)
	if i < changedHosts {
		h.Labels = map[string]string{changedLabel: "yes"}
	} else {
		h.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""}
	}
	return h
}

// changeCost is what one change cost this process.
type changeCost struct {
	cpu         float64 // ms
	allocations float64
}

// changing is what is done with an operator to measure what a change costs it.
type changing struct {
	// first fills caches and opens connections, and is not measured.
	first func(context.Context) error
	// round makes some changes, and waits until the operator has carried them out.
	round          func(context.Context) error
	rounds, number int // of rounds, and of changes in each of them
}

// measureChanges runs an operator and changes hosts.
func (c *cluster) measureChanges(ctx context.Context, options operator.Options, does changing) (cost changeCost, err error) {
	options.Config, options.Logger = c.config, slog.New(slog.DiscardHandler)
	op, err := operator.New(options)
	if err != nil {
		return cost, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- op.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	if err := does.first(ctx); err != nil {
		return cost, err
	}
	cpu, allocations := usedHere()
	for range does.rounds {
		if err := does.round(ctx); err != nil {
			return cost, err
		}
	}
	laterCPU, laterAllocations := usedHere()
	changes := float64(does.rounds * does.number)
	return changeCost{milliseconds(laterCPU-cpu) / changes, float64(laterAllocations-allocations) / changes}, nil
}

// usedHere returns the CPU time and the number of allocations of this process so far.
func usedHere() (time.Duration, uint64) {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // cannot fail for this process
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), memory.Mallocs
}

// changeHosts requests a power cycle of hosts without a BMC, and waits until the operator has
// removed every request.
func (c *cluster) changeHosts(ctx context.Context) error {
	var hosts v1alpha1.BareMetalHostList
	list := func() error {
		return c.client.List(ctx, &hosts, kube.InNamespace(hostNamespace), kube.MatchingLabels{changedLabel: "yes"})
	}
	if err := list(); err != nil {
		return err
	}
	for i := range hosts.Items {
		patch := []byte(`{"metadata":{"annotations":{"` + v1alpha1.RebootAnnotation + `":""}}}`)
		if err := c.client.Patch(ctx, &hosts.Items[i], kube.RawPatch("application/merge-patch+json", patch)); err != nil {
			return err
		}
	}
	return poll(ctx, 100*time.Millisecond, func() (bool, error) {
		if err := list(); err != nil {
			return false, err
		}
		for i := range hosts.Items {
			if _, asked := hosts.Items[i].Annotations[v1alpha1.RebootAnnotation]; asked {
				return false, nil
			}
		}
		return len(hosts.Items) == changedHosts, nil
	})
}
