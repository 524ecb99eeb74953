package controlplane

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
	"net"
	"time"
)

const (
	// authorityLifetime is how long a data folder can be used before its authority must be created
	// again.
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// leafLifetime is how long a kubeconfig works that was copied out of the data folder. The
	// certificates in the data folder are new at each start.
	leafLifetime = 365 * 24 * time.Hour
	// clockSkew is how far a reader's clock may lag behind the writer's.
	clockSkew = time.Hour
)

// PEM block types that this package writes.
const (
	certificateBlock = "CERTIFICATE"
	privateKeyBlock  = "PRIVATE KEY"
	publicKeyBlock   = "PUBLIC KEY"
)

// authority signs every certificate of one control plane. It lasts as long as the data folder, so a
// kubeconfig keeps working across restarts.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	now  time.Time
}

// keyPair is a certificate and its private key, both in PEM.
type keyPair struct {
	cert []byte
	key  []byte
}

// loadAuthority reads the authority from a PEM file, or creates the authority and the file. Key and
// certificate share the file so that no crash can separate them.
func loadAuthority(name string, now time.Time) (authority, error) {
	data, err := readOrCreate(name, func() ([]byte, error) { return newAuthority(now) })
	if err != nil {
		return authority{}, err
	}
	certBlock, rest := pem.Decode(data)
	keyBlock, _ := pem.Decode(rest)
	if certBlock == nil || keyBlock == nil {
		return authority{}, fmt.Errorf("read %s: not a certificate and its key in PEM", name)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return authority{}, fmt.Errorf("read %s: %w", name, err)
	}
	key, err := parseKey(keyBlock)
	if err != nil {
		return authority{}, fmt.Errorf("read %s: %w", name, err)
	}
	if now.After(cert.NotAfter) {
		return authority{}, fmt.Errorf("read %s: expired on %s", name, cert.NotAfter.Format(time.DateOnly))
	}
	return authority{cert: cert, key: key, now: now}, nil
}

// newAuthority returns a fresh self-signed authority in PEM.
func newAuthority(now time.Time) ([]byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "ingot control plane"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate authority: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return append(encodeCert(der), keyPEM...), nil
}

// certPEM returns the authority's certificate, which clients and servers trust.
func (a authority) certPEM() []byte { return encodeCert(a.cert.Raw) }

// serving returns a certificate for a server on this machine's loopback address. It is also the
// client certificate for etcd's own peer check.
func (a authority) serving(names ...string) (keyPair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		DNSNames:    append(names, "localhost"),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// client returns the certificate of a Kubernetes user and its groups.
func (a authority) client(user string, groups ...string) (keyPair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// issue completes and signs a leaf certificate with a new key.
func (a authority) issue(template *x509.Certificate) (keyPair, error) {
	key, err := newKey()
	if err != nil {
		return keyPair{}, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return keyPair{}, fmt.Errorf("choose serial number: %w", err)
	}
	template.NotBefore = a.now.Add(-clockSkew)
	template.NotAfter = a.now.Add(leafLifetime)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	return keyPair{cert: encodeCert(der), key: keyPEM}, err
}

// loadTokenKey reads or creates the key that signs service account tokens and
// returns its public half in PEM. Tokens stay valid as long as the file stays.
func loadTokenKey(name string) ([]byte, error) {
	data, err := readOrCreate(name, func() ([]byte, error) {
		key, err := newKey()
		if err != nil {
			return nil, err
		}
		return encodeKey(key)
	})
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("read %s: not a private key in PEM", name)
	}
	key, err := parseKey(block)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encode public key of %s: %w", name, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: publicKeyBlock, Bytes: der}), nil
}

func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return key, nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateKeyBlock, Bytes: der}), nil
}

func parseKey(block *pem.Block) (crypto.Signer, error) {
	var parsed any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY": // keys of Cluster API
		parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, errors.New("key cannot sign")
	}
	return key, nil
}
