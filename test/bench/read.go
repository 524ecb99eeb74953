package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	// present is how many nodes there are while single requests are measured.
	present      = 1000
	showRequests = 20_000
	listRequests = 31
)

// benchRead measures the requests of a user who looks at discovered machines, without a password
// and with one.
func benchRead(ctx context.Context, b *bench) error {
	e, err := b.enrolFresh(ctx, "read", documents(present), func(*engine, storm) error { return nil })
	if err != nil {
		return err
	}
	err = errors.Join(b.measureShows(ctx, e, ""), b.measureLists(ctx, e))
	e.Kill()
	if err != nil {
		return err
	}
	if e, err = b.startWithPassword(ctx, "read"); err != nil {
		return err
	}
	defer e.Kill()
	return b.measureShows(ctx, e, ", http_basic")
}

// measureShows asks for single nodes and ports. All of them must exist.
func (b *bench) measureShows(ctx context.Context, e *engine, suffix string) error {
	c, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	type portRow struct {
		UUID    string `json:"uuid"`
		Address string `json:"address"`
	}
	nodes, err := readAll(c, "nodes", "uuid", func(n nodeRow) string { return n.UUID })
	if err != nil {
		return err
	}
	ports, err := readAll(c, "ports", "uuid,address", func(p portRow) string { return p.UUID })
	if err != nil {
		return err
	}
	shown, err := e.load(ctx, apiClients, showRequests, func(c *client, i int) error {
		return c.want(http.StatusOK, http.MethodGet, "/v1/nodes/"+nodes[i%len(nodes)].UUID, nil)
	}, nil)
	if err != nil {
		return err
	}
	b.addStorm("show node by UUID"+suffix, shown, 10_000)
	found, err := e.load(ctx, apiClients, showRequests, func(c *client, i int) error {
		port := ports[i%len(ports)]
		answer, err := c.read(http.StatusOK, http.MethodGet, "/v1/ports?address="+port.Address, nil)
		if err == nil && !bytes.Contains(answer, []byte(port.UUID)) {
			err = fmt.Errorf("the port with address %s is not in %.300s", port.Address, answer)
		}
		return err
	}, nil)
	if err != nil {
		return err
	}
	b.addStorm(figurePort+suffix, found, 10_000)
	return nil
}

// measureLists reads all nodes in one answer, with only one client.
func (b *bench) measureLists(ctx context.Context, e *engine) error {
	c, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	for _, list := range []struct {
		name, path string
		target     float64 // ms
	}{
		{"with detail", "/v1/nodes/detail", 25},
		{"brief", "/v1/nodes", 10},
	} {
		path := fmt.Sprintf("%s?limit=%d", list.path, present)
		var whole struct{ Nodes []nodeRow }
		if err := c.readJSON(path, &whole); err != nil {
			return err
		}
		if len(whole.Nodes) != present {
			return fmt.Errorf("%s has %d nodes, want %d", path, len(whole.Nodes), present)
		}
		before, err := e.CPU()
		if err != nil {
			return err
		}
		times := make([]time.Duration, listRequests)
		for i := range times {
			start := time.Now()
			if err := c.want(http.StatusOK, http.MethodGet, path, nil); err != nil {
				return err
			}
			times[i] = time.Since(start)
		}
		after, err := e.CPU()
		if err != nil {
			return err
		}
		b.add(figure{
			name: fmt.Sprintf("list %d nodes %s", present, list.name), value: milliseconds(median(times)),
			unit: "ms", target: list.target, best: least, cpu: milliseconds(after-before) / listRequests,
		})
	}
	return nil
}

// startWithPassword runs an engine that answers only requests with the password, and checks that it
// does.
func (b *bench) startWithPassword(ctx context.Context, data string) (*engine, error) {
	const user, password = "bench", "correct horse battery staple"
	const cost = 10 // as the documentation proposes
	hash, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	if err != nil {
		return nil, fmt.Errorf("hash password: %w", err)
	}
	users := filepath.Join(b.folder, "users")
	if err := os.WriteFile(users, fmt.Appendf(nil, "%s:%s\n", user, hash), 0o600); err != nil {
		return nil, fmt.Errorf("write users: %w", err)
	}
	e, err := b.startEngine(ctx, data, "--set", "api.auth=http_basic", "--set", "api.htpasswd_file="+users)
	if err != nil {
		return nil, err
	}
	if err := e.checkRefuses(ctx); err != nil {
		e.Kill()
		return nil, err
	}
	e.authorization = "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)) + "\r\n"
	return e, nil
}

// checkRefuses returns an error when a request without a password is answered.
func (e *engine) checkRefuses(ctx context.Context) error {
	c, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	return c.want(http.StatusUnauthorized, http.MethodGet, "/v1/nodes", nil)
}
