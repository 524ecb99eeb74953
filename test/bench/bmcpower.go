package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// bmcPowerAnswer is how long each answer of a BMC takes. To read the power of a machine for the
// first time takes five answers: the service root, twice; a session; the systems; the system.
const bmcPowerAnswer = 300 * time.Millisecond

// bmcPowerPause is the pause between two reads of all nodes. Such a read costs the engine CPU time.
const bmcPowerPause = 2 * time.Second

// withoutEnroll makes new nodes available at once, as it was before microversion 1.11. Their power
// state is not known then.
const withoutEnroll = "X-OpenStack-Ironic-API-Version: 1.10\r\n"

// benchBMCPower measures how long an engine takes after a cold start to read the power state of
// machines with Redfish BMCs over verified TLS. Some of the BMCs hang until the deadline of the
// call. Whether a machine was read is visible on its node, which had no power state before.
func benchBMCPower(ctx context.Context, b *bench) error {
	const data = "bmc-power"
	m, err := b.startBMCs(ctx, data+"-machines", powerNodes)
	if err != nil {
		return err
	}
	defer m.Kill()
	if err := b.prepareBMCPower(ctx, data, m); err != nil {
		return err
	}
	e, err := b.startEngine(ctx, data, append([]string{"--set", syncEvery, "--set", acceptPower}, redfishOnly...)...)
	if err != nil {
		return err
	}
	defer e.Kill()
	if err := e.awaitPowerStates(ctx, powerNodes-powerHanging); err != nil {
		return err
	}
	figures, err := powerFigures(e, "power of %d machines read from Redfish BMCs, %d more hang", time.Since(e.Started), 500)
	b.figures = append(b.figures, figures...)
	return err
}

// redfishOnly makes an engine manage machines with Redfish BMCs and discover none.
var redfishOnly = []string{"--set", "driver.enabled_hardware_types=redfish", "--set", "auto_discovery.enabled=false"}

// prepareBMCPower creates the nodes, and makes the BMCs slow and some of them hang.
func (b *bench) prepareBMCPower(ctx context.Context, data string, m *bmcs) error {
	e, err := b.startEngine(ctx, data, append([]string{"--set", syncOff}, redfishOnly...)...)
	if err != nil {
		return err
	}
	defer e.Kill()
	found, err := m.read(ctx, powerNodes)
	if err != nil {
		return err
	}
	_, err = e.load(ctx, apiClients, powerNodes, func(c *client, i int) error {
		c.header = withoutEnroll
		return c.want(http.StatusCreated, http.MethodPost, "/v1/nodes", fmt.Appendf(nil, `{"driver":"redfish","driver_info":%s}`, m.driverInfo(found[i])))
	}, nil)
	if err != nil {
		return err
	}
	c, err := dial(ctx, m.admin)
	if err != nil {
		return fmt.Errorf("connect to machines: %w", err)
	}
	defer c.close()
	if err := c.want(http.StatusOK, http.MethodPut, "/faults", fmt.Appendf(nil, `{"delay":%q}`, bmcPowerAnswer)); err != nil {
		return err
	}
	for i := range powerHanging {
		if err := c.want(http.StatusOK, http.MethodPut, "/machines/"+strconv.Itoa(i*powerNodes/powerHanging)+"/faults", []byte(`{"hang":1}`)); err != nil {
			return err
		}
	}
	return nil
}

type poweredNode struct {
	UUID  string `json:"uuid"`
	Power string `json:"power_state"`
}

// awaitPowerStates waits until this many nodes know that their machines are off.
func (e *engine) awaitPowerStates(ctx context.Context, count int) error {
	ctx, cancel := context.WithTimeout(ctx, powerTimeout)
	defer cancel()
	c, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	known := 0
	err = poll(ctx, bmcPowerPause, func() (bool, error) {
		nodes, err := readAll(c, "nodes", "uuid,power_state", func(n poweredNode) string { return n.UUID })
		known = 0
		for _, n := range nodes {
			if n.Power == "power off" {
				known++
			}
		}
		return known >= count, err
	})
	if err != nil {
		return fmt.Errorf("wait for the power states, %d of %d are known: %w", known, count, err)
	}
	return nil
}
