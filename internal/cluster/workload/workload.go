// Package workload reaches the API servers of workload clusters, with the kubeconfig that
// Cluster API keeps in a Secret for each of them. It finds the Node of a machine (FindNode),
// gives it what it lacks (Nodes), and watches Nodes (Watches).
package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// ErrNoAccess means that the kubeconfig of a workload cluster is missing or cannot be used, or
// that its API server does not answer. Requests of a client of Clients return it, too.
var ErrNoAccess = errors.New("the workload cluster cannot be reached")

// kubeconfigSuffix follows the name of a Cluster in the name of the Secret with its kubeconfig, and
// kubeconfigKey is its key there (Cluster API's contract for kubeconfigs).
const (
	kubeconfigSuffix = "-kubeconfig"
	kubeconfigKey    = "value"
)

// Clients makes clients of workload clusters. It is safe for concurrent use.
type Clients struct {
	// secrets reads the Secrets, from the API server and not from a cache: they are
	// credentials.
	secrets client.Reader
	scheme  *runtime.Scheme

	mu    sync.Mutex
	known map[types.NamespacedName]known
}

// known is a client and the version of the Secret that it was made from.
type known struct {
	version string
	client  client.WithWatch
}

// New returns clients of objects of scheme, whose kubeconfigs are read with secrets.
func New(secrets client.Reader, scheme *runtime.Scheme) *Clients {
	return &Clients{secrets: secrets, scheme: scheme, known: map[types.NamespacedName]known{}}
}

// Client returns a client of the workload cluster of a Cluster, which reads without a cache. Client
// itself sends nothing to that cluster. It returns ErrNoAccess when there is no kubeconfig that can
// be used. Each request of the client ends within ten seconds; after one that had no answer,
// requests fail at once for a while.
func (c *Clients) Client(ctx context.Context, cluster types.NamespacedName) (client.Client, error) {
	return c.watching(ctx, cluster)
}

// watching is like Client, but its client can watch, too.
func (c *Clients) watching(ctx context.Context, cluster types.NamespacedName) (client.WithWatch, error) {
	var secret corev1.Secret
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + kubeconfigSuffix}
	err := c.secrets.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) {
		c.Forget(cluster)
		return nil, fmt.Errorf("%w: Secret %s with its kubeconfig does not exist", ErrNoAccess, key)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s with the kubeconfig of the workload cluster: %w", key, err)
	}
	version := string(secret.UID) + "/" + secret.ResourceVersion
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.known[cluster]; ok && k.version == version {
		return k.client, nil
	}
	delete(c.known, cluster)
	config, err := restConfig(secret.Data[kubeconfigKey])
	if err != nil {
		return nil, fmt.Errorf("%w: kubeconfig in Secret %s: %w", ErrNoAccess, key, err)
	}
	made, err := client.NewWithWatch(config, client.Options{Scheme: c.scheme})
	if err != nil {
		return nil, fmt.Errorf("%w: kubeconfig in Secret %s: %w", ErrNoAccess, key, err)
	}
	c.known[cluster] = known{version, made}
	return made, nil
}

// Gone returns a source that makes no requests. It forgets the clients of Clusters that are gone.
func (c *Clients) Gone(cache cache.Cache) source.Source {
	return source.Kind(cache, &clusterv1.Cluster{}, c.onGone())
}

func (c *Clients) onGone() handler.TypedEventHandler[*clusterv1.Cluster, ctrl.Request] {
	return handler.TypedFuncs[*clusterv1.Cluster, ctrl.Request]{
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*clusterv1.Cluster], _ workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			c.Forget(client.ObjectKeyFromObject(e.Object))
		},
	}
}

// Forget drops the client of a Cluster that is gone.
func (c *Clients) Forget(cluster types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, cluster)
}
