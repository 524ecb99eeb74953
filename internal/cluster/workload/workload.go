// Package workload reaches the API servers of workload clusters, with the kubeconfig that
// Cluster API keeps in a Secret for each of them.
package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNoAccess means that the kubeconfig of a workload cluster is missing or cannot be used.
var ErrNoAccess = errors.New("the workload cluster cannot be reached")

const (
	// secretSuffix follows the name of a Cluster in the name of the Secret with its
	// kubeconfig, and secretKey is its key there (Cluster API's contract for kubeconfigs).
	secretSuffix = "-kubeconfig"
	secretKey    = "value"

	// requestTimeout bounds each request.
	requestTimeout = 10 * time.Second
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
	client  client.Client
}

// New returns clients whose kubeconfigs are read with secrets.
func New(secrets client.Reader, scheme *runtime.Scheme) *Clients {
	return &Clients{secrets: secrets, scheme: scheme, known: map[types.NamespacedName]known{}}
}

// Client returns a client of the workload cluster of a Cluster, which reads without a cache.
// It returns ErrNoAccess when there is no kubeconfig for it that can be used.
func (c *Clients) Client(ctx context.Context, cluster types.NamespacedName) (client.Client, error) {
	var secret corev1.Secret
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + secretSuffix}
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
	config, err := restConfig(secret.Data[secretKey])
	if err != nil {
		return nil, fmt.Errorf("%w: kubeconfig in Secret %s: %w", ErrNoAccess, key, err)
	}
	made, err := client.New(config, client.Options{Scheme: c.scheme})
	if err != nil {
		return nil, fmt.Errorf("%w: kubeconfig in Secret %s: %w", ErrNoAccess, key, err)
	}
	c.known[cluster] = known{version, made}
	return made, nil
}

// Forget drops the client of a Cluster that is gone.
func (c *Clients) Forget(cluster types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, cluster)
}

// restConfig reads a kubeconfig. What would run a program or read a file of the operator is
// refused, because whoever may write Secrets of a namespace wrote it.
func restConfig(kubeconfig []byte) (*rest.Config, error) {
	if len(kubeconfig) == 0 {
		return nil, fmt.Errorf("key %q is missing or empty", secretKey)
	}
	parsed, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errors.New("it is not a kubeconfig") // the error may have its contents
	}
	if refused := foreign(parsed); refused != "" {
		return nil, fmt.Errorf("%s cannot be used; have the data in the kubeconfig", refused)
	}
	config, err := clientcmd.NewDefaultClientConfig(*parsed, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, errors.New("its current context cannot be used")
	}
	config.Timeout = requestTimeout
	config.UserAgent = "ingot-operator"
	return config, nil
}

// foreign names the first field that leads out of the kubeconfig.
func foreign(config *clientcmdapi.Config) string {
	for _, user := range config.AuthInfos {
		for _, field := range []struct {
			name string
			set  bool
		}{
			{"exec", user.Exec != nil},
			{"auth-provider", user.AuthProvider != nil},
			{"client-certificate", user.ClientCertificate != ""},
			{"client-key", user.ClientKey != ""},
			{"tokenFile", user.TokenFile != ""},
		} {
			if field.set {
				return field.name
			}
		}
	}
	for _, cluster := range config.Clusters {
		if cluster.CertificateAuthority != "" {
			return "certificate-authority"
		}
	}
	return ""
}
