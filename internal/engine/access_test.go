package engine_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/ingot-metal/ingot/internal/engine"
)

// htpasswd writes a file with one user and returns its path.
func htpasswd(t *testing.T, path, user, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, "%s:%s\n", user, hash), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// withPasswords makes ann with the password "secret" the only user.
func withPasswords(t *testing.T, changes ...func(*engine.Config)) func(*engine.Config) {
	t.Helper()
	file := htpasswd(t, filepath.Join(t.TempDir(), "htpasswd"), "ann", "secret")
	return func(c *engine.Config) {
		c.API.Auth, c.API.HtpasswdFile = "http_basic", file
		for _, change := range changes {
			change(c)
		}
	}
}

// ann are the credentials of the only user.
var ann = headers{"Authorization": "Basic YW5uOnNlY3JldA==", "X-OpenStack-Ironic-API-Version": "latest"}

// TestOnlyPublicPathsAnswerWithoutCredentials writes request lines as nobody's
// client library would.
func TestOnlyPublicPathsAnswerWithoutCredentials(t *testing.T) {
	t.Parallel()
	e := start(t, withPasswords(t))
	const denied = 401
	tests := []struct {
		line string // method and target
		want int
	}{
		{"GET /", 200},
		{"HEAD /", 200},
		{"GET //", 200},
		{"GET /v1", 200},
		{"GET /v1/", 200},
		{"GET //v1//", 200},
		{"GET /healthcheck", 200},
		{"GET /healthcheck/", 200},
		{"GET /v1/lookup", 404}, // the version header is missing
		{"GET /lookup/", 404},
		{"POST /v1/continue_inspection", 400},
		{"POST /v1/continue_inspection/", 400},
		{"POST /continue_inspection", 400},
		{"POST /v1/heartbeat/" + nobody, 404},
		{"POST /heartbeat/" + nobody + "/", 404},
		{"DELETE /v1/lookup", 405},

		{"GET /v1/nodes", denied},
		{"GET /nodes", denied},
		{"GET /v1/nodes/", denied},
		{"HEAD /v1/nodes", denied},
		{"OPTIONS /v1/nodes", denied},
		{"POST /v1/nodes", denied},
		{"BREW /v1/nodes", denied},
		{"DELETE /v1/nodes/" + nobody, denied},
		{"GET /v1/nodes/detail", denied},
		{"GET /v1/drivers", denied},
		{"GET /v1/ports", denied},
		{"GET /v1/conductors", denied},
		{"GET /v1/nosuch", denied},
		{"GET /nosuch", denied},
		{"GET /etc/passwd", denied},
		{"GET /v1/v1", denied},
		{"GET /v1/healthcheck", denied},
		{"GET /v1/heartbeat", denied},
		{"GET /v1/heartbeat/", denied},
		{"POST /v1/heartbeat/a/b", denied},
		{"GET /v1/lookup/x", denied},
		{"GET /V1/nodes", denied},

		{"GET //v1/nodes", denied},
		{"GET /./v1/nodes", denied},
		{"GET /v1//nodes", denied},
		{"GET /v1/./nodes", denied},
		{"GET /v1/lookup/../nodes", denied},
		{"GET /v1/heartbeat/../nodes", denied},
		{"GET /v1/heartbeat/x/../../nodes", denied},
		{"GET /healthcheck/../v1/nodes", denied},
		{"GET /healthcheck/../nodes", denied},
		{"GET /v1/nodes/../lookup/../nodes", denied},
		{"GET /v1/%6eodes", denied},
		{"GET /%76%31/nodes", denied},
		{"GET /v1%2fnodes", denied},
		{"GET /v1/lookup%2f..%2fnodes", denied},
		{"GET /v1/lookup/%2e%2e/nodes", denied},
		{"GET /v1/%2e%2e/v1/nodes", denied},
		{"GET /v1/heartbeat/%2e%2e/nodes", denied},
		{"GET /v1/nodes?/v1/lookup", denied},
		{"GET /v1/nodes%3f/v1/lookup", denied},
		{"GET /v1/nodes;/v1/lookup", denied},
		{"GET /v1/nodes%00/v1/lookup", denied},
		{"GET /v1/nodes/..;/lookup", denied},
		{"GET /v1/lookup;/../nodes", denied},
		{"GET /v1/lookup%20", denied},
		{"GET /v1/Lookup", denied},
		{"GET http://localhost/v1/nodes", denied},
		{"GET http://localhost//v1/lookup/../nodes", denied},
		{"CONNECT /v1/nodes", denied},
	}
	for _, test := range tests {
		got := e.exchange(t, test.line+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		head, body, _ := strings.Cut(got, "\r\n\r\n")
		if !strings.HasPrefix(head, fmt.Sprintf("HTTP/1.1 %d ", test.want)) {
			t.Errorf("%s: got %q, want status %d", test.line, strings.SplitN(got, "\r\n", 2)[0], test.want)
		}
		if asks := strings.Contains(head, "Www-Authenticate: Basic realm=\"Baremetal API\""); asks != (test.want == denied) {
			t.Errorf("%s: asks for a password: %t", test.line, asks)
		}
		if test.want == denied && body != "" && !strings.Contains(body, `"code":401`) {
			t.Errorf("%s: got body %s", test.line, body)
		}
	}
}

func TestRefusalHasTheHeadersOfEveryAnswer(t *testing.T) {
	e := start(t, withPasswords(t))
	got := e.send(t, "GET", "/v1/nodes", headers{"X-OpenStack-Ironic-API-Version": "1.22"}, nil).want(t, http.StatusUnauthorized)
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Www-Authenticate": `Basic realm="Baremetal API"`,
		"X-OpenStack-Ironic-API-Version": "1.22", "X-OpenStack-Ironic-API-Minimum-Version": "1.1",
	} {
		if value := got.header.Get(name); value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	for _, name := range []string{"Openstack-Request-Id", "X-OpenStack-Ironic-API-Maximum-Version"} {
		if got.header.Get(name) == "" {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestUserOfTheFileMayEverything(t *testing.T) {
	e := start(t, withPasswords(t))
	body := strings.NewReader(`{"driver":"fake-hardware","name":"a"}`)
	e.send(t, "POST", "/v1/nodes", headers{}, strings.NewReader(`{"driver":"fake-hardware","name":"a"}`)).want(t, http.StatusUnauthorized)
	e.send(t, "POST", "/v1/nodes", ann, body).want(t, http.StatusCreated)
	e.send(t, "GET", "/v1/nodes/a", ann, nil).want(t, http.StatusOK)
	e.send(t, "GET", "/v1/nosuch", ann, nil).want(t, http.StatusNotFound)
	e.send(t, "DELETE", "/v1/nodes/a", ann, nil).want(t, http.StatusNoContent)
	e.send(t, "GET", "/v1/nodes", headers{"Authorization": "Basic YW5uOndyb25n"}, nil).want(t, http.StatusUnauthorized)
}

func TestRolesOfTheFileCountWithoutARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "roles")
	give := func(roles string) {
		if err := os.WriteFile(file, []byte(roles), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	give("ann: operator\n")
	e := start(t, withPasswords(t, func(c *engine.Config) { c.API.RoleFile, c.API.MetricsListen = file, "127.0.0.1:0" }))
	e.send(t, "POST", "/v1/nodes", ann, strings.NewReader(`{"driver":"fake-hardware","name":"a"}`)).want(t, http.StatusCreated)
	refused := e.send(t, "DELETE", "/v1/nodes/a", ann, nil).want(t, http.StatusForbidden)
	if !strings.Contains(refused.body, "needs the role admin") {
		t.Errorf("got %s, want the role that is needed", refused.body)
	}
	give("bob: admin\n")
	eventually(t, "the user without a role to be refused", func() bool {
		got := e.send(t, "GET", "/v1/nodes", ann, nil)
		return got.status == http.StatusForbidden && strings.Contains(got.body, "api.role_file")
	})
	e.figures(t, url.UserPassword("ann", "secret")).want(t, http.StatusForbidden)
	e.send(t, "GET", "/v1/nosuch", ann, nil).want(t, http.StatusForbidden)
	e.send(t, "GET", "/v1", ann, nil).want(t, http.StatusOK)
	give("ann: admin\n")
	eventually(t, "the administrator to be let in", func() bool {
		return e.send(t, "DELETE", "/v1/nodes/a", ann, nil).status == http.StatusNoContent
	})
}

func TestMachinesNeedNoPassword(t *testing.T) {
	e := start(t, withPasswords(t))
	uuid := e.post(t, machine(goodMAC))
	e.send(t, "GET", "/v1/lookup?addresses="+goodMAC, latest, nil).want(t, http.StatusOK)
	e.send(t, "GET", "/v1/nodes/"+uuid, latest, nil).want(t, http.StatusUnauthorized)
}

func TestChangedUsersCountWithoutARestart(t *testing.T) {
	t.Parallel()
	file := ""
	e := start(t, withPasswords(t, func(c *engine.Config) { file = c.API.HtpasswdFile }))
	e.send(t, "GET", "/v1/nodes", ann, nil).want(t, http.StatusOK)
	htpasswd(t, file, "ann", "changed")
	eventually(t, "the old password to be refused", func() bool {
		return e.send(t, "GET", "/v1/nodes", ann, nil).status == http.StatusUnauthorized
	})
	changed := headers{"Authorization": "Basic YW5uOmNoYW5nZWQ="}
	e.send(t, "GET", "/v1/nodes", changed, nil).want(t, http.StatusOK)
	if err := os.WriteFile(file, []byte("ann:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the broken file to be logged", func() bool {
		e.send(t, "GET", "/v1/nodes", changed, nil).want(t, http.StatusOK)
		return strings.Contains(e.log.String(), "level=ERROR") && strings.Contains(e.log.String(), "line 1: want a bcrypt hash")
	})
	e.send(t, "GET", "/v1/nodes", ann, nil).want(t, http.StatusUnauthorized)
}

func TestBadUserFileStopsTheStart(t *testing.T) {
	_, err := tryStart(t, t.TempDir(), func(c *engine.Config) {
		c.API.Auth, c.API.HtpasswdFile = "http_basic", filepath.Join(t.TempDir(), "none")
	})
	if err == nil || !strings.Contains(err.Error(), "api.htpasswd_file") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line that names the key", err)
	}
}

func TestBadRoleFileStopsTheStart(t *testing.T) {
	_, err := tryStart(t, t.TempDir(), withPasswords(t, func(c *engine.Config) { c.API.RoleFile = c.API.HtpasswdFile }))
	if err == nil || !strings.Contains(err.Error(), "api.role_file") || !strings.Contains(err.Error(), "line 1: want one of the roles") {
		t.Errorf("got %v, want the key and what is wrong", err)
	}
}

func TestAccessLogNamesTheUserAndNoSecret(t *testing.T) {
	e := start(t, withPasswords(t, func(c *engine.Config) { c.API.AccessLog = true }))
	got := e.send(t, "GET", "/v1/nodes?driver=hunter2", ann, nil).want(t, http.StatusOK)
	e.send(t, "GET", "/v1/nodes", nil, nil).want(t, http.StatusUnauthorized)
	e.send(t, "GET", "/", headers{"Authorization": "Basic bWFsbG9yeTp4"}, nil).want(t, http.StatusOK)
	var lines []string
	eventually(t, "three lines", func() bool {
		lines = nil
		for line := range strings.Lines(e.log.String()) {
			if strings.Contains(line, "Request answered") {
				lines = append(lines, line)
			}
		}
		return len(lines) == 3
	})
	for _, want := range []string{
		"level=INFO", "request_id=" + got.header.Get("Openstack-Request-Id"), "user=ann", "remote=127.0.0.1:", "method=GET",
		"path=/v1/nodes", "route=/v1/nodes", "status=200", fmt.Sprintf("bytes=%d", len(got.body)), "duration=",
	} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("%q is missing: %s", want, lines[0])
		}
	}
	if !strings.Contains(lines[1], `user=""`) || !strings.Contains(lines[1], "status=401") {
		t.Errorf("got %s", lines[1])
	}
	for _, secret := range []string{"hunter2", "mallory", "YW5u"} {
		if strings.Contains(strings.Join(lines, ""), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// TestMetricsAnswerThoughOneNetworkHoldsAllConnections opens more connections than are allowed.
func TestMetricsAnswerThoughOneNetworkHoldsAllConnections(t *testing.T) {
	e := start(t, func(c *engine.Config) { c.API.MetricsListen = "127.0.0.1:0" })
	for range 65 {
		e.dialMetrics(t)
	}
	eventually(t, "a connection to be closed", func() bool { return strings.Contains(e.log.String(), "limit=api.metrics_listen") })
	e.client.Transport = &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 77)}}).DialContext}
	e.figures(t, nil).want(t, http.StatusOK)
}

// figures returns what Prometheus would read.
func (r *running) figures(t *testing.T, user *url.Userinfo) answer {
	t.Helper()
	return r.fetch(t, r.MetricsURL(), user)
}

// fetch reads a document of any of the engine's addresses.
func (r *running) fetch(t *testing.T, address string, user *url.Userinfo) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.URL.User = user
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: response.StatusCode, body: string(body)}
}

func TestFiguresTellWhatHappened(t *testing.T) {
	e := start(t, withPasswords(t, func(c *engine.Config) { c.API.MetricsListen = "127.0.0.1:0" }))
	e.figures(t, nil).want(t, http.StatusUnauthorized)
	e.post(t, machine(goodMAC))
	e.send(t, "GET", "/v1/nodes/none", ann, nil).want(t, http.StatusNotFound)
	e.send(t, "GET", "/v1/nodes", nil, nil).want(t, http.StatusUnauthorized)
	e.send(t, "GET", "/v1/nodes", headers{"X-OpenStack-Ironic-API-Version": "9.9"}, nil).want(t, http.StatusNotAcceptable)
	eventually(t, "the figures", func() bool {
		body := e.figures(t, url.UserPassword("ann", "secret")).want(t, http.StatusOK).body
		for _, want := range []string{
			`ingot_api_requests_total{code="200",method="POST",route="/v1/continue_inspection"} 1`,
			`ingot_api_requests_total{code="404",method="GET",route="/v1/nodes/{ident}"} 1`,
			`ingot_api_requests_total{code="401",method="GET",route="/v1/nodes"} 1`,
			`ingot_api_requests_total{code="406",method="GET",route="unmatched"} 1`,
			`ingot_api_request_duration_seconds_count{method="POST",route="/v1/continue_inspection"} 1`,
			`ingot_inspection_posts_total{outcome="enrolled"} 1`,
			`ingot_work_duration_seconds_count{kind="inspect",outcome="done"} 1`,
			`ingot_nodes{provision_state="enroll"} 1`,
			`ingot_work_queue_length 0`,
		} {
			if !strings.Contains(body, want+"\n") {
				return false
			}
		}
		return true
	})
	e.send(t, "GET", "/metrics", ann, nil).want(t, http.StatusNotFound) // not on the API's address
}

// TestLoopbackWithoutPasswordsAnswersToItsOwnNamesOnly sends the requests of a web page whose host
// name resolves to a loopback address.
func TestLoopbackWithoutPasswordsAnswersToItsOwnNamesOnly(t *testing.T) {
	t.Parallel()
	withMetrics := func(c *engine.Config) {
		c.API.MetricsListen, c.API.PublicURL = "127.0.0.1:0", "http://Metal.example.org/"
	}
	e, safe := start(t, withMetrics), start(t, withPasswords(t, withMetrics))
	status := func(url, host string, h headers) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		for key, value := range h {
			request.Header.Set(key, value)
		}
		answer, err := e.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	for host, want := range map[string]int{
		"evil.example.org": 403, "evil.example.org:6385": 403, "127.0.0.1.example.org:6385": 403, "localhost.example.org": 403,
		"localhost": 200, "LOCALHOST:6385": 200, "localhost.:6385": 200, "app.localhost:6385": 200, "127.0.0.1:6385": 200, "[::1]:6385": 200, "[::1]": 200,
		"192.0.2.1": 200, "metal.example.org": 200, "metal.example.org:443": 200,
	} {
		for _, url := range []string{e.URL() + "/v1/nodes", e.MetricsURL()} {
			if got := status(url, host, nil); got != want {
				t.Errorf("%s as %s: got %d, want %d", url, host, got, want)
			}
		}
		for _, url := range []string{safe.URL() + "/v1/nodes", safe.MetricsURL()} {
			if got := status(url, host, ann); got != 200 {
				t.Errorf("%s as %s with a password: got %d, want 200", url, host, got)
			}
		}
	}
}

func TestFiguresAreOffByDefault(t *testing.T) {
	if got := start(t, nil).MetricsURL(); got != "" {
		t.Errorf("figures are at %s", got)
	}
}

func TestBusyMetricsPortNamesItsKey(t *testing.T) {
	e := start(t, nil)
	_, err := tryStart(t, t.TempDir(), func(c *engine.Config) { c.API.MetricsListen = e.address() })
	if err == nil || !strings.Contains(err.Error(), "api.metrics_listen") {
		t.Errorf("got %v, want an error that names the key", err)
	}
}
