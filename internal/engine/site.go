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

// site is one listener with its server.
type site struct {
	listener net.Listener
	server   *http.Server // nil before serve
}

// listen takes an address; nothing is answered there yet. The key is where
// another address can be chosen.
func listen(ctx context.Context, key, address string) (*site, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, listenError(key, address, err)
	}
	return &site{listener: listener}, nil
}

// listenError says why an address cannot be listened on, without the operating
// system's repetition of the address.
func listenError(key, address string, err error) error {
	var cause syscall.Errno
	if errors.As(err, &cause) {
		err = cause
	}
	return fmt.Errorf("listen on %s: %w: stop what uses it, or choose another address with %s", address, err, key)
}

// serve answers requests until stop, and then tells ended why, which must have
// room for it. A nil config means plain http.
func (s *site) serve(handler http.Handler, config *tls.Config, log *slog.Logger, ended chan<- error) {
	s.server = &http.Server{
		Handler:           handler,
		TLSConfig:         config.Clone(), // the server adds to it
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       2 * time.Minute, // a 64 MiB config drive over a slow link
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if config != nil {
			ended <- s.server.ServeTLS(s.listener, "", "") // the certificate is in the config
			return
		}
		ended <- s.server.Serve(s.listener)
	}()
}

// stop takes no more requests and waits for those that run, until ctx ends.
func (s *site) stop(ctx context.Context) error {
	if s == nil {
		return nil
	}
	if s.server == nil {
		return s.listener.Close()
	}
	return errors.Join(s.server.Shutdown(ctx), s.server.Close())
}

// url is where the site answers.
func (s *site) url(config *tls.Config) string {
	if config != nil {
		return "https://" + s.listener.Addr().String()
	}
	return "http://" + s.listener.Addr().String()
}
