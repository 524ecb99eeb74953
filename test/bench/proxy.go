package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// proxy acts like a slow network in front of a server: whatever is sent arrives later, in its
// order. It does not limit the throughput.
type proxy struct {
	server   string       // host:port
	delay    atomic.Int64 // nanoseconds each way
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool
}

// startProxy listens on a free port on loopback.
func startProxy(ctx context.Context, server string, delay time.Duration) (*proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen before %s: %w", server, err)
	}
	p := &proxy{server: server, listener: listener, open: map[net.Conn]bool{}}
	p.setDelay(delay)
	p.running.Go(p.accept)
	return p, nil
}

// setDelay sets the delay of what is sent from now on.
func (p *proxy) setDelay(delay time.Duration) { p.delay.Store(int64(delay)) }

// close closes the connections and returns when nothing runs any more.
func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for conn := range p.open {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *proxy) serve(client net.Conn) {
	defer p.drop(client)
	if !p.keep(client) {
		return
	}
	server, err := (&net.Dialer{Timeout: answerTimeout}).DialContext(context.Background(), "tcp", p.server)
	if err != nil {
		return
	}
	defer p.drop(server)
	if !p.keep(server) {
		return
	}
	delay := func() time.Duration { return time.Duration(p.delay.Load()) }
	var directions sync.WaitGroup
	for _, way := range [2][2]net.Conn{{client, server}, {server, client}} {
		directions.Go(func() {
			_ = carryDelayed(way[1], way[0], delay) // the end of either side ends both
			_, _ = client.Close(), server.Close()
		})
	}
	directions.Wait()
}

// keep makes close end the connection, too. It returns false if close was called before.
func (p *proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[conn] = true
	return !p.closed
}

func (p *proxy) drop(conn net.Conn) {
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, conn)
}

const (
	pieceSize = 64 << 10
	maxPieces = 4096 // under way at the same time; a millisecond brings far fewer
)

// piece is what one read has returned.
type piece struct {
	bytes []byte
	due   time.Time
}

// carryDelayed is carry with a delayTimer.
func carryDelayed(to io.Writer, from io.Reader, delay func() time.Duration) error {
	timer, err := newDelayTimer()
	if err != nil {
		return err
	}
	defer timer.close()
	return carry(to, from, delay, timer.wait)
}

// carry copies until there is nothing more to read. It writes each piece when the delay at the time
// of its reading has passed. At the end, it still writes what it has read.
func carry(to io.Writer, from io.Reader, delay func() time.Duration, wait func(time.Duration) error) error {
	pieces := make(chan piece, maxPieces)
	ended := make(chan struct{}) // closed when nothing is written any more
	var read error
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(pieces)
		buffer := make([]byte, pieceSize)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				select {
				case pieces <- piece{append([]byte(nil), buffer[:n]...), time.Now().Add(delay())}:
				case <-ended:
					return
				}
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					read = err
				}
				return
			}
		}
	})
	for p := range pieces {
		var err error
		if rest := time.Until(p.due); rest > 0 {
			err = wait(rest)
		}
		if err == nil {
			_, err = to.Write(p.bytes)
		}
		if err != nil {
			close(ended)
			return fmt.Errorf("pass on: %w", err) // the reader ends when its connection is closed
		}
	}
	reading.Wait()
	return read
}

// through returns the URL of a server with the address of the proxy.
func (p *proxy) through(server string) (string, error) {
	parsed, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("read URL of PostgreSQL: %w", err)
	}
	query := parsed.Query()
	query.Set("sslmode", "disable")
	parsed.Host, parsed.RawQuery = p.listener.Addr().String(), query.Encode()
	return parsed.String(), nil
}
