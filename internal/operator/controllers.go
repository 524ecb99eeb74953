package operator

import (
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/ingot-metal/ingot/internal/operator/discovery"
	"github.com/ingot-metal/ingot/internal/operator/firmware"
	"github.com/ingot-metal/ingot/internal/operator/host"
)

// builds makes the controllers of a group. It runs when the group starts, each time anew.
type builds func() ([]controller.Controller, error)

// builder registers the metrics of a group and returns the function that builds its controllers.
func (o *Operator) builder(name string) (builds, error) {
	skip := true // an operator may be built more than once in a process
	options := controller.Options{
		MaxConcurrentReconciles: o.opts.Concurrency,
		SkipNameValidation:      &skip,
		Logger:                  o.manager.GetLogger(),
	}
	prepare, known := map[string]func(events.EventRecorder, controller.Options) (builds, error){
		GroupHost: o.hostControllers, GroupDiscovery: o.discoveryControllers, GroupFirmware: o.firmwareControllers,
		GroupCluster: o.clusterControllers, GroupRemediation: o.remediationControllers, GroupAutoscale: o.autoscaleControllers,
	}[name]
	if !known {
		return nil, fmt.Errorf("there are no controllers %q", name)
	}
	return prepare(o.manager.GetEventRecorder("ingot-"+name), options)
}

func (o *Operator) hostControllers(recorder events.EventRecorder, options controller.Options) (builds, error) {
	m, err := host.NewMetrics(o.registry)
	if err != nil {
		return nil, err
	}
	return func() ([]controller.Controller, error) {
		r := host.New(host.Config{
			Client: o.manager.GetClient(), Live: o.manager.GetAPIReader(), NodeCache: o.nodes, Engine: o.engine, Readings: o.readings,
			Cluster: o.cluster, Recorder: recorder, Metrics: m, MaxBackoff: o.opts.MaxBackoff, Now: time.Now,
			MaxProvisioningFailures: o.opts.MaxProvisioningFailures, MaxServicingAttempts: o.opts.MaxServicingAttempts, Capacity: o.opts.Capacity,
			PreprovisioningImages: o.opts.PreprovisioningImages, ImageController: o.opts.ExternalImageController || o.servesImages(),
		})
		c, err := r.Controller(o.manager.GetCache(), o.nodes, options)
		if err != nil {
			return nil, err
		}
		others, err := o.children(recorder, options)
		return append(others, c), err
	}, nil
}

func (o *Operator) discoveryControllers(recorder events.EventRecorder, options controller.Options) (builds, error) {
	m, err := discovery.NewMetrics(o.registry)
	if err != nil {
		return nil, err
	}
	r := discovery.New(discovery.Config{
		Client: o.manager.GetClient(), Live: o.manager.GetAPIReader(), NodeCache: o.nodes, Engine: o.nodes, Readings: o.readings,
		Recorder: recorder, Metrics: m, Now: time.Now,
	})
	return func() ([]controller.Controller, error) {
		c, err := r.Controller(o.manager.GetCache(), o.nodes, options)
		return []controller.Controller{c}, err
	}, nil
}

func (o *Operator) firmwareControllers(recorder events.EventRecorder, options controller.Options) (builds, error) {
	return func() ([]controller.Controller, error) {
		r := firmware.New(firmware.Config{
			Client: o.manager.GetClient(), Live: o.manager.GetAPIReader(), NodeCache: o.nodes, Cluster: o.cluster,
			Namespaces: o.opts.Namespaces, Engine: o.engine, Recorder: recorder, Now: time.Now,
		})
		c, err := r.Controller(o.manager.GetCache(), o.nodes, options)
		return []controller.Controller{c}, err
	}, nil
}
