package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/ingot-metal/ingot/test/process"
)

const (
	hangingNodes = 100 // half of them are being managed, half power-cycled
	quickNodes   = 200 // managed in one round
	quickRounds  = 5   // for each engine
	quickClass   = "quick"
	hangingClass = "hanging"
	engineAlone  = 0
	engineBeside = 1 // the engine with machines that hang
)

// benchHanging measures whether machines that do not answer slow down the work on others. Two
// engines manage nodes with quick machines in turn. Meanwhile, one of the engines waits for
// machines that hang.
func benchHanging(ctx context.Context, b *bench) error {
	address, err := process.FreeAddress()
	if err != nil {
		return err
	}
	m, err := b.startMachines(ctx, "hanging-machines", address)
	if err != nil {
		return err
	}
	names := [2]string{"hanging-0", "hanging-1"}
	var engines [2]*engine
	for i, name := range names {
		if engines[i], err = b.startEngine(ctx, name); err != nil {
			break
		}
	}
	var results [2][]storm
	if err == nil {
		results, err = compareHanging(ctx, engines, m)
	}
	for _, e := range engines {
		if e != nil {
			e.Kill()
		}
	}
	if err == nil {
		err = b.checkQuick(ctx, names)
	}
	m.Kill()
	if err != nil {
		return err
	}
	alone, beside := total(results[engineAlone]), total(results[engineBeside])
	b.addStorm("manage, quick machines", alone, 0)
	b.addStorm(fmt.Sprintf("  beside %d machines that hang", hangingNodes), beside, 0)
	b.add(figure{
		name: "  of the rate without them", value: beside.rate() / alone.rate(), unit: "x", target: 0.9, best: most,
	})
	return nil
}

// total adds up storms that followed one another.
func total(storms []storm) storm {
	var all storm
	for _, s := range storms {
		all = storm{requests: all.requests + s.requests, took: all.took + s.took, cpu: all.cpu + s.cpu}
	}
	return all
}

func compareHanging(ctx context.Context, engines [2]*engine, m *machines) (results [2][]storm, err error) {
	var nodes [2][]string
	for i, e := range engines {
		first := i * quickRounds * quickNodes
		if nodes[i], err = e.createFakes(ctx, m, quickClass, first, quickRounds*quickNodes); err != nil {
			return results, err
		}
	}
	if err := engines[engineBeside].occupy(ctx, m, 2*quickRounds*quickNodes); err != nil {
		return results, err
	}
	for round := range quickRounds {
		for i, e := range engines {
			s, err := e.manageQuick(ctx, nodes[i][round*quickNodes:][:quickNodes])
			if err != nil {
				return results, err
			}
			results[i] = append(results[i], s)
		}
	}
	return results, engines[engineBeside].checkOccupied(ctx)
}

// createFakes creates nodes of a resource class. Each node has a machine of its own.
func (e *engine) createFakes(ctx context.Context, m *machines, class string, first, count int) ([]string, error) {
	nodes, _, err := e.createNodes(ctx, count, func(i int) []byte {
		return fmt.Appendf(nil, `{"driver":"fake-hardware","resource_class":%q,"driver_info":%s}`, class, m.driverInfo(first+i))
	})
	return nodes, err
}

// occupy gives the engine machines that hang: one half while their nodes are being managed, the
// other half while they are power-cycled.
func (e *engine) occupy(ctx context.Context, m *machines, first int) error {
	nodes, err := e.createFakes(ctx, m, hangingClass, first, hangingNodes)
	if err != nil {
		return err
	}
	managed, cycled := nodes[:hangingNodes/2], nodes[hangingNodes/2:]
	if _, err := e.manage(ctx, cycled); err != nil {
		return err
	}
	if err := m.hang(ctx, first, hangingNodes); err != nil {
		return err
	}
	if _, err := e.load(ctx, apiClients, len(managed), manageEach(managed), nil); err != nil {
		return err
	}
	_, err = e.load(ctx, apiClients, len(cycled), func(c *client, i int) error {
		return c.want(http.StatusAccepted, http.MethodPut, "/v1/nodes/"+cycled[i]+"/states/power", []byte(`{"target":"rebooting"}`))
	}, nil)
	return err
}

// manageQuick manages nodes and returns when no node of their class is being verified any more.
func (e *engine) manageQuick(ctx context.Context, nodes []string) (storm, error) {
	return e.load(ctx, apiClients, len(nodes), manageEach(nodes), func(ctx context.Context, c *client) error {
		return noneWith(ctx, c, "provision_state=verifying&resource_class="+quickClass)
	})
}

// checkOccupied returns an error unless the engine still waits for every machine that hangs.
// Otherwise the last rounds would have been measured without hanging machines.
func (e *engine) checkOccupied(ctx context.Context) error {
	working, _, err := e.countFakes(ctx, hangingClass)
	if err == nil && working != hangingNodes {
		err = fmt.Errorf("%d of %d machines that hang were given up while others were measured", hangingNodes-working, hangingNodes)
	}
	return err
}

// countFakes counts the nodes of a class on which there is work, and those that were managed.
func (e *engine) countFakes(ctx context.Context, class string) (working, managed int, err error) {
	c, err := e.dial(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer c.close()
	type row struct {
		UUID   string  `json:"uuid"`
		State  string  `json:"provision_state"`
		Target *string `json:"target_power_state"`
	}
	nodes, err := readAll(c, "nodes", "uuid,provision_state,target_power_state&resource_class="+class, func(r row) string { return r.UUID })
	for _, n := range nodes {
		switch {
		case n.State == "verifying", n.Target != nil:
			working++
		case n.State == "manageable":
			managed++
		}
	}
	return working, managed, err
}

// checkQuick starts the engines again and returns an error unless every node with
// a quick machine is manageable.
func (b *bench) checkQuick(ctx context.Context, names [2]string) error {
	for _, name := range names {
		e, err := b.startEngine(ctx, name)
		if err != nil {
			return err
		}
		_, managed, err := e.countFakes(ctx, quickClass)
		if err == nil && managed != quickRounds*quickNodes {
			err = fmt.Errorf("after the restart %d of %d nodes with quick machines are manageable", managed, quickRounds*quickNodes)
		}
		e.Kill()
		if err != nil {
			return err
		}
	}
	return nil
}
