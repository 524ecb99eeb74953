package store_test

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

// proxy stands between a store and its PostgreSQL server and breaks connections.
type proxy struct {
	t        *testing.T
	server   *pgx.ConnConfig
	listener net.Listener

	mu     sync.Mutex
	open   map[net.Conn]bool
	refuse bool
	cut    []byte // what the server must not hear once
	lose   []byte // what the client must not hear once
}

// throughProxy returns the URL of a database by way of a new proxy.
func throughProxy(t *testing.T, database string) (*proxy, string) {
	t.Helper()
	server, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, server: server, listener: listener, open: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(func() { p.accept(&running) })
	t.Cleanup(func() {
		_ = listener.Close()
		p.disconnect()
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

// set changes what the proxy does.
func (p *proxy) set(change func(*proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// disconnect breaks every connection.
func (p *proxy) disconnect() {
	p.set(func(p *proxy) {
		for conn := range p.open {
			_ = conn.Close()
		}
		clear(p.open)
	})
}

func (p *proxy) accept(running *sync.WaitGroup) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		network, address := "tcp", net.JoinHostPort(p.server.Host, strconv.Itoa(int(p.server.Port)))
		if p.server.Host[0] == '/' {
			network, address = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", p.server.Host, p.server.Port)
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), network, address)
		if err != nil {
			p.t.Errorf("proxy: %v", err)
			_ = client.Close()
			continue
		}
		refused := false
		p.set(func(p *proxy) {
			refused = p.refuse
			p.open[client], p.open[server] = true, true
		})
		if refused {
			_, _ = client.Close(), server.Close()
			continue
		}
		running.Go(func() { p.pass(client, server, &p.cut) })
		running.Go(func() { p.pass(server, client, &p.lose) })
	}
}

// pass copies from one side to the other, until it sees what must not arrive.
func (p *proxy) pass(from, to net.Conn, stop *[]byte) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		found := false
		p.set(func(*proxy) {
			if *stop != nil && bytes.Contains(buffer[:n], *stop) {
				found, *stop = true, nil
			}
		})
		if found {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
