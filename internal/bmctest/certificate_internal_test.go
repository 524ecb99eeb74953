package bmctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

func TestCertificateIsJudgedByNameAuthorityAndTime(t *testing.T) {
	now := time.Date(2031, time.March, 4, 10, 11, 12, 0, time.UTC)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rack 7"}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 7)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(90 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	own, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(own)
	for name, test := range map[string]struct {
		host  string
		roots *x509.CertPool
		at    time.Time
		fails bool
		says  string
	}{
		"good":       {"192.0.2.7", trusted, now, false, "issued by CN=rack 7, valid until 2031-06-02, for this address"},
		"ends soon":  {"192.0.2.7", trusted, now.Add(80 * 24 * time.Hour), false, "soon"},
		"is over":    {"192.0.2.7", trusted, now.Add(91 * 24 * time.Hour), true, "Renew it"},
		"not yet":    {"192.0.2.7", trusted, now.Add(-2 * time.Hour), true, "check the clock"},
		"other name": {"192.0.2.8", trusted, now, true, "not for the address 192.0.2.8"},
		"of others":  {"192.0.2.7", x509.NewCertPool(), now, true, "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge([]*x509.Certificate{own}, test.roots, test.host, test.at)
			if got.fails != test.fails || !strings.Contains(got.text+" "+got.advice, test.says) {
				t.Errorf("%+v, want fails %v and %q", got, test.fails, test.says)
			}
		})
	}
}
