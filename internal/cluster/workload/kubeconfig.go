package workload

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// clientQPS and clientBurst limit the requests to one workload cluster, per second and at once. The
// requests for a hundred machines that become Nodes at the same time take some seconds then.
const clientQPS, clientBurst = 50, 100

// restConfig returns the client configuration of a kubeconfig. It refuses what would run a program,
// read a file of the operator or send anything to a server that is not verified, because anybody
// who may write Secrets of the namespace could have written the kubeconfig. Its errors do not
// reveal the contents.
func restConfig(kubeconfig []byte) (*rest.Config, error) {
	if len(kubeconfig) == 0 {
		return nil, fmt.Errorf("key %q is missing or empty", kubeconfigKey)
	}
	parsed, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errors.New("it is not a kubeconfig")
	}
	if err := check(parsed); err != nil {
		return nil, err
	}
	unusable := errors.New("its current context cannot be used; it needs a cluster, and a user with one kind of credentials")
	if err := clientcmd.ConfirmUsable(*parsed, ""); err != nil {
		return nil, unusable
	}
	config, err := clientcmd.NewDefaultClientConfig(*parsed, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, unusable
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	config.UserAgent = "ingot-operator"
	limit := newLimiter()
	config.Wrap(limit.wrap)
	return config, nil
}

// check returns an error that names the first refused field and what to have instead.
func check(config *clientcmdapi.Config) error {
	const (
		inline  = "have the certificate, key or token in the kubeconfig"
		verify  = "have certificate-authority-data in the kubeconfig"
		own     = "have credentials of the user itself"
		without = "have the address of the API server in server"
	)
	type field struct {
		name    string
		refused bool
		instead string
	}
	var fields []field
	for _, user := range config.AuthInfos {
		fields = append(fields,
			field{"exec", user.Exec != nil, inline},
			field{"auth-provider", user.AuthProvider != nil, inline},
			field{"client-certificate", user.ClientCertificate != "", inline},
			field{"client-key", user.ClientKey != "", inline},
			field{"tokenFile", user.TokenFile != "", inline},
			field{"as", user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups) > 0 || len(user.ImpersonateUserExtra) > 0, own},
		)
	}
	for _, cluster := range config.Clusters {
		fields = append(fields,
			field{"certificate-authority", cluster.CertificateAuthority != "", verify},
			field{"insecure-skip-tls-verify", cluster.InsecureSkipTLSVerify, verify},
			field{"proxy-url", cluster.ProxyURL != "", without},
			field{"server without https://", !strings.HasPrefix(cluster.Server, "https://"), without},
		)
	}
	for _, f := range fields {
		if f.refused {
			return fmt.Errorf("%s is refused; %s", f.name, f.instead)
		}
	}
	return nil
}
