package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const certificateBlock = "CERTIFICATE"

// bundleKey is the key of the Secret that has the CAs. The other keys are those of the Secret's
// type.
const bundleKey = "ca.crt"

// stored is the content of the Secret, in PEM: the certificate, its key, and the CAs that clients
// should trust. The CA that signed the certificate comes first.
type stored struct{ cert, key, bundle []byte }

func storedIn(secret *corev1.Secret) stored {
	return stored{cert: secret.Data[corev1.TLSCertKey], key: secret.Data[corev1.TLSPrivateKeyKey], bundle: secret.Data[bundleKey]}
}

func (s stored) data() map[string][]byte {
	return map[string][]byte{corev1.TLSCertKey: s.cert, corev1.TLSPrivateKeyKey: s.key, bundleKey: s.bundle}
}

// load returns the certificate, or an error that says why it cannot serve these hosts at the time
// now.
func (s stored) load(hosts []string, now time.Time) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(s.cert, s.key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.bundle) {
		return nil, errors.New("there is no authority beside the certificate")
	}
	for _, host := range hosts {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now}); err != nil {
			return nil, err
		}
	}
	return &pair, nil
}

// due reports whether the next certificate should be made.
func due(cert *tls.Certificate, now time.Time) bool {
	return !now.Before(cert.Leaf.NotAfter.Add(-renewal))
}

// withPrevious adds the CAs of the former certificate as long as they are valid, because other
// replicas still use that certificate for a while.
func (s stored) withPrevious(before stored, now time.Time) stored {
	for rest := before.bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return s
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !now.Before(cert.NotAfter) || bytes.Contains(s.bundle, encode(block.Bytes)) {
			continue
		}
		s.bundle = append(s.bundle, encode(block.Bytes)...)
	}
}
