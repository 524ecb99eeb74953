package workload

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig returns a kubeconfig that can be used, unless change makes it unusable.
func kubeconfig(t *testing.T, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	cluster := &clientcmdapi.Cluster{Server: "https://192.0.2.1:6443"}
	user := &clientcmdapi.AuthInfo{Token: "secret-token"}
	change(cluster, user)
	config := clientcmdapi.NewConfig()
	config.Clusters["a"], config.AuthInfos["a"] = cluster, user
	config.Contexts["a"] = &clientcmdapi.Context{Cluster: "a", AuthInfo: "a"}
	config.CurrentContext = "a"
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestKubeconfigThatLeadsElsewhereIsRefused(t *testing.T) {
	type cluster = clientcmdapi.Cluster
	type user = clientcmdapi.AuthInfo
	for _, tt := range []struct {
		name   string
		change func(*cluster, *user)
		want   string // empty: it is accepted
	}{
		{"token", func(*cluster, *user) {}, ""},
		{"certificate", func(_ *cluster, u *user) { u.ClientCertificateData, u.ClientKeyData = []byte("a"), []byte("b") }, ""},
		{"password", func(_ *cluster, u *user) { u.Token, u.Username, u.Password = "", "a", "b" }, ""},
		{"authority", func(c *cluster, _ *user) { c.CertificateAuthorityData = []byte("a") }, ""},
		{"exec", func(_ *cluster, u *user) {
			u.Exec = &clientcmdapi.ExecConfig{Command: "/bin/true", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		}, "exec is refused"},
		{"auth-provider", func(_ *cluster, u *user) { u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "oidc"} }, "auth-provider is refused"},
		{"client-certificate", func(_ *cluster, u *user) { u.ClientCertificate = "/etc/passwd" }, "client-certificate is refused"},
		{"client-key", func(_ *cluster, u *user) { u.ClientKey = "/etc/passwd" }, "client-key is refused"},
		{"tokenFile", func(_ *cluster, u *user) { u.TokenFile = "/etc/passwd" }, "tokenFile is refused"},
		{"as", func(_ *cluster, u *user) { u.Impersonate = "admin" }, "as is refused"},
		{"as-uid", func(_ *cluster, u *user) { u.ImpersonateUID = "1" }, "as is refused"},
		{"as-groups", func(_ *cluster, u *user) { u.ImpersonateGroups = []string{"system:masters"} }, "as is refused"},
		{"as-user-extra", func(_ *cluster, u *user) { u.ImpersonateUserExtra = map[string][]string{"a": {"b"}} }, "as is refused"},
		{"certificate-authority", func(c *cluster, _ *user) { c.CertificateAuthority = "/etc/passwd" }, "certificate-authority is refused"},
		{"insecure", func(c *cluster, _ *user) { c.InsecureSkipTLSVerify = true }, "insecure-skip-tls-verify is refused"},
		{"proxy-url", func(c *cluster, _ *user) { c.ProxyURL = "http://192.0.2.2" }, "proxy-url is refused"},
		{"plain http", func(c *cluster, _ *user) { c.Server = "http://192.0.2.1" }, "server without https:// is refused"},
		{"no server", func(c *cluster, _ *user) { c.Server = "" }, "server without https:// is refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config, err := restConfig(kubeconfig(t, tt.change))
			switch {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)):
				t.Fatalf("error %v, want %q", err, tt.want)
			case err == nil && (config.Host != "https://192.0.2.1:6443" || config.WrapTransport == nil):
				t.Errorf("host %q, transport wrapped: %t", config.Host, config.WrapTransport != nil)
			}
		})
	}
}

func TestErrorsOfKubeconfigsDoNotShowThem(t *testing.T) {
	for name, data := range map[string]string{
		"empty":          "",
		"no YAML":        "secret-token: [",
		"another kind":   `{"kind":"Secret","token":"secret-token"}`,
		"no context":     "clusters: []\nusers: [{name: a, user: {token: secret-token}}]",
		"unknown user":   "clusters: [{name: a, cluster: {server: https://a}}]\ncontexts: [{name: a, context: {cluster: a, user: secret-token}}]\ncurrent-context: a",
		"field of a key": "clusters: secret-token",
	} {
		_, err := restConfig([]byte(data))
		if err == nil || strings.Contains(err.Error(), "secret-token") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte("clusters: [{name: a, cluster: {server: https://a}}]\nusers: [{name: a, user: {tokenFile: /a}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := restConfig(data)
		if err != nil {
			return
		}
		if config.ExecProvider != nil || config.AuthProvider != nil || config.BearerTokenFile != "" || config.CertFile != "" || config.KeyFile != "" ||
			config.CAFile != "" || config.Insecure || config.Proxy != nil || config.Impersonate.UserName != "" {
			t.Errorf("%q is accepted", data)
		}
	})
}
