package pxefilter

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// listeners are the HTTP servers of a filter, for metrics and health.
type listeners struct {
	servers []*http.Server
	running sync.WaitGroup
}

// serve listens on the configured addresses and answers until stop.
func (f *Filter) serve(ctx context.Context) (*listeners, error) {
	figures, health := http.NewServeMux(), http.NewServeMux()
	figures.Handle("GET /metrics", f.metrics.handler())
	health.Handle("GET /readyz", &f.status)
	health.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // the client may be gone
	})
	s := &listeners{}
	for _, l := range []struct {
		flag, address string
		handler       http.Handler
	}{
		{"--metrics-addr", f.opts.MetricsAddr, figures},
		{"--health-addr", f.opts.HealthAddr, health},
	} {
		if l.address == "" {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.address)
		if err != nil {
			s.stop()
			return nil, fmt.Errorf("listen on %s, choose another address with %s: %w", l.address, l.flag, err)
		}
		s.start(listener, l.handler, f.log)
	}
	return s, nil
}

func (s *listeners) start(listener net.Listener, handler http.Handler, log *slog.Logger) {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	s.servers = append(s.servers, server)
	s.running.Go(func() {
		_ = server.Serve(listener) // until stop closes it
	})
}

// stop ends the servers and waits for them.
func (s *listeners) stop() {
	for _, server := range s.servers {
		_ = server.Close() // no client needs its answer any more
	}
	s.running.Wait()
}
