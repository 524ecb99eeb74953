package engine_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
)

// pair is a certificate and its key in two files.
type pair struct{ certificate, key string }

// write makes a certificate of 127.0.0.1 that signs itself.
func (p pair) write(t *testing.T, serial int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "engine"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		p.certificate: {Type: "CERTIFICATE", Bytes: der}, p.key: {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func newPair(t *testing.T) pair {
	t.Helper()
	dir := t.TempDir()
	return pair{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
}

func (p pair) use(c *engine.Config) { c.API.TLSCertificate, c.API.TLSKey = p.certificate, p.key }

// trusting returns a client that believes these certificates only.
func trusting(t *testing.T, version uint16, roots ...*x509.Certificate) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	for _, root := range roots {
		pool.AddCert(root)
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, MaxVersion: version, MinVersion: tls.VersionTLS10},
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func get(t *testing.T, client *http.Client, target string, trace *httptrace.ClientTrace) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth("ann", "secret")
	response, err := client.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body) // or the connection cannot be used again
		response.Body.Close()
	}
	return response, err
}

func TestEngineSpeaksTLSWithOneRequestPerConnection(t *testing.T) {
	p := newPair(t)
	root := p.write(t, 1)
	e := start(t, withPasswords(t, p.use, func(c *engine.Config) { c.API.MetricsListen = "127.0.0.1:0" }))
	for _, target := range []string{e.URL() + "/v1/nodes", e.MetricsURL()} {
		if !strings.HasPrefix(target, "https://") {
			t.Errorf("got %s, want https", target)
		}
		response, err := get(t, trusting(t, 0, root), target, &httptrace.ClientTrace{})
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusOK || response.ProtoMajor != 1 || response.TLS.Version < tls.VersionTLS12 {
			t.Errorf("%s: got %s over %s and TLS %x", target, response.Status, response.Proto, response.TLS.Version)
		}
		if _, err := get(t, trusting(t, tls.VersionTLS11, root), target, &httptrace.ClientTrace{}); err == nil {
			t.Errorf("%s: TLS 1.1 is accepted", target)
		}
		if _, err := get(t, trusting(t, 0), target, &httptrace.ClientTrace{}); err == nil {
			t.Errorf("%s: a certificate that nobody signed is believed", target)
		}
	}
	e.client = trusting(t, 0, root)
	want := fmt.Sprintf("ingot_tls_certificate_expiry_timestamp_seconds %v\n", float64(root.NotAfter.Unix()))
	if got := e.figures(t, url.UserPassword("ann", "secret")).want(t, http.StatusOK).body; !strings.Contains(got, want) {
		t.Errorf("the figures do not have %q", want)
	}
	if links := e.send(t, "GET", "/", nil, nil).want(t, http.StatusOK).body; !strings.Contains(links, `"`+e.URL()) {
		t.Errorf("links do not begin with %s: %s", e.URL(), links)
	}
}

func TestRenewedCertificateIsUsedAndConnectionsStay(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	first := p.write(t, 1)
	e := start(t, withPasswords(t, p.use))
	lasting, connections := trusting(t, 0, first), 0
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			connections++
		}
	}}
	ask := func() {
		t.Helper()
		if response, err := get(t, lasting, e.URL()+"/v1/nodes", trace); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("got %v, %v", response, err)
		}
	}
	// served is the serial number that a new connection sees.
	served := func(roots ...*x509.Certificate) int64 {
		t.Helper()
		response, err := get(t, trusting(t, 0, roots...), e.URL()+"/v1/nodes", &httptrace.ClientTrace{})
		if err != nil {
			t.Fatal(err)
		}
		return response.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	ask()
	second := p.write(t, 2)
	eventually(t, "the renewed certificate", func() bool { ask(); return served(first, second) == 2 })

	if err := os.WriteFile(p.key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the broken key to be logged", func() bool {
		ask()
		if served(second) != 2 {
			t.Fatal("the broken pair is served")
		}
		return strings.Contains(e.log.String(), "level=ERROR") && strings.Contains(e.log.String(), p.key)
	})
	third := p.write(t, 3)
	eventually(t, "the mended certificate", func() bool { ask(); return served(second, third) == 3 })
	if connections != 1 {
		t.Errorf("the first client needed %d connections, want 1", connections)
	}
}

// TestClientsThatRefuseTheCertificateAreLogged has clients of each version of TLS that
// refuse the certificate, and one that ends its handshakes for another reason.
func TestClientsThatRefuseTheCertificateAreLogged(t *testing.T) {
	const line = `level=WARN msg="A client refuses the certificate of the API" remote=127.0.0.1:`
	p := newPair(t)
	root := p.write(t, 1)
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		e := start(t, withPasswords(t, p.use))
		for _, unharmed := range []*http.Client{trusting(t, version, root), trusting(t, tls.VersionTLS11, root)} {
			_, _ = get(t, unharmed, e.URL()+"/v1", &httptrace.ClientTrace{})
			unharmed.CloseIdleConnections()
		}
		if _, err := get(t, trusting(t, version), e.URL()+"/v1", &httptrace.ClientTrace{}); err == nil {
			t.Fatalf("%s: a certificate that nobody signed is believed", name)
		}
		eventually(t, "the refusal to be logged", func() bool { return strings.Contains(e.log.String(), line) })
		if lines := strings.Count(e.log.String(), line); lines != 1 {
			t.Errorf("%s: %d lines about one refusal", name, lines)
		}
	}
}

func TestPlainHTTPToTLSIsLoggedOnce(t *testing.T) {
	const line = `level=WARN msg="A client speaks plain HTTP to the API, which speaks TLS" remote=127.0.0.1:`
	p := newPair(t)
	root := p.write(t, 1)
	e := start(t, withPasswords(t, p.use))
	if _, err := get(t, trusting(t, 0, root), e.URL()+"/v1", &httptrace.ClientTrace{}); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(e.URL(), "https://")
	noise, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(noise, "neither TLS nor HTTP")
	noise.Close()
	for method, sent := range map[string]string{"a lookup": "GET", "a post": "POST"} {
		request, err := http.NewRequestWithContext(t.Context(), sent, "http://"+address+"/v1/continue_inspection", nil)
		if err != nil {
			t.Fatal(err)
		}
		before := strings.Count(e.log.String(), line)
		response, err := trusting(t, 0).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %s", method, response.Status)
		}
		eventually(t, method+" to be logged", func() bool { return strings.Count(e.log.String(), line) > before })
	}
	if lines := strings.Count(e.log.String(), line); lines != 2 {
		t.Errorf("%d lines about two requests in plain HTTP", lines)
	}
	if !strings.Contains(e.log.String(), "api.public_url") {
		t.Error("nothing says what to do")
	}
}

func TestBadCertificateStopsTheStart(t *testing.T) {
	good, other := newPair(t), newPair(t)
	good.write(t, 1)
	other.write(t, 2)
	for name, p := range map[string]pair{
		"missing":         {filepath.Join(t.TempDir(), "none"), good.key},
		"key of another":  {good.certificate, other.key},
		"wrong way round": {good.key, good.certificate},
	} {
		_, err := tryStart(t, t.TempDir(), p.use)
		if err == nil || !strings.Contains(err.Error(), "api.tls_certificate") || !strings.Contains(err.Error(), p.certificate) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line that names the key and the file", name, err)
		}
	}
}
