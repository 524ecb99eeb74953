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

// How many lines the log has about connections that gave way, in a second and at once.
const (
	gaveWayASecond = 1
	gaveWayAtOnce  = 20
)

// sharedListener bounds the connections of a listener. When there are too many, a new one
// takes the place of the oldest of the network that has most of them. A network with as
// many as any other gets no more.
type sharedListener struct {
	net.Listener
	most int
	key  string // of the configuration, for most
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
		_ = closed.Close() // nobody hears of an error
		if closed != conn {
			return conn, nil
		}
	}
}

// add counts a connection, and returns the one that must be closed for that, if any.
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

// drop counts a connection no more. The caller holds the lock.
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
