package objectstore_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/objectstore"
	"github.com/ingot-metal/ingot/internal/objectstore/objectstoretest"
	"github.com/ingot-metal/ingot/internal/polltest"
)

func put(t *testing.T, b *objectstore.Bucket, key string, content []byte) {
	t.Helper()
	if err := b.Put(t.Context(), key, content); err != nil {
		t.Fatal(err)
	}
}

// wantContent fetches an object and compares it.
func wantContent(t *testing.T, b *objectstore.Bucket, key string, want []byte) {
	t.Helper()
	got, err := b.Fetch(t.Context(), key)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("object %s: got %d bytes, error %v; want %d bytes", key, len(got), err, len(want))
	}
}

func TestObjectsComeBackByteForByte(t *testing.T) {
	server := objectstoretest.Start(t)
	b := server.Bucket()
	large := make([]byte, 33<<20)
	_, _ = rand.Read(large) // never fails
	for key, content := range map[string][]byte{
		"a/1.json": []byte("{ \"odd\" :\n1.00}"), "a/large.json": large, "b/ü +%?&=.json": []byte("{}"), "empty": {},
	} {
		put(t, b, key, content)
		wantContent(t, b, key, content)
	}
	put(t, b, "a/1.json", []byte("newer"))
	wantContent(t, b, "a/1.json", []byte("newer"))
	if err := b.Delete(t.Context(), "a/large.json"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a/1.json", "b/ü +%?&=.json", "empty"}, server.Objects()); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestMissingObjectIsNotFoundAndDeletedAgainWithoutError(t *testing.T) {
	b := objectstoretest.Start(t).Bucket()
	if _, err := b.Fetch(t.Context(), "none"); !errors.Is(err, node.ErrNotFound) {
		t.Errorf("fetch: error = %v, want not found", err)
	}
	if err := b.Delete(t.Context(), "none"); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// answering is the bucket of a server that answers every request alike.
func answering(t *testing.T, status int, header http.Header, body string) *objectstore.Bucket {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // as far as it came
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	b, err := objectstore.Open(objectstore.Config{
		Endpoint: server.URL, Bucket: "bucket", Region: "us-east-1", AccessKey: "key", SecretKey: "secret", Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// noSuchKey is what stores say of an object that they do not have.
const noSuchKey = `<?xml version='1.0' encoding='UTF-8'?><Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>`

// TestDeletingAMissingObjectIsNoErrorWhateverTheStoreSays has a store that reports a missing
// object, as Google's does and Amazon's does not.
func TestDeletingAMissingObjectIsNoErrorWhateverTheStoreSays(t *testing.T) {
	if err := answering(t, http.StatusNotFound, nil, noSuchKey).Delete(t.Context(), "none"); err != nil {
		t.Error(err)
	}
}

func TestNotFoundOfAnotherServiceIsNoMissingObject(t *testing.T) {
	for name, body := range map[string]string{
		"nothing": "", "text": "default backend - 404\n", "HTML": "<html><body>404 Not Found</body></html>", "JSON": `{"code":"NoSuchKey"}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := answering(t, http.StatusNotFound, nil, body)
			_, fetched := b.Fetch(t.Context(), "kept")
			for what, err := range map[string]error{
				"fetch": fetched, "put": b.Put(t.Context(), "kept", []byte("x")), "delete": b.Delete(t.Context(), "kept"), "check": b.Check(t.Context(), ""),
			} {
				if err == nil || errors.Is(err, node.ErrNotFound) || !strings.Contains(err.Error(), "inventory.s3_endpoint") {
					t.Errorf("%s: error = %v, want one that names inventory.s3_endpoint, and not that the object is missing", what, err)
				}
			}
		})
	}
}

func TestMissingObjectOfAnyStoreIsNotFound(t *testing.T) {
	for name, b := range map[string]*objectstore.Bucket{
		"with a body":                     answering(t, http.StatusNotFound, nil, noSuchKey),
		"with the ID of the request only": answering(t, http.StatusNotFound, http.Header{"X-Amz-Request-Id": {"1"}}, ""),
	} {
		if _, err := b.Fetch(t.Context(), "none"); !errors.Is(err, node.ErrNotFound) {
			t.Errorf("%s: error = %v, want not found", name, err)
		}
	}
}

func TestCheckLeavesNothingBehind(t *testing.T) {
	server := objectstoretest.Start(t)
	if err := server.Bucket().Check(t.Context(), "inventories/"); err != nil {
		t.Fatal(err)
	}
	if objects := server.Objects(); len(objects) != 0 {
		t.Errorf("objects %q, want none", objects)
	}
}

func TestWrongSettingsAreNamedAndNoSecretIs(t *testing.T) {
	server := objectstoretest.Start(t)
	const wrong = "wrong-hunter2-wrong-hunter2"
	for name, tc := range map[string]struct {
		change func(*objectstore.Config)
		want   string
	}{
		"access key": {func(c *objectstore.Config) { c.AccessKey = wrong }, "inventory.s3_access_key"},
		"secret key": {func(c *objectstore.Config) { c.SecretKey = wrong }, "inventory.s3_secret_key"},
		"bucket":     {func(c *objectstore.Config) { c.Bucket = "no-such-bucket" }, "inventory.s3_bucket"},
		"https":      {func(c *objectstore.Config) { c.Endpoint = "https" + strings.TrimPrefix(c.Endpoint, "http") }, "inventory.s3_endpoint"},
		"region":     {func(c *objectstore.Config) { c.Region = "mars-north-1" }, "inventory.s3_region"},
	} {
		t.Run(name, func(t *testing.T) {
			err := server.Bucket(tc.change).Check(t.Context(), "")
			if err == nil || errors.Is(err, objectstore.ErrUnavailable) || errors.Is(err, node.ErrNotFound) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error = %v, want one for the operator that names %s", err, tc.want)
			}
			for _, secret := range []string{wrong, server.SecretKey, server.AccessKey} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("error %q has a credential", err)
				}
			}
		})
	}
}

func TestStoppedServerIsUnavailableUntilItIsBack(t *testing.T) {
	server := objectstoretest.Start(t)
	b := server.Bucket()
	put(t, b, "a", []byte("kept"))
	server.Stop()
	for name, call := range map[string]func() error{
		"put":    func() error { return b.Put(t.Context(), "b", []byte("x")) },
		"fetch":  func() error { _, err := b.Fetch(t.Context(), "a"); return err },
		"delete": func() error { return b.Delete(t.Context(), "a") },
	} {
		if err := call(); !errors.Is(err, objectstore.ErrUnavailable) || !strings.Contains(err.Error(), server.Endpoint) {
			t.Errorf("%s: error = %v, want it unavailable and the address in it", name, err)
		}
	}
	server.Resume()
	polltest.Until(t, 20*time.Second, "the server", func() error { return b.Put(t.Context(), "b", []byte("x")) })
	wantContent(t, b, "a", []byte("kept"))
}

// silentServer accepts connections and never answers; it counts them.
func silentServer(t *testing.T) (endpoint string, connections chan net.Conn) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	connections = make(chan net.Conn, 100)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				close(connections)
				return
			}
			connections <- c
		}
	}()
	return "http://" + listener.Addr().String(), connections
}

func TestSilentServerHoldsOneCallerAndOnlyForItsTimeout(t *testing.T) {
	endpoint, connections := silentServer(t)
	b, err := objectstore.Open(objectstore.Config{
		Endpoint: endpoint, Bucket: "bucket", Region: "us-east-1", AccessKey: "key", SecretKey: "secret", Timeout: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := b.Put(t.Context(), "a", []byte("x")); !errors.Is(err, objectstore.ErrUnavailable) || !strings.Contains(err.Error(), "50ms") {
			t.Fatalf("error = %v, want it unavailable and the limit in it", err)
		}
	}
	if count := len(connections); count > 2 { // a second one if this takes longer than the pause
		t.Errorf("%d connections, want one caller to have tried", count)
	}
}

func TestCanceledCallDoesNotOpenTheBreaker(t *testing.T) {
	endpoint, connections := silentServer(t)
	b, err := objectstore.Open(objectstore.Config{
		Endpoint: endpoint, Bucket: "bucket", Region: "us-east-1", AccessKey: "key", SecretKey: "secret", Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			select {
			case <-connections:
			case <-time.After(time.Second): // it goes on with the connection of the one before
			}
			cancel()
		}()
		if err := b.Put(ctx, "a", []byte("x")); !errors.Is(err, context.Canceled) || errors.Is(err, objectstore.ErrUnavailable) {
			t.Fatalf("error = %v, want that the caller went away", err)
		}
	}
}

func TestCredentialsFileIsReadAgainWhenItChanges(t *testing.T) {
	server := objectstoretest.Start(t)
	path := filepath.Join(t.TempDir(), "credentials")
	write := func(secret string) {
		t.Helper()
		text := "[default]\naws_access_key_id = " + server.AccessKey + "\naws_secret_access_key = " + secret + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("outdated-hunter2")
	b := server.Bucket(func(c *objectstore.Config) {
		c.AccessKey, c.SecretKey, c.CredentialsFile, c.Logger = "", "", path, slog.New(slog.DiscardHandler)
	})
	if err := b.Put(t.Context(), "a", nil); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("error = %v, want a refusal without the key", err)
	}
	write(server.SecretKey)
	polltest.Until(t, 20*time.Second, "the new credentials", func() error { return b.Put(t.Context(), "a", []byte("x")) })
}

func TestUnusableFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("aws_secret_access_key = hunter2\n[default\nhunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*objectstore.Config)
		want   string
	}{
		"no credentials in the file": {func(c *objectstore.Config) { c.CredentialsFile = empty }, "inventory.s3_credentials_file"},
		"no credentials file":        {func(c *objectstore.Config) { c.CredentialsFile = filepath.Join(dir, "none") }, "inventory.s3_credentials_file"},
		"no certificate in the file": {func(c *objectstore.Config) { c.CAFile = empty }, "inventory.s3_ca_file"},
		"no certificate file":        {func(c *objectstore.Config) { c.CAFile = filepath.Join(dir, "none") }, "inventory.s3_ca_file"},
	} {
		cfg := objectstore.Config{Endpoint: "https://127.0.0.1:1", Bucket: "bucket", AccessKey: "a", SecretKey: "b", Timeout: time.Second, Logger: slog.New(slog.DiscardHandler)}
		tc.change(&cfg)
		if _, err := objectstore.Open(cfg); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error = %v, want %s in it and no secret", name, err, tc.want)
		}
	}
}

func TestCertificateOfTheServerIsVerified(t *testing.T) {
	certificate, key := selfSigned(t)
	server := objectstoretest.Start(t, "--cert", certificate, "--key", key)
	err := server.Bucket().Check(t.Context(), "")
	if err == nil || errors.Is(err, objectstore.ErrUnavailable) || !strings.Contains(err.Error(), "inventory.s3_ca_file") {
		t.Errorf("error = %v, want one for the operator that names inventory.s3_ca_file", err)
	}
	if err := server.Bucket(func(c *objectstore.Config) { c.CAFile = certificate }).Check(t.Context(), ""); err != nil {
		t.Errorf("with its authority: %v", err)
	}
}

// selfSigned writes a certificate for 127.0.0.1 and its key.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "S3 server of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "EC PRIVATE KEY", keyDER)
}
