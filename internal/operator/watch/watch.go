// Package watch makes controllers that watch objects, and says which updates of an object request a
// pass.
package watch

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// retryMin and retryMax bound the wait after errors of the API server.
const retryMin, retryMax = 50 * time.Millisecond, time.Minute

// Controller returns a controller that runs the reconciler in the options for what the sources
// request. The caller starts and stops it. Without a rate limiter in the options, the controller
// gets one of its own. Controllers must not share one, because their requests have the same names.
func Controller(name string, options controller.Options, sources ...source.Source) (controller.Controller, error) {
	if options.RateLimiter == nil {
		options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](retryMin, retryMax)
	}
	c, err := controller.NewUnmanaged(name, options)
	if err != nil {
		return nil, fmt.Errorf("make the controller %s: %w", name, err)
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return nil, fmt.Errorf("let the controller %s watch: %w", name, err)
		}
	}
	return c, nil
}

// Updates makes an update of an object request a pass only if one of the functions sees a change
// from a to b; without functions, no update does. The creation and deletion of an object always
// request a pass.
func Updates[T client.Object](changed ...func(a, b T) bool) predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{UpdateFunc: func(e event.TypedUpdateEvent[T]) bool {
		return slices.ContainsFunc(changed, func(sees func(a, b T) bool) bool { return sees(e.ObjectOld, e.ObjectNew) })
	}}
}

// Facts sees changes of what a function returns for an object.
func Facts[T client.Object, F comparable](of func(T) F) func(a, b T) bool {
	return func(a, b T) bool { return of(a) != of(b) }
}

// Generation sees changes of the spec, and the beginning of a deletion that has to wait for a
// finalizer. The API server does not count changes of metadata. It counts changes of the status
// only for kinds without the status subresource.
func Generation[T client.Object](a, b T) bool { return a.GetGeneration() != b.GetGeneration() }

// Deletion sees the beginning of a deletion that has to wait for a finalizer.
func Deletion[T client.Object](a, b T) bool {
	return a.GetDeletionTimestamp().IsZero() != b.GetDeletionTimestamp().IsZero()
}

// Annotations sees changes of any annotation.
func Annotations[T client.Object](a, b T) bool {
	return !maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}

// Annotated sees that an annotation is added or removed, but not that its value changes.
func Annotated[T client.Object](key string) func(a, b T) bool {
	return Facts(func(obj T) bool {
		_, is := obj.GetAnnotations()[key]
		return is
	})
}

// Labels sees changes of any label.
func Labels[T client.Object](a, b T) bool { return !maps.Equal(a.GetLabels(), b.GetLabels()) }

// Owners sees changes of the references to owners.
func Owners[T client.Object](a, b T) bool {
	return !equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}
