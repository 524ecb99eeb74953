package agentclient

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/ingot-metal/ingot/internal/agent"
)

// maxAuthorities limits a file of certificate authorities, in bytes.
const maxAuthorities = 1 << 20

// trust says which certificates are trusted. Nil trusts all.
type trust struct{ certificates []*x509.Certificate }

// trustOf returns the certificate that an agent sent, or else the authorities that its node names.
// It fails if the file of the authorities cannot be used.
func trustOf(target *url.URL, e agent.Endpoint) (*trust, error) {
	switch {
	case target.Scheme != "https":
		return nil, nil
	case e.VerifyCA != "":
		return &trust{certificates(e.VerifyCA)}, nil
	case e.Authorities == "":
		return nil, nil
	}
	text, err := readAuthorities(e.Authorities)
	if err != nil {
		return nil, fmt.Errorf("read %s of its driver_info: %w", agent.VerifyCAKey, err)
	}
	return &trust{certificates(text)}, nil
}

func readAuthorities(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", errors.New("the agent sent no certificate, so it must be the absolute path of a file of certificate authorities")
	}
	switch info, err := os.Stat(path); {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular(): // a pipe might never end
		return "", fmt.Errorf("%s is no file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxAuthorities))
	if err == nil && len(certificates(string(text))) == 0 {
		err = fmt.Errorf("%s holds no PEM certificate", path)
	}
	return string(text), err
}

// config returns a configuration with which a connection to a host fails unless the other side has
// a trusted certificate, or one that a trusted certificate has signed. An agent makes its
// certificate at its start, by the clock of its machine. So a trusted certificate itself is only
// compared; its dates and names are not checked.
func (t *trust) config(host string) *tls.Config {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it; without a certificate to trust nothing can
	}
	if t != nil {
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return checkCertificate(state.PeerCertificates, t.certificates, host)
		}
	}
	return config
}

var errCertificate = errors.New("the certificate is not that of the agent")

func checkCertificate(chain, trusted []*x509.Certificate, host string) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, certificate := range trusted {
		if certificate.Equal(chain[0]) { // TLS has verified that the other side has the key of chain[0]
			return nil
		}
		roots.AddCert(certificate)
	}
	for _, certificate := range chain[1:] {
		between.AddCert(certificate)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: between}); err != nil {
		return fmt.Errorf("%w: %w", errCertificate, err)
	}
	return nil
}

// certificates returns the certificates in a PEM text. It skips everything else.
func certificates(text string) []*x509.Certificate {
	var found []*x509.Certificate
	for rest := bytes.TrimSpace([]byte(text)); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return found
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, certificate)
		}
	}
}
