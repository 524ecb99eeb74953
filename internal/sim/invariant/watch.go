package invariant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// What is watched in the management API server.
var (
	hosts    = schema.GroupVersionResource{Group: "metal3.io", Version: "v1alpha1", Resource: "baremetalhosts"}
	machines = schema.GroupVersionResource{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Resource: "metal3machines"}
)

const (
	machineKind    = "Metal3Machine"
	hostAnnotation = "metal3.io/BareMetalHost"

	// recheck is the pause before a history is looked at again that was not complete.
	recheck = 50 * time.Millisecond
)

// Watch keeps the history of hosts and of their consumers. It is safe for concurrent use.
type Watch struct {
	client dynamic.Interface

	mu     sync.Mutex
	events []Event
	// newest is the resource version of each Metal3Machine that the history has, by NAMESPACE/NAME.
	newest map[string]uint64
	broken error
}

// NewWatch returns the watch of a management API server, which sees nothing until Run.
func NewWatch(config *rest.Config) (*Watch, error) {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watch hosts: %w", err)
	}
	return &Watch{client: c, newest: map[string]uint64{}}, nil
}

// Run watches until ctx ends, and calls ready once it has seen what there is at its begin. When the API server is away, it goes on
// afterwards; what came and went meanwhile is not in the history.
func (w *Watch) Run(ctx context.Context, ready func()) error {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(w.client, 0)
	for resource, read := range map[schema.GroupVersionResource]func(*unstructured.Unstructured, bool) (Event, error){
		hosts: readHost, machines: readMachine,
	} {
		handler := cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { w.add(o, false, read) },
			UpdateFunc: func(_, o any) { w.add(o, false, read) },
			DeleteFunc: func(o any) { w.add(o, true, read) },
		}
		if _, err := factory.ForResource(resource).Informer().AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch %s: %w", resource.Resource, err)
		}
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	if ctx.Err() == nil {
		ready()
	}
	<-ctx.Done()
	return nil
}

// add adds an object to the history.
func (w *Watch) add(object any, gone bool, read func(*unstructured.Unstructured, bool) (Event, error)) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	o, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	event, err := read(o, gone)
	if err == nil {
		event.Version, err = strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.broken = fmt.Errorf("read %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
		return
	}
	w.events = append(w.events, event)
	if event.Machine != nil {
		w.newest[o.GetNamespace()+"/"+o.GetName()] = event.Version
	}
}

func readHost(o *unstructured.Unstructured, gone bool) (Event, error) {
	h := &Host{Namespace: o.GetNamespace(), Name: o.GetName(), Gone: gone}
	ref, found, err := unstructured.NestedStringMap(o.Object, "spec", "consumerRef")
	if err != nil {
		return Event{}, err
	}
	if found && ref["kind"] == machineKind {
		h.Consumer = ref["name"]
	}
	return Event{Host: h}, nil
}

func readMachine(o *unstructured.Unstructured, gone bool) (Event, error) {
	id, _, err := unstructured.NestedString(o.Object, "spec", "providerID")
	return Event{Machine: &Machine{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Chosen: o.GetAnnotations()[hostAnnotation],
		ProviderID: id, Over: gone || o.GetDeletionTimestamp() != nil,
	}}, err
}

// SharedHosts returns the hosts that had two machines at once until now. The two kinds are watched side by side,
// so before it accuses a machine it makes sure that the history has all of that machine.
func (w *Watch) SharedHosts(ctx context.Context) ([]Shared, error) {
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	for {
		w.mu.Lock()
		events, broken := slices.Clone(w.events), w.broken
		w.mu.Unlock()
		if broken != nil {
			return nil, broken
		}
		found := SharedHosts(events)
		complete, err := w.complete(ctx, found)
		if err != nil || complete {
			return found, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(errors.New("the history of the machines is not complete"), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// complete reports whether the history has everything of the machines that share hosts.
func (w *Watch) complete(ctx context.Context, found []Shared) (bool, error) {
	for _, shared := range found {
		for _, machine := range shared.Machines {
			namespace, name, _ := cache.SplitMetaNamespaceKey(machine)
			o, err := w.client.Resource(machines).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
			gone := apierrors.IsNotFound(err)
			if err != nil && !gone {
				return false, fmt.Errorf("read the machine %s: %w", machine, err)
			}
			if !w.has(machine, o, gone) {
				return false, nil
			}
		}
	}
	return true, nil
}

// has reports whether the history ends with what a machine is now.
func (w *Watch) has(machine string, o *unstructured.Unstructured, gone bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if gone {
		for _, event := range slices.Backward(w.events) {
			if m := event.Machine; m != nil && m.Namespace+"/"+m.Name == machine {
				return m.Over
			}
		}
		return false
	}
	version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return err == nil && w.newest[machine] >= version
}
