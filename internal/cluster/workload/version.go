package workload

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Version returns the version of the API server of a Cluster. It asks the server each time, because
// the version changes in the life of a cluster. The error is ErrNoAccess when there is no
// kubeconfig that can be used.
func (c *Clients) Version(ctx context.Context, cluster types.NamespacedName) (*version.Version, error) {
	var secret corev1.Secret
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + kubeconfigSuffix}
	if err := c.secrets.Get(ctx, key, &secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Secret %s with the kubeconfig of the workload cluster: %w", key, err)
	}
	config, err := restConfig(secret.Data[kubeconfigKey])
	if err != nil {
		return nil, fmt.Errorf("%w: kubeconfig in Secret %s: %w", ErrNoAccess, key, err)
	}
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("%w: kubeconfig in Secret %s: %w", ErrNoAccess, key, err)
	}
	text, err := asked.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("read the version of the workload cluster %s: %w", cluster, err)
	}
	var info apimachineryversion.Info
	if err := json.Unmarshal(text, &info); err != nil {
		return nil, fmt.Errorf("read the version of the workload cluster %s: %w", cluster, err)
	}
	v, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return nil, fmt.Errorf("read the version of the workload cluster %s: %w", cluster, err)
	}
	return v, nil
}
