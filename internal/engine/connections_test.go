package engine

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// namedConn is a connection from a chosen address.
type namedConn struct {
	net.Conn
	remote net.Addr
	closed *bool
}

func (c namedConn) RemoteAddr() net.Addr { return c.remote }

func (c namedConn) Close() error {
	*c.closed = true
	return nil
}

type namedListener struct {
	net.Listener
	next func() (net.Conn, error)
}

func (l namedListener) Accept() (net.Conn, error) { return l.next() }

func TestNewConnectionsTakeThePlaceOfThoseOfTheLargestNetwork(t *testing.T) {
	var coming []namedConn
	var log bytes.Buffer
	l := newSharedListener(namedListener{next: func() (net.Conn, error) {
		if len(coming) == 0 {
			return nil, io.EOF
		}
		conn := coming[0]
		coming = coming[1:]
		return conn, nil
	}}, 4, "api.max_connections", slog.New(slog.NewTextHandler(&log, nil)))
	from := func(address string) *bool {
		closed := new(bool)
		coming = append(coming, namedConn{remote: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)), closed: closed})
		return closed
	}
	accept := func() net.Conn {
		t.Helper()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	var flood []*bool
	for range 4 {
		flood = append(flood, from("192.0.2.66:1"))
		accept()
	}
	more := from("192.0.2.66:2")
	if _, err := l.Accept(); !errors.Is(err, io.EOF) || !*more || *flood[0] {
		t.Errorf("a connection more of the only network: %v, closed %v; want it closed, and no other one", err, *more)
	}
	other := from("[2001:db8::1]:1")
	conn := accept()
	if *other || !*flood[0] || *flood[1] {
		t.Error("a connection of another network did not take the place of the oldest one")
	}
	from("[2001:db8::2]:1") // this network has one of four
	accept()
	if !*flood[1] || *flood[2] {
		t.Error("a second connection of the other network got no place")
	}
	third := from("[2001:db8::3]:1") // now each network has two
	if _, err := l.Accept(); !errors.Is(err, io.EOF) || !*third || *flood[2] {
		t.Errorf("a network with as many as the other got another place: %v", err)
	}
	if !strings.Contains(log.String(), "api.max_connections") || !strings.Contains(log.String(), "192.0.2.66") {
		t.Errorf("log: %s", log.String())
	}
	if err := conn.Close(); err != nil || l.count != 3 {
		t.Errorf("after a close %d connections count, want 3", l.count)
	}
	_ = conn.Close()
	if l.count != 3 {
		t.Error("a connection was counted out twice")
	}
}
