package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

const (
	// agents is how many ramdisks look themselves up, each for a node that waits for it. They then
	// send heartbeats in turn.
	agents     = 1500
	heartbeats = 6000
)

// benchAgents measures what ramdisks ask for apart from posting their inventories: their node with
// its token, and heartbeats.
func benchAgents(ctx context.Context, b *bench) error {
	e, err := b.startEngine(ctx, "agents", noDiscovery...)
	if err != nil {
		return err
	}
	defer e.Kill()
	machines := knownMachines(agents)
	if err := e.awaitInspection(ctx, machines, false); err != nil {
		return err
	}
	type ramdisk struct{ path, beat string }
	ramdisks := make([]ramdisk, agents)
	found, err := e.load(ctx, machineClients, agents, func(c *client, i int) error {
		var answer struct {
			Node   nodeRow
			Config struct {
				Token string `json:"agent_token"`
			}
		}
		text, err := c.read(http.StatusOK, http.MethodGet, "/v1/lookup?addresses="+machines[i].mac, nil)
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		if err != nil {
			return fmt.Errorf("look up machine %d: %w", i, err)
		}
		ramdisks[i] = ramdisk{
			path: "/v1/heartbeat/" + answer.Node.UUID,
			beat: fmt.Sprintf(`{"callback_url":"https://10.0.%d.%d:9999","agent_version":"9.11.0","agent_token":%q}`, i>>8, i&0xff, answer.Config.Token),
		}
		return nil
	}, nil)
	if err != nil {
		return err
	}
	b.addStorm("ramdisks that look themselves up", found, 1500)
	beats, err := e.load(ctx, machineClients, heartbeats, func(c *client, i int) error {
		r := ramdisks[i%agents]
		return c.want(http.StatusAccepted, http.MethodPost, r.path, []byte(r.beat))
	}, nil)
	if err != nil {
		return err
	}
	b.addStorm("heartbeats", beats, 3000)
	return nil
}
