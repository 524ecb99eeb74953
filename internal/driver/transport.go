package driver

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"time"
)

// maxIdlePerMachine is how many connections to one address are kept for later calls.
const maxIdlePerMachine = 64

// NewTransport returns what carries calls to machines. It sends nothing of a request
// after the deadline of its context: a process that was stopped for a while may go on
// before the timer does that ends the context, and others have the machine by then.
func NewTransport() http.RoundTripper {
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
		MaxIdleConnsPerHost: maxIdlePerMachine,
	}}
}

// deadlineTransport tells the connection of a request when the request is too late.
type deadlineTransport struct{ *http.Transport }

func (p deadlineTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	deadline, _ := r.Context().Deadline()
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if conn, ok := got.Conn.(*deadlineConn); ok {
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
	if deadline := c.deadline.Load(); deadline != nil && !deadline.IsZero() && !time.Now().Before(*deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Write(text)
}
