package controlplane

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestAuthorityAndTokenKeyLast(t *testing.T) {
	dir := t.TempDir()
	first, err := loadAuthority(filepath.Join(dir, "ca"), testNow)
	if err != nil {
		t.Fatal(err)
	}
	again, err := loadAuthority(filepath.Join(dir, "ca"), testNow.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.certPEM(), again.certPEM()) {
		t.Error("the second load made another authority")
	}
	key, err := loadTokenKey(filepath.Join(dir, "sa"))
	if err != nil {
		t.Fatal(err)
	}
	sameKey, err := loadTokenKey(filepath.Join(dir, "sa"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(key, sameKey) {
		t.Error("the second load made another token key")
	}
}

func TestCertificatesOfOneStartAreTrustedAfterTheNext(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ca")
	first, err := loadAuthority(name, testNow)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := first.client("alice", "admins")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(pair.cert, pair.key); err != nil {
		t.Fatalf("certificate and key do not match: %v", err)
	}
	later := testNow.Add(300 * 24 * time.Hour)
	again, err := loadAuthority(name, later)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(again.certPEM())
	leaf := parseLeaf(t, pair.cert)
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: later, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		t.Errorf("verify client certificate: %v", err)
	}
	if leaf.Subject.CommonName != "alice" || len(leaf.Subject.Organization) != 1 || leaf.Subject.Organization[0] != "admins" {
		t.Errorf("subject = %v, want user alice of group admins", leaf.Subject)
	}
}

func TestServingCertificateIsForLoopback(t *testing.T) {
	ca, err := loadAuthority(filepath.Join(t.TempDir(), "ca"), testNow)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.serving("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	leaf := parseLeaf(t, pair.cert)
	for _, host := range []string{"127.0.0.1", "localhost", "kubernetes"} {
		if err := leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}

func TestUnusableKeyFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	valid := filepath.Join(dir, "valid")
	if _, err := loadAuthority(valid, testNow); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(valid)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty":     nil,
		"garbage":   []byte("not PEM"),
		"cut":       data[:len(data)/2],
		"no key":    data[:bytes.Index(data, []byte("-----BEGIN PRIVATE"))],
		"truncated": data[:len(data)-40],
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, "broken")
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := loadAuthority(file, testNow)
			if err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("loadAuthority error = %v, want one that names %s", err, file)
			}
			_, err = loadTokenKey(file)
			if err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("loadTokenKey error = %v, want one that names %s", err, file)
			}
		})
	}
	_, err = loadAuthority(valid, testNow.Add(authorityLifetime+time.Hour))
	if err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("error of an old authority = %v, want that it expired", err)
	}
}

func parseLeaf(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	pair, err := x509.ParseCertificate(decodePEM(t, data))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
