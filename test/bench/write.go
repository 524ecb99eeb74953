package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// writes is how many nodes and ports are created, and how many nodes managed.
const writes = 6000

// benchWrite measures the requests of somebody who registers machines by hand.
func benchWrite(ctx context.Context, b *bench) error {
	e, err := b.startEngine(ctx, "write")
	if err != nil {
		return err
	}
	err = b.measureWrites(ctx, e)
	if err := errors.Join(err, e.kill()); err != nil {
		return err
	}
	if e, err = b.startEngine(ctx, "write"); err != nil {
		return err
	}
	return errors.Join(e.checkWritten(ctx), e.kill())
}

func (b *bench) measureWrites(ctx context.Context, e *engine) error {
	uuids := make([]string, writes)
	created, err := e.load(ctx, writes, func(c *client, i int) error {
		answer, err := c.read(http.StatusCreated, http.MethodPost, "/v1/nodes",
			fmt.Appendf(nil, `{"driver":"fake-hardware","name":"node-%d","properties":{"cpu_arch":"x86_64"},"extra":{"rack":%d}}`, i, i/40))
		if err != nil {
			return err
		}
		var n nodeRow
		if err := json.Unmarshal(answer, &n); err != nil {
			return fmt.Errorf("read created node: %w", err)
		}
		uuids[i] = n.UUID
		return nil
	}, nil)
	if err != nil {
		return err
	}
	b.addStorm("create node", created, 3000)

	added, err := e.load(ctx, writes, func(c *client, i int) error {
		return c.want(http.StatusCreated, http.MethodPost, "/v1/ports",
			fmt.Appendf(nil, `{"node_uuid":%q,"address":"02:00:00:%02x:%02x:%02x"}`, uuids[i], i>>16, i>>8&0xff, i&0xff))
	}, nil)
	if err != nil {
		return err
	}
	b.addStorm("create port", added, 3000)

	managed, err := e.load(ctx, writes, func(c *client, i int) error {
		return c.want(http.StatusAccepted, http.MethodPut, "/v1/nodes/"+uuids[i]+"/states/provision", []byte(`{"target":"manage"}`))
	}, func(ctx context.Context, c *client) error {
		return poll(ctx, enginePause, func() (bool, error) {
			var working struct{ Nodes []nodeRow }
			err := c.readJSON("/v1/nodes?fields=uuid&limit=1&provision_state=verifying", &working)
			return len(working.Nodes) == 0, err
		})
	})
	if err != nil {
		return err
	}
	b.addStorm("manage, from asking to done", managed, 1500)
	return nil
}

// checkWritten returns an error unless everything that was asked for is there
// after a kill and a start.
func (e *engine) checkWritten(ctx context.Context) error {
	c, err := dial(ctx, e.address)
	if err != nil {
		return err
	}
	defer c.close()
	type row struct {
		UUID  string `json:"uuid"`
		State string `json:"provision_state"`
	}
	uuid := func(r row) string { return r.UUID }
	nodes, err := readAll(c, "nodes", "uuid,provision_state", uuid)
	if err != nil {
		return err
	}
	ports, err := readAll(c, "ports", "uuid", uuid)
	if err != nil {
		return err
	}
	if len(nodes) != writes || len(ports) != writes {
		return fmt.Errorf("%d nodes and ports were created, after the restart there are %d nodes and %d ports", writes, len(nodes), len(ports))
	}
	for _, n := range nodes {
		if n.State != "manageable" {
			return fmt.Errorf("after the restart node %s is %q, want manageable", n.UUID, n.State)
		}
	}
	return nil
}
