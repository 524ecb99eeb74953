package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// apiServer is the running command API of one agent.
type apiServer struct {
	url            string // URL for the engine
	certificatePEM string // empty over plain HTTP
	http           *http.Server
	stopped        chan struct{}
	commands       *commandList
}

// serve starts the command API on the agent's address.
func (a *Agent) serve(ctx context.Context) (*apiServer, error) {
	useTLS := a.config.TLS && a.engine.serverVersion(ctx) >= verifyCAAt
	listener, err := a.config.Listen(ctx, "tcp", a.config.Address.String())
	if err != nil {
		return nil, fmt.Errorf("serve the agent's API on %s (is another simulator using the network, or does the address not belong to this computer?): %w",
			a.config.Address, err)
	}
	address := listener.Addr().(*net.TCPAddr).AddrPort()
	s := &apiServer{url: "http://" + address.String(), stopped: make(chan struct{}), commands: a.commands}
	if useTLS {
		certificate, text, err := newCertificate(a.config.Hostname, netip.AddrFrom4(address.Addr().Unmap().As4()), a.clock.Now())
		if err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		s.url, s.certificatePEM = "https://"+address.String(), text
		listener = tls.NewListener(listener, &tls.Config{
			Certificates: []tls.Certificate{certificate},
			MinVersion:   tls.VersionTLS12,
			NextProtos:   []string{"http/1.1"},
		})
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // the real agent speaks nothing else
	s.http = &http.Server{
		Protocols:         protocols,
		Handler:           a.Handler(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.stopped)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			a.leave(fmt.Errorf("serve the agent's API on %s: %w", address, err))
		}
	}()
	return s, nil
}

// stop cuts all connections, as a power cut does, and returns when the listener and all
// commands have ended.
func (s *apiServer) stop() {
	_ = s.http.Close() // an error does not matter, the machine is off
	<-s.stopped
	s.commands.end()
}
