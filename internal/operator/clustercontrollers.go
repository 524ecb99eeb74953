package operator

import (
	"errors"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/ingot-metal/ingot/internal/cluster/infrastructure"
	"github.com/ingot-metal/ingot/internal/cluster/machine"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
	"github.com/ingot-metal/ingot/internal/cluster/workload"
)

// clusterControllers are those of the infrastructure of Cluster API.
func (o *Operator) clusterControllers(recorder events.EventRecorder, options controller.Options) (builds, error) {
	machines, machinesErr := machine.NewMetrics(o.registry)
	reservations, reservationsErr := reuse.NewMetrics(o.registry)
	if err := errors.Join(machinesErr, reservationsErr); err != nil {
		return nil, err
	}
	cached, live, cache := o.manager.GetClient(), o.manager.GetAPIReader(), o.manager.GetCache()
	return func() ([]controller.Controller, error) {
		clients := workload.New(live, o.manager.GetScheme())
		watches := workload.NewWatches(workload.WatchesConfig{Client: cached, Clients: clients})
		nodes := &workload.Nodes{Clients: clients, Live: live, Watches: watches}
		kept := reuse.Reuse{Client: cached, Live: live, Wait: o.opts.NodeReuseWait, Now: time.Now}

		clusters, clustersErr := infrastructure.New(infrastructure.Config{Client: cached, Live: live, Recorder: recorder, Now: time.Now}).
			Controller(cache, options)
		hosts, hostsErr := machine.New(machine.Config{
			Client: cached, Live: live, Recorder: recorder, Now: time.Now, Reuse: kept, Nodes: nodes, Metrics: machines, FastTrack: o.opts.FastTrack,
		}).Controller(cache, options, watches.Source(workload.Metal3MachineRequest))
		freed, freedErr := reuse.New(reuse.Config{
			Client: cached, Live: live, Recorder: recorder, Now: time.Now, Metrics: reservations, Wait: o.opts.NodeReuseWait,
		}).Controller(cache, options)
		watched, watchedErr := watches.Controller(cache, options)
		return []controller.Controller{clusters, hosts, freed, watched}, errors.Join(clustersErr, hostsErr, freedErr, watchedErr)
	}, nil
}

// remediationControllers are those that recover machines.
func (o *Operator) remediationControllers(_ events.EventRecorder, _ controller.Options) (builds, error) {
	return func() ([]controller.Controller, error) { return nil, nil }, nil
}

// autoscaleControllers are those that scale sets of machines to hosts.
func (o *Operator) autoscaleControllers(_ events.EventRecorder, _ controller.Options) (builds, error) {
	return func() ([]controller.Controller, error) { return nil, nil }, nil
}
