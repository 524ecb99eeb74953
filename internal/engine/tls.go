package engine

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/ingot-metal/ingot/internal/reload"
)

// newPair keeps the certificate of the API and its key.
func newPair(cfg APIConfig, log *slog.Logger, now func() time.Time) (*reload.Value[*tls.Certificate], error) {
	return reload.New("the pair of api.tls_certificate and api.tls_key", []string{cfg.TLSCertificate, cfg.TLSKey},
		func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cfg.TLSCertificate, cfg.TLSKey)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", cfg.TLSCertificate, cfg.TLSKey, err)
			}
			return &pair, nil
		}, log, now)
}

// newTLS serves a pair. A renewed one is used from the next handshake on;
// connections that are open stay as they are.
func newTLS(pair *reload.Value[*tls.Certificate]) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Get(), nil },
	}
}
