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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// The resources that are watched in the management API server.
var (
	hosts    = schema.GroupVersionResource{Group: "metal3.io", Version: "v1alpha1", Resource: "baremetalhosts"}
	machines = schema.GroupVersionResource{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Resource: "metal3machines"}
)

const (
	machineKind    = "Metal3Machine"
	hostAnnotation = "metal3.io/BareMetalHost"
	// writtenForAnnotation, on a host, is the UID of the host object for which its consumer was
	// written.
	writtenForAnnotation = "metal3.io/consumer-host-uid"

	// A host in one of these states can be given to a machine.
	stateAvailable, stateReady = "available", "ready"

	// recheck is the pause after which an incomplete history is checked again.
	recheck = 50 * time.Millisecond
)

// Watch records the history of hosts and of their consumers. It is safe for concurrent use.
type Watch struct {
	client dynamic.Interface

	mu     sync.Mutex
	events []Event
	// newest is the latest resource version of each Metal3Machine in the history, by
	// NAMESPACE/NAME.
	newest map[string]uint64
	broken error
}

// NewWatch returns the watch of a management API server. It sees nothing until Run.
func NewWatch(config *rest.Config) (*Watch, error) {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watch hosts: %w", err)
	}
	return &Watch{client: c, newest: map[string]uint64{}}, nil
}

// Run watches until ctx ends. It calls ready once it has seen all objects that exist at its start.
// It continues after an outage of the API server, but the history lacks what came and went during
// the outage.
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
	event.Since, event.At = lastWrite(o), time.Now()
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

// lastWrite returns the second in which an object was last written, or zero if the object does not
// tell.
func lastWrite(o *unstructured.Unstructured) (last time.Time) {
	for _, fields := range o.GetManagedFields() {
		if fields.Time != nil && fields.Time.After(last) {
			last = fields.Time.Time
		}
	}
	return last
}

func readHost(o *unstructured.Unstructured, gone bool) (Event, error) {
	h := &Host{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Gone: gone}
	text := func(fields ...string) (string, error) {
		value, _, err := unstructured.NestedString(o.Object, fields...)
		return value, err
	}
	ref, found, failure := unstructured.NestedStringMap(o.Object, "spec", "consumerRef")
	state, err := text("status", "provisioning", "state")
	failure = errors.Join(failure, err)
	mac, err := text("spec", "bootMACAddress")
	failure = errors.Join(failure, err)
	image, err := text("spec", "image", "url")
	failure = errors.Join(failure, err)
	method, err := text("spec", "customDeploy", "method")
	if failure = errors.Join(failure, err); failure != nil {
		return Event{}, failure
	}
	h.State, h.BootMAC, h.Specified = state, mac, image != "" || method != ""
	if found && ref["kind"] == machineKind {
		writtenFor := o.GetAnnotations()[writtenForAnnotation]
		h.Consumer, h.ConsumerUID, h.Carried = ref["name"], types.UID(ref["uid"]), writtenFor != "" && writtenFor != string(h.UID)
	}
	return Event{Host: h}, nil
}

func readMachine(o *unstructured.Unstructured, gone bool) (Event, error) {
	id, _, err := unstructured.NestedString(o.Object, "spec", "providerID")
	return Event{Machine: &Machine{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Chosen: o.GetAnnotations()[hostAnnotation],
		ProviderID: id, Over: gone || o.GetDeletionTimestamp() != nil, Gone: gone,
	}}, err
}

// SharedHosts returns the hosts that had two machines at once until now.
func (w *Watch) SharedHosts(ctx context.Context) ([]Shared, error) {
	return find(ctx, w, SharedHosts, func(s Shared) []string { return s.Machines[:] })
}

// TakenHosts returns the hosts that were given to machines until now although they were not free.
func (w *Watch) TakenHosts(ctx context.Context, running Running) ([]Taken, error) {
	taken := func(events []Event) []Taken { return TakenHosts(events, running) }
	return find(ctx, w, taken, func(t Taken) []string {
		if t.Before == "" { // one event has all that is said of the host
			return nil
		}
		return []string{t.Machine, t.Before}
	})
}

// find returns what has broken a rule until now. Hosts and machines are watched separately, so one
// history may lag behind the other. Before find accuses machines, it makes sure that the history of
// these machines is complete.
func find[T any](ctx context.Context, w *Watch, broken func([]Event) []T, accused func(T) []string) ([]T, error) {
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	for {
		w.mu.Lock()
		events, failure := slices.Clone(w.events), w.broken
		w.mu.Unlock()
		if failure != nil {
			return nil, failure
		}
		found := broken(events)
		var machines []string
		for _, f := range found {
			machines = append(machines, accused(f)...)
		}
		complete, err := w.complete(ctx, machines)
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

// complete reports whether the history has the present state of these machines.
func (w *Watch) complete(ctx context.Context, accused []string) (bool, error) {
	for _, machine := range accused {
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
	return true, nil
}

// has reports whether the history of a machine ends with its present state.
func (w *Watch) has(machine string, o *unstructured.Unstructured, gone bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if gone {
		for _, event := range slices.Backward(w.events) {
			if m := event.Machine; m != nil && m.Namespace+"/"+m.Name == machine {
				return m.Gone
			}
		}
		return false
	}
	version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return err == nil && w.newest[machine] >= version
}
