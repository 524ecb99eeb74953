package storetest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Proxy stands between a store and its PostgreSQL server and breaks connections.
type Proxy struct {
	t        testing.TB
	server   *pgx.ConnConfig
	listener net.Listener

	mu     sync.Mutex
	open   map[net.Conn]bool
	refuse bool
	hang   chan struct{} // while it is not nil and open, nothing passes
	cut    []byte        // what the server must not hear once
	lose   []byte        // what the client must not hear once
	pieces int           // that pass before a connection breaks, below zero for ever
}

// ThroughProxy returns the URL of a database by way of a new proxy.
func ThroughProxy(t testing.TB, database string) (*Proxy, string) {
	t.Helper()
	server, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, server: server, listener: listener, open: map[net.Conn]bool{}, pieces: -1}
	var running sync.WaitGroup
	running.Go(func() { p.accept(&running) })
	t.Cleanup(func() {
		_ = listener.Close()
		p.Disconnect()
		running.Wait()
	})
	parsed, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := parsed.Query()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	parsed.Host, parsed.RawQuery = listener.Addr().String(), query.Encode()
	return p, parsed.String()
}

// Refuse makes the proxy refuse new connections, or take them again. Open ones
// stay.
func (p *Proxy) Refuse(refuse bool) { p.set(func() { p.refuse = refuse }) }

// Hang lets nothing pass until the returned function is called, as a network does
// that loses every packet.
func (p *Proxy) Hang() (resume func()) {
	hang := make(chan struct{})
	p.set(func() { p.hang = hang })
	return sync.OnceFunc(func() {
		p.set(func() { p.hang = nil })
		close(hang)
	})
}

// Cut breaks the next connection on which the store sends the text, which the
// server does not get.
func (p *Proxy) Cut(text string) { p.set(func() { p.cut = []byte(text) }) }

// Lose breaks the next connection on which the server sends the text, which the
// store does not get.
func (p *Proxy) Lose(text string) { p.set(func() { p.lose = []byte(text) }) }

// CutAfter lets so many more pieces pass, of what is sent in either direction on
// any connection, and breaks the connection with the next one.
func (p *Proxy) CutAfter(pieces int) { p.set(func() { p.pieces = pieces }) }

// Mend passes everything on from now, and reports whether CutAfter broke a
// connection.
func (p *Proxy) Mend() (broke bool) {
	p.set(func() {
		broke = p.pieces < 0
		p.refuse, p.cut, p.lose, p.pieces = false, nil, nil, -1
	})
	return broke
}

// Disconnect breaks every connection.
func (p *Proxy) Disconnect() {
	p.set(func() {
		for conn := range p.open {
			_ = conn.Close()
		}
		clear(p.open)
	})
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *Proxy) accept(running *sync.WaitGroup) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		network, address := "tcp", net.JoinHostPort(p.server.Host, strconv.Itoa(int(p.server.Port)))
		if p.server.Host[0] == '/' {
			network, address = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", p.server.Host, p.server.Port)
		}
		refused := false
		p.set(func() {
			if refused = p.refuse; !refused {
				p.open[client] = true
			}
		})
		if refused {
			_ = client.Close()
			continue
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), network, address)
		if err != nil { // the test may have stopped it
			_ = client.Close()
			continue
		}
		p.set(func() { p.open[server] = true })
		running.Go(func() { p.pass(client, server, &p.cut) })
		running.Go(func() { p.pass(server, client, &p.lose) })
	}
}

// pass copies from one side to the other, until it sees what must not arrive.
func (p *Proxy) pass(from, to net.Conn, stop *[]byte) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || p.breaks(buffer[:n], stop) {
			return
		}
		var hang chan struct{}
		if p.set(func() { hang = p.hang }); hang != nil {
			<-hang
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// breaks reports whether a piece is the one that must not arrive.
func (p *Proxy) breaks(piece []byte, stop *[]byte) (found bool) {
	p.set(func() {
		if *stop != nil && bytes.Contains(piece, *stop) {
			found, *stop = true, nil
		}
		if p.pieces >= 0 {
			found = found || p.pieces == 0
			p.pieces--
		}
	})
	return found
}
