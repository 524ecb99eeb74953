package explain

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discovery "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// kubeTimeout bounds each request to Kubernetes.
const kubeTimeout = 10 * time.Second

// UpKubeconfig is the kubeconfig that `ingot up` writes, relative to the folder in which it was
// started.
const UpKubeconfig = ".ingot/kubeconfig"

// Connect returns a reader of the cluster and the namespace that its configuration prefers. The
// configuration is the file path if given, else the one in KUBECONFIG, else [UpKubeconfig] if it
// exists, else the user's own. Connect makes no network traffic. The user has not named
// [UpKubeconfig], and it may be in somebody else's folder. Connect therefore refuses it if it would
// run a command or read another file.
func Connect(path string) (reader client.Reader, namespace string, err error) {
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	loading.ExplicitPath = path
	_, missing := os.Stat(UpKubeconfig)
	found := path == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" && missing == nil
	if found {
		loading.ExplicitPath = UpKubeconfig
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, nil)
	if path == "" {
		raw, err := loader.RawConfig()
		switch {
		case err != nil: // ClientConfig returns the same error
		case len(raw.Clusters) == 0:
			return nil, "", fmt.Errorf("no kubeconfig was found; name one with --kubeconfig or KUBECONFIG")
		case found && reachesOut(raw):
			return nil, "", fmt.Errorf("%s is not by ingot up: it runs a command or reads another file; if you trust it, name it with --kubeconfig", UpKubeconfig)
		}
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig: %w", err)
	}
	config.Timeout = kubeTimeout
	config.UserAgent = "ingot-cli"
	config.WarningHandler = rest.NoWarnings{} // warnings are for those who write objects
	namespace, _, err = loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme, discovery.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, "", fmt.Errorf("register kinds: %w", err)
		}
	}
	reader, err = client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, "", fmt.Errorf("connect to Kubernetes: %w", err)
	}
	return reader, namespace, nil
}

// reachesOut reports whether a user of a kubeconfig is authenticated by a command or by a separate
// file. Such a file could be any file, and its content is sent to the server as a token. A
// kubeconfig of `ingot up` contains everything itself.
func reachesOut(config api.Config) bool {
	for _, user := range config.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil || user.TokenFile != "" || user.ClientKey != "" {
			return true
		}
	}
	return false
}

// HostNames lists the names of the hosts in a namespace, at most limit.
func HostNames(ctx context.Context, reader client.Reader, namespace string, limit int64) ([]string, error) {
	list := new(metav1.PartialObjectMetadataList)
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("BareMetalHostList"))
	if err := reader.List(ctx, list, client.InNamespace(namespace), client.Limit(limit)); err != nil {
		return nil, fmt.Errorf("list hosts in %s: %w", namespace, err)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, nil
}
