package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// server answers HTTP on one address.
type server struct {
	listener net.Listener
	http     *http.Server // nil before serve
	// waits is how long answers may wait for calls to machines. The time to transfer a request and
	// its answer is not included.
	waits time.Duration
	// connState is told the states of each connection; nil means that nobody is told.
	connState func(net.Conn, http.ConnState)
}

// listen listens on an address; nothing answers there until serve. The key is where another address
// can be chosen; it is for errors.
func listen(ctx context.Context, key, address string) (*server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, listenError(key, address, err)
	}
	return &server{listener: listener}, nil
}

// listenError says why an address cannot be listened on. It leaves out the operating system's
// repetition of the address.
func listenError(key, address string, err error) error {
	var cause syscall.Errno
	if errors.As(err, &cause) {
		err = cause
	}
	return fmt.Errorf("listen on %s: %w: stop what uses it, or choose another address with %s", address, err, key)
}

// share limits the connections of the server. The key of the configuration that sets the limit is
// for the log. Call it before serve.
func (s *server) share(connections int, key string, log *slog.Logger) {
	s.listener = newSharedListener(s.listener, connections, key, log)
}

// serve answers requests until stop, and then sends the reason to ended, which must have room for
// it. A nil config means plain http.
func (s *server) serve(handler http.Handler, config *tls.Config, log *slog.Logger, ended chan<- error) {
	// HTTP/1 has one request at a time on a connection, so the limit of connections also limits
	// requests.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	s.http = &http.Server{
		Handler:           handler,
		Protocols:         &protocols,
		TLSConfig:         config.Clone(), // the server adds to it
		ConnState:         s.connState,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       2 * time.Minute, // a 64 MiB config drive over a slow link
		WriteTimeout:      2*time.Minute + s.waits,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if config != nil {
			ended <- s.http.ServeTLS(s.listener, "", "") // the certificate is in the config
			return
		}
		ended <- s.http.Serve(s.listener)
	}()
}

// stop refuses new requests and waits for running requests until ctx ends.
func (s *server) stop(ctx context.Context) error {
	return errors.Join(s.http.Shutdown(ctx), s.http.Close(), s.close())
}

// stopBy is stop, but cuts off requests that still run at deadline, which is no error. A single
// slow client must not use up the time that other parts of the engine need to stop.
func (s *server) stopBy(ctx context.Context, deadline time.Time) error {
	bounded, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	err := s.stop(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// close gives the address back. After serve, http.Server closes the listener too, but only if its
// goroutine has begun.
func (s *server) close() error {
	if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// url returns the URL at which the server answers.
func (s *server) url(config *tls.Config) string {
	if config != nil {
		return "https://" + s.listener.Addr().String()
	}
	return "http://" + s.listener.Addr().String()
}
