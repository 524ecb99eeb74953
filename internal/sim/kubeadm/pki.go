package kubeadm

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// certificateLifetime is the lifetime of certificates that a machine signs itself, with the CA.
const certificateLifetime = 365 * 24 * time.Hour

// authority is the CA of a cluster with its key.
type authority struct {
	pem         []byte
	certificate *x509.Certificate
	key         crypto.Signer
}

func newAuthority(certificatePEM, keyPEM []byte) (*authority, error) {
	certificates, err := cert.ParseCertsPEM(certificatePEM)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the CA: %w", err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("read the key of the CA: %w", err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key of the CA cannot sign")
	}
	return &authority{pem: certificatePEM, certificate: certificates[0], key: key}, nil
}

// client signs a certificate for a user in some groups.
func (a *authority) client(now time.Time, user string, groups ...string) (certificatePEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("choose a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: user, Organization: groups},
		NotBefore: a.certificate.NotBefore, NotAfter: now.Add(certificateLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate of %s: %w", user, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), keyPEM, nil
}

// signingRequest returns a request for the certificate of a user in some groups, with a new key.
func signingRequest(user string, groups ...string) (requestPEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: groups}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make the certificate signing request of %s: %w", user, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateRequestBlockType, Bytes: der}), keyPEM, nil
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate a key: %w", err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, encoded, nil
}
