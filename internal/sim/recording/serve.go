package recording

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const headerTimeout = 10 * time.Second

// Serve answers over TLS until ctx ends. It then closes the listener and all connections.
func (s *Service) Serve(ctx context.Context, listener net.Listener, config *tls.Config) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // clients come and go
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = server.Close() // an error does not matter, the BMC is gone
	})
	err := server.Serve(tls.NewListener(listener, config))
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
