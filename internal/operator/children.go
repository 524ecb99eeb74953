package operator

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/ingot-metal/ingot/internal/operator/classification"
	"github.com/ingot-metal/ingot/internal/operator/dataimage"
	"github.com/ingot-metal/ingot/internal/operator/host"
	"github.com/ingot-metal/ingot/internal/operator/preprovisioningimage"
	"github.com/ingot-metal/ingot/internal/operator/subscription"
)

// child builds the controllers of one kind of object that belongs to hosts.
type child func(controller.Options) ([]controller.Controller, error)

// one turns a function that builds a single controller into a child.
func one(build func(cache.Cache, controller.Options) (controller.Controller, error), c cache.Cache) child {
	return func(options controller.Options) ([]controller.Controller, error) {
		built, err := build(c, options)
		return []controller.Controller{built}, err
	}
}

// children builds the controllers of the kinds of objects that belong to hosts.
func (o *Operator) children(recorder events.EventRecorder, options controller.Options) ([]controller.Controller, error) {
	kube, live, cached := o.manager.GetClient(), o.manager.GetAPIReader(), o.manager.GetCache()
	kinds := []child{
		one(dataimage.New(dataimage.Config{Client: kube, Now: time.Now}).Controller, cached),
		func(options controller.Options) ([]controller.Controller, error) {
			return classification.New(classification.Config{Client: kube}).Controllers(cached, options)
		},
		one(subscription.New(subscription.Config{
			Client: kube, Live: live, Nodes: o.nodes, Engine: o.engine, Cluster: o.cluster, Recorder: recorder, Now: time.Now,
		}).Controller, cached),
	}
	if o.servesImages() {
		images := preprovisioningimage.Images{ISO: o.opts.Ramdisk.ISO, Kernel: o.opts.Ramdisk.Kernel, Ramdisk: o.opts.Ramdisk.Ramdisk}
		kinds = append(kinds, one(preprovisioningimage.New(preprovisioningimage.Config{Client: kube, Live: live, Images: images, Now: time.Now}).Controller, cached))
	}
	var all []controller.Controller
	for _, build := range kinds {
		built, err := build(options)
		if err != nil {
			return nil, err
		}
		all = append(all, built...)
	}
	return all, nil
}

// servesImages reports whether the operator is the image controller.
func (o *Operator) servesImages() bool {
	opts := o.opts
	return opts.PreprovisioningImages && !opts.ExternalImageController && (opts.Ramdisk.ISO != "" || opts.Ramdisk.Ramdisk != "")
}

// indexChildren registers the cache indexes that the controllers of GroupHost need.
func (o *Operator) indexChildren(ctx context.Context) error {
	indexer := o.manager.GetFieldIndexer()
	for _, index := range []func(context.Context, ctrlclient.FieldIndexer) error{host.IndexFields, subscription.IndexFields} {
		if err := index(ctx, indexer); err != nil {
			return err
		}
	}
	if o.servesImages() {
		return preprovisioningimage.IndexFields(ctx, indexer)
	}
	return nil
}

// startAll runs the controllers until ctx ends or one of them returns, and waits for all of them.
func startAll(ctx context.Context, controllers []controller.Controller) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(controllers))
	for _, c := range controllers {
		go func() {
			defer cancel()
			ended <- c.Start(ctx)
		}()
	}
	var errs []error
	for range controllers {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}
