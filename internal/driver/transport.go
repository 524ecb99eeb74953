package driver

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"time"
)

// TransportOptions are the properties of a transport.
type TransportOptions struct {
	// TLS is how certificates are checked; nil means in the usual way.
	TLS *tls.Config
	// IdlePerMachine is how many connections to one address are kept for later calls;
	// zero means 64.
	IdlePerMachine int
	// Idle is how many connections to all addresses together are kept; zero means as many
	// as there are.
	Idle int
	// IdleTimeout is how long a connection is kept; zero means for ever.
	IdleTimeout time.Duration
}

const defaultIdlePerMachine = 64

// NewTransport returns a transport for calls to machines. It sends nothing of a request after the
// deadline of the request's context. The context alone does not ensure that: a process that was
// stopped for a while may go on before the timer that ends the context fires, and others have the
// machine by then.
func NewTransport(o TransportOptions) http.RoundTripper {
	if o.IdlePerMachine == 0 {
		o.IdlePerMachine = defaultIdlePerMachine
	}
	dialer := &net.Dialer{}
	return deadlineTransport{&http.Transport{
		Proxy: nil, // machines are on the same network
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &deadlineConn{Conn: conn}, nil
		},
		TLSClientConfig:     o.TLS,
		MaxIdleConns:        o.Idle,
		MaxIdleConnsPerHost: o.IdlePerMachine,
		IdleConnTimeout:     o.IdleTimeout,
	}}
}

// deadlineTransport tells the connection of a request when the request is too late.
type deadlineTransport struct{ *http.Transport }

func (p deadlineTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	deadline, _ := r.Context().Deadline()
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		conn := got.Conn
		if encrypted, ok := conn.(*tls.Conn); ok {
			conn = encrypted.NetConn()
		}
		if conn, ok := conn.(*deadlineConn); ok {
			conn.deadline.Store(&deadline)
		}
	}})
	return p.Transport.RoundTrip(r.WithContext(ctx))
}

// deadlineConn carries one request at a time.
type deadlineConn struct {
	net.Conn
	deadline atomic.Pointer[time.Time] // of the request; the zero time means none
}

func (c *deadlineConn) Write(text []byte) (int, error) {
	if deadline := c.deadline.Load(); deadline != nil && Passed(*deadline, time.Now()) {
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Write(text)
}
