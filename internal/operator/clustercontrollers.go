package operator

import (
	"errors"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/ingot-metal/ingot/internal/cluster/autoscale"
	"github.com/ingot-metal/ingot/internal/cluster/capacity"
	"github.com/ingot-metal/ingot/internal/cluster/data"
	"github.com/ingot-metal/ingot/internal/cluster/fencing"
	"github.com/ingot-metal/ingot/internal/cluster/infrastructure"
	"github.com/ingot-metal/ingot/internal/cluster/machine"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/cluster/remediation"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
	"github.com/ingot-metal/ingot/internal/cluster/workload"
)

// clusterControllers prepares the controllers of Cluster API's infrastructure.
func (o *Operator) clusterControllers(recorder events.EventRecorder, options controller.Options) (builds, error) {
	machines, machinesErr := machine.NewMetrics(o.registry)
	reservations, reservationsErr := reuse.NewMetrics(o.registry)
	if err := errors.Join(machinesErr, reservationsErr); err != nil {
		return nil, err
	}
	cached, live, cache := o.manager.GetClient(), o.manager.GetAPIReader(), o.manager.GetCache()
	filter := related.Filter(o.opts.WatchFilter)
	return func() ([]controller.Controller, error) {
		clients := workload.New(live, o.manager.GetScheme())
		watches := workload.NewWatches(workload.WatchesConfig{Client: cached, Clients: clients, Filter: filter})
		nodes := &workload.Nodes{Clients: clients, Live: live, Watches: watches}
		kept := reuse.Reuse{Client: cached, Live: live, Wait: o.opts.NodeReuseWait, Now: time.Now}

		clusters, clustersErr := infrastructure.New(infrastructure.Config{
			Client: cached, Live: live, Recorder: recorder, Now: time.Now, Filter: filter,
		}).Controller(cache, options)
		hosts, hostsErr := machine.New(machine.Config{
			Client: cached, Live: live, Recorder: recorder, Now: time.Now, Reuse: kept, Nodes: nodes, Metrics: machines, FastTrack: o.opts.FastTrack,
			Filter: filter,
		}).Controller(cache, options, watches.Source(workload.Metal3MachineRequest))
		freed, freedErr := reuse.New(reuse.Config{
			Client: cached, Live: live, Recorder: recorder, Now: time.Now, Metrics: reservations, Wait: o.opts.NodeReuseWait, Filter: filter,
		}).Controller(cache, options)
		watched, watchedErr := watches.Controller(cache, options)
		told, toldErr := capacity.New(capacity.Config{Client: cached, Filter: filter}).Controller(cache, options)
		rendered, renderedErr := data.Controllers(data.Config{
			Client: cached, Live: live, Recorder: recorder, Now: time.Now, Filter: filter, ClaimsByHost: o.opts.AddressClaimsByHost,
		}, cache, options)
		return append(rendered, clusters, hosts, freed, watched, told), errors.Join(clustersErr, hostsErr, freedErr, watchedErr, toldErr, renderedErr)
	}, nil
}

// remediationControllers prepares the controllers that recover machines.
func (o *Operator) remediationControllers(recorder events.EventRecorder, options controller.Options) (builds, error) {
	m, err := fencing.NewMetrics(o.registry)
	if err != nil {
		return nil, err
	}
	attempts, err := remediation.NewMetrics(o.registry)
	if err != nil {
		return nil, err
	}
	cached, live, cache := o.manager.GetClient(), o.manager.GetAPIReader(), o.manager.GetCache()
	return func() ([]controller.Controller, error) {
		clients := workload.New(live, o.manager.GetScheme())
		guard := fencing.NewGuard(live, clients, workload.FindNode)
		fenced, fencedErr := fencing.New(fencing.Config{
			Client: cached, Live: live, Workloads: clients, FindNode: workload.FindNode, Guard: guard, Recorder: recorder, Metrics: m, Now: time.Now,
			Budget: o.opts.RemediationBudget, NodeTimeout: o.opts.RemediationNodeTimeout, ExtraActions: o.opts.RemediationExtraActions,
			Filter: related.Filter(o.opts.WatchFilter),
		}).Controller(cache, options)
		remediated, remediatedErr := remediation.New(remediation.Config{
			Client: cached, Live: live, Workload: clients, FindNode: workload.FindNode, ProvenOff: fencing.ProvenOff, DoubtNode: fencing.DoubtNode,
			Guard: guard, Recorder: recorder, Metrics: attempts, Now: time.Now, Filter: related.Filter(o.opts.WatchFilter),
		}).Controller(cache, options, clients.Gone(cache))
		return []controller.Controller{fenced, remediated}, errors.Join(fencedErr, remediatedErr)
	}, nil
}

// autoscaleControllers prepares the controller that scales sets of machines to the number of hosts.
func (o *Operator) autoscaleControllers(recorder events.EventRecorder, options controller.Options) (builds, error) {
	return func() ([]controller.Controller, error) {
		c, err := autoscale.New(autoscale.Config{
			Client: o.manager.GetClient(), Live: o.manager.GetAPIReader(), Recorder: recorder, Now: time.Now,
			Filter: related.Filter(o.opts.WatchFilter),
		}).Controller(o.manager.GetCache(), options)
		return []controller.Controller{c}, err
	}, nil
}
