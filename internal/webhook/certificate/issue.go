package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	// lifetime is how long a certificate is valid. renewal is how long before its end the next one
	// is made.
	lifetime = 90 * 24 * time.Hour
	renewal  = 30 * 24 * time.Hour
	// clockSkew is how far the clock of an API server may lag behind.
	clockSkew = time.Hour
)

// issue makes a CA and the single certificate that it signs, for the given names and addresses. The
// CA's key is not kept, so nobody can sign with it again.
func issue(hosts []string, now time.Time) (stored, error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return stored{}, err
	}
	serial, err := newSerial()
	if err != nil {
		return stored{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: fmt.Sprintf("ingot-webhook-ca-%x", serial.Bytes()[:4])},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	authority, authorityPEM, err := sign(template, template, &authorityKey.PublicKey, authorityKey)
	if err != nil {
		return stored{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return stored{}, err
	}
	if serial, err = newSerial(); err != nil {
		return stored{}, err
	}
	leaf := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "ingot-webhook"},
		NotBefore: template.NotBefore, NotAfter: template.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	_, certPEM, err := sign(leaf, authority, &key.PublicKey, authorityKey)
	if err != nil {
		return stored{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return stored{}, err
	}
	return stored{cert: certPEM, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), bundle: authorityPEM}, nil
}

func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey) (*x509.Certificate, []byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, encode(der), err
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der})
}

// newSerial returns a random serial number of 16 bytes.
func newSerial() (*big.Int, error) {
	serial := make([]byte, 16)
	if _, err := rand.Read(serial); err != nil {
		return nil, err
	}
	serial[0] = serial[0]&0x7f | 0x40 // positive, and always of full length
	return new(big.Int).SetBytes(serial), nil
}
