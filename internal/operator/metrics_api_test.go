package operator_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/operator"
)

// freeAddress returns a loopback address that nobody used a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// account creates a service account and returns a token for it.
func account(t *testing.T, c *kubernetes.Clientset, namespace, name string) string {
	t.Helper()
	accounts := c.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// scrape reads metrics as a collector does.
func scrape(t *testing.T, url, token string) (status int, body string, err error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the certificate is self-signed
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(content), err
}

func TestMetricsAreForAuthorizedCallersOnly(t *testing.T) {
	t.Parallel()
	config := controlplanetest.Start(t, controlplanetest.Options{}).Config()
	address := freeAddress(t)
	b := newBenchOn(t, config, func(o *operator.Options) { o.Controllers = []string{operator.GroupDiscovery} })
	b.install()
	kube := kubernetesOn(t, config)
	collector, unprivileged := account(t, kube, b.namespace, "collector"), account(t, kube, b.namespace, "unprivileged")
	_, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "collector"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.namespace, Name: "collector"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "ingot-metrics-reader"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	newBenchOn(t, config, func(o *operator.Options) {
		asGroup(operator.GroupHost)(o)
		o.Engine, o.MetricsAddr = b.engine, address
	})
	url := "https://" + address + "/metrics"
	b.eventually("answer of the metrics server", func() string {
		if _, _, err := scrape(t, url, ""); err != nil {
			return err.Error()
		}
		return ""
	})
	for name, tt := range map[string]struct {
		url, token string
		status     int
		want       string
	}{
		"collector":          {url, collector, http.StatusOK, "go_goroutines "},
		"without a token":    {url, "", http.StatusUnauthorized, "Unauthorized"},
		"with a made-up one": {url, "milk", http.StatusUnauthorized, ""},
		"without the role":   {url, unprivileged, http.StatusForbidden, ""},
		"without TLS":        {"http://" + address + "/metrics", collector, http.StatusBadRequest, ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, err := scrape(t, tt.url, tt.token)
			if status != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("answer %d, %v, want %d with %q:\n%.300s", status, err, tt.status, tt.want, body)
			}
			if status != http.StatusOK && strings.Contains(body, "go_goroutines") {
				t.Error("metrics were served all the same")
			}
		})
	}
}

func TestInsecureMetricsOfLoopbackNeedNoToken(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	b := newBench(t, func(o *operator.Options) { o.MetricsAddr, o.MetricsInsecure = address, true })
	b.eventually("metrics over plain HTTP", func() string {
		status, body, err := scrape(t, "http://"+address+"/metrics", "")
		if err != nil {
			return err.Error()
		}
		if status != http.StatusOK || !strings.Contains(body, "go_goroutines ") {
			return http.StatusText(status)
		}
		return ""
	})
}
