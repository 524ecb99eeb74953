package engine

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/ingot-metal/ingot/internal/reload"
)

// newTLS returns how the API is served over TLS, nil when it is not. A renewed
// certificate is used from the next handshake on; connections that are open stay
// as they are.
func newTLS(cfg APIConfig, log *slog.Logger, now func() time.Time) (*tls.Config, error) {
	if !cfg.tls() {
		return nil, nil // as http.Server wants it
	}
	pair, err := reload.New("the pair of api.tls_certificate and api.tls_key", []string{cfg.TLSCertificate, cfg.TLSKey},
		func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cfg.TLSCertificate, cfg.TLSKey)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", cfg.TLSCertificate, cfg.TLSKey, err)
			}
			return &pair, nil
		}, log, now)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Get(), nil },
	}, nil
}
