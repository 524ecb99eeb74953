package engine

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/ingot-metal/ingot/internal/reload"
)

// newPair loads a listener's certificate and key, and loads them again when they change. The
// section of the configuration is for errors.
func newPair(section, certificate, key string, log *slog.Logger, now func() time.Time) (*reload.Value[*tls.Certificate], error) {
	name := fmt.Sprintf("the pair of %s.tls_certificate and %[1]s.tls_key", section)
	return reload.New(name, []string{certificate, key},
		func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(certificate, key)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", certificate, key, err)
			}
			return &pair, nil
		}, log, now)
}

// newTLS returns a configuration that serves a pair. A renewed pair is used from the next handshake
// on; open connections stay as they are.
func newTLS(pair *reload.Value[*tls.Certificate]) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Get(), nil },
	}
}
