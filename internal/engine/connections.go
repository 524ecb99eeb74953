package engine

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/loglimit"
)

// gaveWayASecond and gaveWayAtOnce limit the log lines about connections closed for others, per
// second and in a burst.
const (
	gaveWayASecond = 1
	gaveWayAtOnce  = 20
)

// sharedListener limits the connections of a listener. At the limit, a new connection replaces the
// oldest connection of the network that has most of them. The new connection is closed instead if
// no network has at least two connections more than its own.
type sharedListener struct {
	net.Listener
	most int
	key  string // key of the configuration that sets most
	log  *loglimit.Logger

	mu    sync.Mutex
	count int
	open  map[fairqueue.Network][]*sharedConn // oldest first
}

func newSharedListener(listener net.Listener, most int, key string, log *slog.Logger) *sharedListener {
	return &sharedListener{
		Listener: listener, most: most, key: key, log: loglimit.New(log, gaveWayASecond, gaveWayAtOnce),
		open: map[fairqueue.Network][]*sharedConn{},
	}
}

// Accept returns the next connection for which there is room.
func (l *sharedListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		sender, _ := netip.ParseAddrPort(accepted.RemoteAddr().String()) // the zero value counts as one network
		conn := &sharedConn{Conn: accepted, listener: l, network: fairqueue.NetworkOf(sender.Addr())}
		closed := l.add(conn)
		if closed == nil {
			return conn, nil
		}
		l.log.Log(time.Now(), slog.LevelWarn, "Closed a connection: there are too many, most of them from its network",
			slog.String("remote", closed.RemoteAddr().String()), slog.String("limit", l.key))
		_ = closed.Close() // an error does not matter
		if closed != conn {
			return conn, nil
		}
	}
}

// add counts a connection. It returns the connection that must be closed for it, which may be conn
// itself, or nil.
func (l *sharedListener) add(conn *sharedConn) (closed *sharedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= l.most {
		largest := conn.network
		for network, conns := range l.open {
			if len(conns) > len(l.open[largest])+1 {
				largest = network
			}
		}
		if largest == conn.network {
			return conn
		}
		closed = l.open[largest][0]
		l.drop(closed)
	}
	l.open[conn.network] = append(l.open[conn.network], conn)
	l.count++
	return closed
}

// drop stops counting a connection. The caller holds the lock.
func (l *sharedListener) drop(conn *sharedConn) {
	conns := l.open[conn.network]
	position := slices.Index(conns, conn)
	if position < 0 {
		return
	}
	l.count--
	if len(conns) == 1 {
		delete(l.open, conn.network)
		return
	}
	l.open[conn.network] = slices.Delete(conns, position, position+1)
}

// sharedConn gives its place back when it is closed.
type sharedConn struct {
	net.Conn
	listener *sharedListener
	network  fairqueue.Network
}

// Close closes the connection.
func (c *sharedConn) Close() error {
	c.listener.mu.Lock()
	c.listener.drop(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
