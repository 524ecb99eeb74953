package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
)

// writes is how many nodes and ports are created, and how many nodes are managed and deleted.
const writes = 6000

// benchWrite measures the requests of a user who registers machines by hand and removes them again,
// while the engine has other nodes.
func benchWrite(ctx context.Context, b *bench) error {
	const data = "write"
	e, err := b.startEngine(ctx, data)
	if err != nil {
		return err
	}
	uuids, err := b.measureWrites(ctx, e)
	e.Kill()
	if err != nil {
		return err
	}
	if e, err = b.startEngine(ctx, data); err != nil {
		return err
	}
	err = e.checkNodes(ctx, map[string]int{"enroll": present, "manageable": writes}, writes)
	if err == nil {
		err = b.measureDeletes(ctx, e, uuids)
	}
	e.Kill()
	if err != nil {
		return err
	}
	if e, err = b.startEngine(ctx, data); err != nil {
		return err
	}
	defer e.Kill()
	return e.checkNodes(ctx, map[string]int{"enroll": present}, 0)
}

// measureWrites returns the UUIDs of the nodes that were created and managed.
func (b *bench) measureWrites(ctx context.Context, e *engine) ([]string, error) {
	_, _, err := e.createNodes(ctx, present, func(i int) []byte {
		return fmt.Appendf(nil, `{"driver":"fake-hardware","name":"present-%d"}`, i)
	})
	if err != nil {
		return nil, err
	}
	uuids, created, err := e.createNodes(ctx, writes, func(i int) []byte {
		return fmt.Appendf(nil, `{"driver":"fake-hardware","name":"node-%d","properties":{"cpu_arch":"x86_64"},"extra":{"rack":%d}}`, i, i/40)
	})
	if err != nil {
		return nil, err
	}
	b.addStorm("create node", created, 3000)
	added, err := e.createPorts(ctx, uuids)
	if err != nil {
		return nil, err
	}
	b.addStorm("create port", added, 3000)
	managed, err := e.manage(ctx, uuids)
	if err != nil {
		return nil, err
	}
	b.addStorm(figureManage, managed, 1500)
	return uuids, nil
}

func (b *bench) measureDeletes(ctx context.Context, e *engine, uuids []string) error {
	deleted, err := e.load(ctx, apiClients, len(uuids), func(c *client, i int) error {
		return c.want(http.StatusNoContent, http.MethodDelete, "/v1/nodes/"+uuids[i], nil)
	}, nil)
	if err != nil {
		return err
	}
	b.addStorm(figureDelete, deleted, 3000)
	return nil
}

// createNodes creates nodes and returns their UUIDs.
func (e *engine) createNodes(ctx context.Context, count int, body func(i int) []byte) ([]string, storm, error) {
	uuids := make([]string, count)
	result, err := e.load(ctx, apiClients, count, func(c *client, i int) error {
		answer, err := c.read(http.StatusCreated, http.MethodPost, "/v1/nodes", body(i))
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
	return uuids, result, err
}

// createPorts creates a port for each of the nodes. A node that is named twice gets two ports. The
// MAC addresses follow from the positions in nodes.
func (e *engine) createPorts(ctx context.Context, nodes []string) (storm, error) {
	return e.load(ctx, apiClients, len(nodes), func(c *client, i int) error {
		return c.want(http.StatusCreated, http.MethodPost, "/v1/ports",
			fmt.Appendf(nil, `{"node_uuid":%q,"address":"02:00:00:%02x:%02x:%02x"}`, nodes[i], i>>16, i>>8&0xff, i&0xff))
	}, nil)
}

// manage asks for the verb manage on every node, and returns when no node is being verified any
// more.
func (e *engine) manage(ctx context.Context, nodes []string) (storm, error) {
	return e.manageBy(ctx, apiClients, nodes)
}

func (e *engine) manageBy(ctx context.Context, clients int, nodes []string) (storm, error) {
	return e.load(ctx, clients, len(nodes), manageEach(nodes), func(ctx context.Context, c *client) error {
		return noneIn(ctx, c, "verifying")
	})
}

// manageEach returns a function that asks for the verb manage on node i.
func manageEach(nodes []string) func(c *client, i int) error {
	return func(c *client, i int) error {
		return c.want(http.StatusAccepted, http.MethodPut, "/v1/nodes/"+nodes[i]+"/states/provision", []byte(`{"target":"manage"}`))
	}
}

// checkNodes returns an error unless the engine has exactly these many nodes in
// each provision state, and these many ports.
func (e *engine) checkNodes(ctx context.Context, want map[string]int, wantPorts int) error {
	c, err := e.dial(ctx)
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
	states := map[string]int{}
	for _, n := range nodes {
		states[n.State]++
	}
	if !maps.Equal(states, want) || len(ports) != wantPorts {
		return fmt.Errorf("after the restart there are nodes %v and %d ports, want %v and %d", states, len(ports), want, wantPorts)
	}
	return nil
}
