package ironic

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certified is an engine that listens with TLS, together with the CA file of its client. The test
// moves the client's clock.
type certified struct {
	t      *testing.T
	caFile string
	server *httptest.Server
	serves *tls.Certificate
	client *http.Client
	now    time.Time
	log    bytes.Buffer
}

func newCertified(t *testing.T, pair *tls.Certificate) *certified {
	t.Helper()
	e := &certified{t: t, caFile: filepath.Join(t.TempDir(), "ca.crt"), now: time.Now()}
	e.server = httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	// Drop the errors of clients that refuse the certificate.
	e.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	e.server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*e.serves}}, nil
	}}
	e.server.StartTLS()
	t.Cleanup(e.server.Close)
	e.serve(pair)
	e.trust(authorityOf(pair))
	transport, err := newTransport(Options{CAFile: e.caFile, Logger: slog.New(slog.NewTextHandler(&e.log, nil))}, func() time.Time { return e.now })
	if err != nil {
		t.Fatal(err)
	}
	e.client = &http.Client{Transport: transport}
	return e
}

// serve renews the pair of the engine; later calls need new connections.
func (e *certified) serve(pair *tls.Certificate) {
	e.serves = pair
	e.server.CloseClientConnections()
}

// trust writes the CA file, and moves the clock to the time at which the client checks it again.
func (e *certified) trust(authorities string) {
	e.t.Helper()
	if err := os.WriteFile(e.caFile, []byte(authorities), 0o600); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Chtimes(e.caFile, e.now, e.now); err != nil {
		e.t.Fatal(err)
	}
	e.now = e.now.Add(time.Minute)
}

func (e *certified) call() error {
	resp, err := e.client.Get(e.server.URL)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// newCertificate makes a self-signed pair for an address, valid until a time.
func newCertificate(t *testing.T, address string, until time.Time) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: until.Add(-24 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func authorityOf(pair *tls.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
}

func TestRenewedAuthorityIsTrustedWithoutARestart(t *testing.T) {
	later := time.Now().Add(time.Hour)
	former, renewed := newCertificate(t, "127.0.0.1", later), newCertificate(t, "127.0.0.1", later)
	e := newCertified(t, former)
	if err := e.call(); err != nil {
		t.Fatalf("the first certificate is refused: %v", err)
	}
	e.serve(renewed)
	e.trust(authorityOf(renewed))
	if err := e.call(); err != nil {
		t.Errorf("the renewed certificate is refused: %v", err)
	}
	for name, pair := range map[string]*tls.Certificate{"the former authority": former, "neither": newCertificate(t, "127.0.0.1", later)} {
		e.serve(pair)
		var refused *tls.CertificateVerificationError
		if err := e.call(); !errors.As(err, &refused) {
			t.Errorf("a certificate of %s: error = %v, want that it is refused", name, err)
		}
	}
}

func TestNoConnectionOfAFormerAuthorityIsUsedAfterTheChange(t *testing.T) {
	later := time.Now().Add(time.Hour)
	e := newCertified(t, newCertificate(t, "127.0.0.1", later))
	if err := e.call(); err != nil {
		t.Fatal(err)
	}
	e.trust(authorityOf(newCertificate(t, "127.0.0.1", later)))
	if err := e.call(); err == nil {
		t.Error("a connection is used that only the former authority signed")
	}
}

func TestCertificatesOfARenewedAuthorityAreVerifiedInFull(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for name, pair := range map[string]*tls.Certificate{
		"of another address": newCertificate(t, "192.0.2.1", later),
		"that has expired":   newCertificate(t, "127.0.0.1", time.Now().Add(-time.Hour)),
	} {
		e := newCertified(t, newCertificate(t, "127.0.0.1", later))
		e.serve(pair)
		e.trust(authorityOf(pair))
		var refused *tls.CertificateVerificationError
		if err := e.call(); !errors.As(err, &refused) {
			t.Errorf("a certificate %s: error = %v, want that it is refused", name, err)
		}
	}
}

func TestInvalidCAFileKeepsTheFormerAuthoritiesAndIsLoggedOnce(t *testing.T) {
	pair := newCertificate(t, "127.0.0.1", time.Now().Add(time.Hour))
	e := newCertified(t, pair)
	for range 3 {
		e.trust("not PEM")
		e.serve(pair)
		if err := e.call(); err != nil {
			t.Errorf("the certificate is refused: %v", err)
		}
	}
	if got := strings.Count(e.log.String(), "holds no PEM certificate"); got != 1 {
		t.Errorf("logged %d times, want once: %s", got, e.log.String())
	}
}
