package agentclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
)

// status is what the recorded agent answers to GET /v1/status.
const status = `{"started_at": 1795167249.515516, "version": "9.11.0"}`

// pair is a certificate with its key.
type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func (p pair) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.certificate.Raw}))
}

// newPair makes a certificate for 127.0.0.1. Without a signer it signs itself, as the
// certificates of agents do.
func newPair(t *testing.T, signer *pair, changes ...func(*x509.Certificate)) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ramdisk"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	for _, change := range changes {
		change(template)
	}
	if signer == nil {
		signer = &pair{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.certificate, key.Public(), signer.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return pair{certificate, key}
}

// serve starts what answers at an endpoint; with a pair it speaks TLS.
func serve(t *testing.T, own *pair, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if own == nil {
		server.Start()
	} else {
		server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{own.certificate.Raw}, PrivateKey: own.key}}}
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	return server.URL
}

// says answers everything the same way.
func says(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func ask(ctx context.Context, rules agent.Rules, url, ca string) error {
	return New(rules).Answers(ctx, agent.Endpoint{Node: "n1", URL: url, VerifyCA: ca})
}

func TestOnlyTheAgentItselfAnswers(t *testing.T) {
	own, other := newPair(t, nil), newPair(t, nil)
	expired := newPair(t, nil, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	elsewhere := newPair(t, nil, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} })
	authority := newPair(t, nil, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true })
	signed := newPair(t, &authority)
	signedElsewhere := newPair(t, &authority, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} })
	for name, tc := range map[string]struct {
		serves *pair // nil: plain http
		pinned string
		answer http.HandlerFunc
		want   bool
	}{
		"its certificate":                        {&own, own.pem(), says(200, status), true},
		"its certificate, and an error":          {&own, own.pem(), says(500, "no"), true},
		"its certificate, expired":               {&expired, expired.pem(), says(200, status), true},
		"its certificate, for another address":   {&elsewhere, elsewhere.pem(), says(200, status), true},
		"one that its authority signed":          {&signed, authority.pem(), says(200, status), true},
		"one of several that it sent":            {&own, other.pem() + own.pem(), says(200, status), true},
		"another certificate":                    {&other, own.pem(), says(200, status), false},
		"its authority, for another address":     {&signedElsewhere, authority.pem(), says(200, status), false},
		"a stored text that is no certificate":   {&own, "PEM", says(200, status), false},
		"https, none sent, an agent":             {&own, "", says(200, status), true},
		"https, none sent, something else":       {&own, "", says(200, "<html>"), false},
		"http, an agent":                         {nil, "", says(200, status), true},
		"http, another server":                   {nil, "", says(200, `{"name": "engine"}`), false},
		"http, an error of an agent":             {nil, "", says(401, `{"faultcode":"Client"}`), false},
		"http, a status that does not end":       {nil, "", says(200, `{"version":"`+strings.Repeat("9", 1<<20)), false},
		"http, headers that do not end":          {nil, "", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, false},
		"http, although it sent a certificate":   {nil, own.pem(), says(200, status), true},
		"http, certificate sent, something else": {nil, own.pem(), says(404, ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			err := ask(t.Context(), agent.Rules{}, serve(t, tc.serves, tc.answer), tc.pinned)
			if got := agent.ReplyOf(err) == agent.Answered; got != tc.want {
				t.Errorf("answers = %v (%v), want %v", got, err, tc.want)
			}
		})
	}
}

func TestARefusedConnectionIsNoAnswer(t *testing.T) {
	server := httptest.NewServer(says(200, status))
	server.Close()
	if err := ask(t.Context(), agent.Rules{}, server.URL, ""); agent.ReplyOf(err) != agent.NoAnswer {
		t.Errorf("error = %v, want no answer", err)
	}
}

// TestTheContextBoundsACall has the other side accept and then say nothing, in each part
// of an answer.
func TestTheContextBoundsACall(t *testing.T) {
	for name, begin := range map[string]string{
		"nothing": "", "half a header": "HTTP/1.1 200 OK\r\nX: ", "half a body": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
	} {
		for _, scheme := range []string{"http", "https"} {
			t.Run(name+" over "+scheme, func(t *testing.T) {
				listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					defer conn.Close()
					_, _ = io.WriteString(conn, begin)
					_, _ = io.Copy(io.Discard, conn) // until the engine gives up
				}()
				defer func() { _ = listener.Close(); <-ended }()
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if err := ask(ctx, agent.Rules{}, scheme+"://"+listener.Addr().String(), ""); agent.ReplyOf(err) != agent.NoAnswer {
					t.Errorf("error = %v, want no answer", err)
				}
			})
		}
	}
}

// TestAnEngineThatIsStoppedDoesNotTakeTheAgentForGone stops the engine while it waits for each part
// of the answer.
func TestAnEngineThatIsStoppedDoesNotTakeTheAgentForGone(t *testing.T) {
	own := newPair(t, nil)
	for scheme, served := range map[string]*pair{"http": nil, "https": &own} {
		for name, begin := range map[string]string{"header": "", "body": "{"} {
			t.Run(name+" over "+scheme, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				url := serve(t, served, func(w http.ResponseWriter, r *http.Request) {
					if begin != "" {
						_, _ = io.WriteString(w, begin)
						_ = http.NewResponseController(w).Flush()
					}
					stop()
					<-r.Context().Done() // until the engine has hung up
				})
				if err := ask(ctx, agent.Rules{}, url, ""); err == nil || agent.ReplyOf(err) != agent.NotCalled {
					t.Errorf("error = %v, want one that says nothing about the agent", err)
				}
			})
		}
	}
}

func TestACallGoesNowhereElse(t *testing.T) {
	var strayed atomic.Bool
	stray := serve(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		strayed.Store(true)
		_, _ = io.WriteString(w, status)
	})
	var seen atomic.Pointer[http.Request]
	redirecting := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r)
		http.Redirect(w, r, stray, http.StatusFound)
	})
	if err := ask(t.Context(), agent.Rules{}, redirecting+"/admin/reset?now=1#x", ""); agent.ReplyOf(err) != agent.NoAnswer {
		t.Errorf("redirect: %v, want no answer", err)
	}
	if got := seen.Load(); got == nil || got.Method != http.MethodGet || got.URL.String() != "/v1/status" || got.Header.Get("Authorization") != "" {
		t.Errorf("request = %+v, want GET /v1/status without anything else", got)
	}
	for name, rules := range map[string]agent.Rules{
		"plain http":  {RequireTLS: true},
		"its network": {AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
	} {
		if err := ask(t.Context(), rules, stray, ""); agent.ReplyOf(err) != agent.NoAnswer {
			t.Errorf("%s: %v, want no answer", name, err)
		}
	}
	if err := ask(t.Context(), agent.Rules{}, "http://localhost:80", ""); agent.ReplyOf(err) != agent.NoAnswer {
		t.Errorf("host name: %v, want no answer", err)
	}
	if strayed.Load() {
		t.Error("a call followed a redirect, or went where the rules do not permit")
	}
}

// TestAgentWithoutACertificateOfItsOwnIsOfTheAuthorityOfItsNode calls agents that sent no certificate
// with their heartbeats.
func TestAgentWithoutACertificateOfItsOwnIsOfTheAuthorityOfItsNode(t *testing.T) {
	authority := newPair(t, nil, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true })
	own, other := newPair(t, &authority), newPair(t, nil)
	elsewhere := newPair(t, &authority, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} })
	file, empty := filepath.Join(t.TempDir(), "ca.pem"), filepath.Join(t.TempDir(), "empty.pem")
	if err := errors.Join(os.WriteFile(file, []byte(authority.pem()), 0o600), os.WriteFile(empty, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		serves    *pair // nil: plain http
		verify    any   // agent_verify_ca of the node
		sent      string
		refused   string // part of the error
		notCalled bool
	}{
		"of the authority":              {serves: &own, verify: file},
		"of another":                    {serves: &other, verify: file, refused: "another agent"},
		"for another address":           {serves: &elsewhere, verify: file, refused: "another agent"},
		"it sent one after all":         {serves: &other, verify: file, sent: other.pem()},
		"false":                         {serves: &other, verify: false},
		"false, as text":                {serves: &other, verify: "False"},
		"true":                          {serves: &own, verify: true, refused: "absolute path", notCalled: true},
		"a file that is not there":      {serves: &own, verify: file + "x", refused: "no such file", notCalled: true},
		"a folder":                      {serves: &own, verify: filepath.Dir(file), refused: "is no file", notCalled: true},
		"a file without a certificate":  {serves: &own, verify: empty, refused: "no PEM certificate", notCalled: true},
		"what is neither path nor bool": {serves: &own, verify: 7, refused: "absolute path", notCalled: true},
		"plain http":                    {verify: file},
	} {
		var called atomic.Bool
		n := nodeAt(serve(t, tc.serves, func(w http.ResponseWriter, r *http.Request) {
			called.Store(true)
			if r.URL.Path == "/v1/status" {
				_, _ = io.WriteString(w, status)
				return
			}
			_, _ = io.WriteString(w, `{"commands":[]}`)
		}), recordedToken, tc.sent)
		n.DriverInfo = node.ObjectOf(map[string]any{agent.VerifyCAKey: tc.verify})
		_, err := New(agent.Rules{}).Commands(t.Context(), n)
		if (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) || called.Load() != (tc.refused == "") {
			t.Errorf("%s: %v, called: %v, want %q", name, err, called.Load(), tc.refused)
		}
		want := agent.Answered
		switch {
		case tc.notCalled:
			want = agent.NotCalled
		case tc.refused != "":
			want = agent.NoAnswer
		}
		if got := agent.ReplyOf(New(agent.Rules{}).Answers(t.Context(), agent.EndpointOf(n))); got != want {
			t.Errorf("%s: reply %q, want %q", name, got, want)
		}
	}
}
