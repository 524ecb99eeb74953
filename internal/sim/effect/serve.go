package effect

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Serve answers on the listener until ctx ends, and then closes it. Calls that hang then end
// without an answer.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := context.AfterFunc(ctx, func() { _ = server.Close() }) // the machines vanish with their process
	defer ended()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Totals counts everything that was ever done.
func (s *Server) Totals() Totals { return s.recorder.Totals() }
