package ipmi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
)

// maxDatagram is more than any answer to the driver's requests has, in bytes.
const maxDatagram = 1024

// errNoAnswer is the error of a request that was not answered in time.
var errNoAnswer = errors.New("no answer")

// wire carries datagrams to and from one BMC.
type wire struct{ conn net.Conn }

// dialUDP prepares to send; UDP tells nothing about whether the BMC is there.
func dialUDP(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "udp", address)
}

// send sends a datagram, but never after the deadline of ctx.
func (w *wire) send(ctx context.Context, datagram []byte) error {
	if err := driver.CheckDeadline(ctx); err != nil {
		return err
	}
	_, err := w.conn.Write(datagram)
	return err
}

// receive waits for a datagram that take accepts. It returns errNoAnswer when timeout
// ends before ctx does.
func (w *wire) receive(ctx context.Context, timeout time.Duration, take func(datagram []byte) bool) error {
	until := time.Now().Add(timeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	if err := w.conn.SetReadDeadline(until); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = w.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buffer := make([]byte, maxDatagram)
	for {
		n, err := w.conn.Read(buffer)
		deadline, bounded := ctx.Deadline()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && errors.Is(err, os.ErrDeadlineExceeded) && bounded && !time.Now().Before(deadline):
			return context.DeadlineExceeded
		case err != nil && errors.Is(err, os.ErrDeadlineExceeded):
			return errNoAnswer
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		case take(buffer[:n]):
			return nil
		}
	}
}

func (w *wire) close() { _ = w.conn.Close() } // nothing can be done about an error
