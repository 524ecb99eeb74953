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

// Serve answers on the listener until the context ends, and closes it. Calls that
// hang then end without an answer.
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

// Totals is how much was done to how many machines.
type Totals struct {
	Machines int            `json:"machines"`
	Effects  int64          `json:"effects"`
	Kinds    map[string]int `json:"kinds"`
}

// Totals counts everything that was ever done.
func (s *Server) Totals() Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.totals()
}

func (s *Server) totals() Totals {
	t := Totals{Machines: len(s.machines), Kinds: map[string]int{}}
	for _, m := range s.machines {
		for kind, count := range m.counts {
			t.Kinds[kind] += count
			t.Effects += int64(count)
		}
	}
	return t
}
