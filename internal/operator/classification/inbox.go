package classification

import (
	"context"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// inbox takes the requests of one controller for another. It keeps requests that come before the
// other controller has started. It is safe for concurrent use.
type inbox struct {
	mu    sync.Mutex
	queue queue
	early []ctrl.Request
}

func (i *inbox) add(req ctrl.Request, delay time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.queue == nil {
		i.early = append(i.early, req)
		return
	}
	i.queue.AddAfter(req, delay)
}

// source returns the inbox as a source of the controller that gets the requests.
func (i *inbox) source() source.Source {
	return source.Func(func(_ context.Context, q queue) error {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.queue = q
		for _, req := range i.early {
			q.Add(req)
		}
		i.early = nil
		return nil
	})
}
