package redfish

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Lifetimes of certificates.
const (
	certificateLifetime = 10 * 365 * 24 * time.Hour
	certificateSkew     = time.Hour // tolerated difference of clocks
)

// Authority signs the certificates of BMCs. It is safe for concurrent use.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// hosts is the key of all BMCs: to make a key for each of ten thousand BMCs would take long.
	hosts *ecdsa.PrivateKey

	mu     sync.Mutex
	issued map[netip.Addr]*tls.Certificate
}

// NewAuthority returns an authority with a new key.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate the key of the certificate authority: %w", err)
	}
	hosts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate the key of BMCs: %w", err)
	}
	template, err := newTemplate("Simulated BMCs")
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	return &Authority{certificate: certificate, key: key, hosts: hosts, issued: map[netip.Addr]*tls.Certificate{}}, nil
}

// newTemplate returns a certificate with what all certificates have.
func newTemplate(name string) (*x509.Certificate, error) {
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 159))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-certificateSkew), NotAfter: now.Add(certificateLifetime),
	}, nil
}

// PEM returns the certificate of the authority, for clients to trust.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// Pool returns a pool with the certificate of the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Certificate returns the certificate of the BMC at an address. It makes the certificate at the
// first call.
func (a *Authority) Certificate(address netip.Addr) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.issued[address]; ok {
		return c, nil
	}
	template, err := newTemplate(address.String())
	if err != nil {
		return nil, err
	}
	template.IPAddresses = []net.IP{address.AsSlice()}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, a.hosts.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", address, err)
	}
	a.issued[address] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.hosts}
	return a.issued[address], nil
}

// TLS returns the configuration of a server with any number of addresses. Each connection gets the
// certificate of the address to which it was made.
func (a *Authority) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"}, // BMCs speak nothing else
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			local, err := netip.ParseAddrPort(hello.Conn.LocalAddr().String())
			if err != nil {
				return nil, fmt.Errorf("find the address of a connection: %w", err)
			}
			return a.Certificate(local.Addr().Unmap())
		},
	}
}
