package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// How many connections load an engine at the same time.
const (
	machineClients = 16 // machines that post what they found
	apiClients     = 8  // users of the API
)

// version is the microversion of requests that are not a ramdisk's.
const version = "X-OpenStack-Ironic-API-Version: 1.84\r\n"

// client is one keep-alive connection. It writes its requests itself: load shares the machine with
// the engine, so that a more comfortable client would take CPU time that the figures then lack.
type client struct {
	address string
	header  string // header lines of all requests but those of ramdisks
	conn    net.Conn
	in      *bufio.Reader
	out     []byte
}

// answerTimeout bounds one exchange.
const answerTimeout = 30 * time.Second

func (e *engine) dial(ctx context.Context) (*client, error) {
	c, err := dial(ctx, e.address)
	if err != nil {
		return nil, fmt.Errorf("connect to engine: %w", err)
	}
	c.header += e.authorization
	return c, nil
}

func dial(ctx context.Context, address string) (*client, error) {
	conn, err := (&net.Dialer{Timeout: answerTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &client{address: address, header: version, conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// do sends one request and returns the status and the body of the answer. A ramdisk sends neither
// version nor password; all others ask for version 1.84.
func (c *client) do(method, path string, body []byte) (status int, answer []byte, err error) {
	c.out = append(append(append(append(c.out[:0], method...), ' '), path...), " HTTP/1.1\r\nHost: "...)
	c.out = append(append(c.out, c.address...), "\r\n"...)
	if path != callbackPath {
		c.out = append(c.out, c.header...)
	}
	if body != nil {
		c.out = append(c.out, "Content-Type: application/json\r\nContent-Length: "...)
		c.out = append(strconv.AppendInt(c.out, int64(len(body)), 10), "\r\n"...)
	}
	c.out = append(append(c.out, "\r\n"...), body...)
	if err := c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(response.Body); err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return response.StatusCode, answer, nil
}

// want sends a request and returns an error unless the answer has the status.
func (c *client) want(status int, method, path string, body []byte) error {
	_, err := c.read(status, method, path, body)
	return err
}

func (c *client) read(status int, method, path string, body []byte) ([]byte, error) {
	got, answer, err := c.do(method, path, body)
	if err != nil {
		return nil, err
	}
	if got != status {
		return nil, fmt.Errorf("%s %s: answered %d, want %d: %.300s", method, path, got, status, answer)
	}
	return answer, nil
}

// readJSON gets a document.
func (c *client) readJSON(path string, into any) error {
	answer, err := c.read(http.StatusOK, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("read answer of %s: %w", path, err)
	}
	return nil
}

// storm is what a number of concurrent requests cost.
type storm struct {
	requests int
	took     time.Duration // wall clock
	cpu      time.Duration // CPU time of the engine
}

func (s storm) rate() float64 { return float64(s.requests) / s.took.Seconds() }

// load calls do with each number below count, once each, over several connections. It opens the
// connections before the clock starts. Then it waits for finished, if there is one.
func (e *engine) load(ctx context.Context, clients, count int, do func(c *client, i int) error, finished func(context.Context, *client) error) (storm, error) {
	connections := make([]*client, clients)
	for i := range connections {
		c, err := e.dial(ctx)
		if err != nil {
			return storm{}, err
		}
		defer c.close()
		connections[i] = c
	}
	before, err := e.CPU()
	if err != nil {
		return storm{}, err
	}
	start := time.Now()
	if err := drive(ctx, connections, count, do); err != nil {
		return storm{}, err
	}
	if finished != nil {
		if err := finished(ctx, connections[0]); err != nil {
			return storm{}, err
		}
	}
	took := time.Since(start)
	after, err := e.CPU()
	return storm{requests: count, took: took, cpu: after - before}, err
}

// drive spreads the calls over the connections. The first error ends all of them.
func drive(ctx context.Context, connections []*client, count int, do func(c *client, i int) error) error {
	var next, failed atomic.Int64
	errs := make([]error, len(connections))
	var running sync.WaitGroup
	for n, c := range connections {
		running.Go(func() {
			for ctx.Err() == nil && failed.Load() == 0 {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				if errs[n] = do(c, i); errs[n] != nil {
					failed.Add(1)
					return
				}
			}
		})
	}
	running.Wait()
	return errors.Join(errors.Join(errs...), ctx.Err())
}

// enginePause is the pause between questions to an engine. It is short compared with what is
// measured, and long compared with what a question costs.
const enginePause = 10 * time.Millisecond

// poll repeats a question, with pauses, until the answer is true.
func poll(ctx context.Context, pause time.Duration, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
