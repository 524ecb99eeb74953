package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// inspectMachines stays below the default burst of 5000 posts.
const inspectMachines = 4000

// allHooks enables every hook, and sets options for the hooks that otherwise have nothing to do.
var allHooks = []string{
	"--set", "inspector.hooks=$default_hooks,accelerators,boot-mode,cpu-capabilities,extra-hardware,local-link-connection," +
		"memory,parse-lldp,pci-devices,physical-network,raid-device,root-device",
	"--set", "inspector.pci_device_alias=10de:1eb8:t4,10de:20f1:a100",
	"--set", "inspector.physical_network_cidr_map=10.0.0.0/16:provisioning,100.64.0.0/10:data",
}

// known is a machine that was registered by its boot interface or its BMC.
type known struct {
	index int
	mac   string // of the interface that the machine boots from
	bmc   string // IPv4 address of the BMC; empty if there is none
}

// noBMC is the address that an agent sends if it finds no BMC.
const noBMC = "0.0.0.0"

func knownMachines(count int) []known {
	machines := make([]known, count)
	for i := range machines {
		m := knownOptions(i).Machine(seed, i)
		machines[i] = known{index: i, mac: m.Inspection.Inventory.Interfaces[m.BootNIC].MACAddress}
		if bmc := m.Inspection.Inventory.BMCAddress; bmc != noBMC {
			machines[i].bmc = bmc
		}
	}
	return machines
}

// knownOptions returns the options of machines whose agents collect everything.
func knownOptions(index int) hardware.Options {
	return hardware.Options{NICs: nics, Kind: hardware.Server, Address: hardware.AddressIn(network, index), ExtraHardware: true}
}

// document returns what the machine's agent posts.
func (k known) document() []byte { return knownOptions(k.index).Document(seed, k.index) }

// documentsOf generates what the machines post. It is called before the clock starts.
func documentsOf(machines []known) [][]byte {
	docs := make([][]byte, len(machines))
	for i, m := range machines {
		docs[i] = m.document()
	}
	return docs
}

// benchInspect measures the inspection, with every hook, of machines that were registered by hand:
// from the first post until the last node is inspected.
func benchInspect(ctx context.Context, b *bench) error {
	inspected, err := b.inspectFresh(ctx, "inspect", inspectMachines)
	if err != nil {
		return err
	}
	f := inspected.figure(figureInspect, 800)
	f.onServer = 600
	b.add(f)
	return nil
}

// benchInspectByTCP measures the same on a PostgreSQL server that is reached as if it was on another
// computer, but without the delay of a network.
func benchInspectByTCP(ctx context.Context, b *bench) error {
	inspected, err := b.inspectFresh(ctx, "inspect", inspectMachines)
	if err != nil {
		return err
	}
	b.figures = append(b.figures, inspected.figure(figureInspect+" (PostgreSQL through TCP)", 0))
	return nil
}

// inspectFresh lets known machines post to an engine with an empty database. It then kills the
// engine, starts it again and checks that every node was inspected.
func (b *bench) inspectFresh(ctx context.Context, data string, count int) (storm, error) {
	machines := knownMachines(count)
	e, err := b.startEngine(ctx, data, allHooks...)
	if err != nil {
		return storm{}, err
	}
	var inspected storm
	if err = e.awaitInspection(ctx, machines, false); err == nil {
		inspected, err = e.postAll(ctx, machines)
	}
	e.Kill()
	if err != nil {
		return storm{}, err
	}
	if e, err = b.startEngine(ctx, data, allHooks...); err != nil {
		return storm{}, err
	}
	err = e.checkNodes(ctx, map[string]int{"manageable": len(machines)}, nics*len(machines))
	defer e.Kill()
	return inspected, errors.Join(err, e.checkInspected(ctx))
}

// awaitInspection registers the machines and brings their nodes to the state inspect wait. A
// machine is registered by its BMC address if it has a BMC and byBMC is set, and by a port
// otherwise.
func (e *engine) awaitInspection(ctx context.Context, machines []known, byBMC bool) error {
	nodes, _, err := e.createNodes(ctx, len(machines), func(i int) []byte {
		info := "{}"
		if machines[i].registeredByBMC(byBMC) {
			info = fmt.Sprintf(`{"redfish_address":"https://%s/"}`, machines[i].bmc)
		}
		return fmt.Appendf(nil, `{"driver":"fake-hardware","inspect_interface":"agent","driver_info":%s}`, info)
	})
	if err != nil {
		return err
	}
	_, err = e.load(ctx, apiClients, len(nodes), func(c *client, i int) error {
		if machines[i].registeredByBMC(byBMC) {
			return nil
		}
		return c.want(http.StatusCreated, http.MethodPost, "/v1/ports", fmt.Appendf(nil, `{"node_uuid":%q,"address":%q}`, nodes[i], machines[i].mac))
	}, nil)
	if err != nil {
		return err
	}
	if _, err := e.manage(ctx, nodes); err != nil {
		return err
	}
	_, err = e.load(ctx, apiClients, len(nodes), func(c *client, i int) error {
		return c.want(http.StatusAccepted, http.MethodPut, "/v1/nodes/"+nodes[i]+"/states/provision", []byte(`{"target":"inspect"}`))
	}, func(ctx context.Context, c *client) error { return noneIn(ctx, c, "inspecting") })
	return err
}

func (k known) registeredByBMC(asked bool) bool { return asked && k.bmc != "" }

// postAll lets every machine post its document. It returns when no node is being inspected any
// more.
func (e *engine) postAll(ctx context.Context, machines []known) (storm, error) {
	docs := documentsOf(machines)
	return e.load(ctx, machineClients, len(docs), func(c *client, i int) error {
		return c.want(http.StatusOK, http.MethodPost, callbackPath, docs[i])
	}, func(ctx context.Context, c *client) error {
		return errors.Join(noneIn(ctx, c, "inspect%20wait"), noneIn(ctx, c, "inspecting"))
	})
}

// noneIn waits until no node is in a provision state.
func noneIn(ctx context.Context, c *client, state string) error {
	return noneWith(ctx, c, "provision_state="+state)
}

// noneWith waits until no node matches a filter.
func noneWith(ctx context.Context, c *client, filter string) error {
	return poll(ctx, enginePause, func() (bool, error) {
		var there struct{ Nodes []nodeRow }
		err := c.readJSON("/v1/nodes?fields=uuid&limit=1&"+filter, &there)
		return len(there.Nodes) == 0, err
	})
}

// checkInspected returns an error unless every node has what the hooks derive from every inventory.
func (e *engine) checkInspected(ctx context.Context) error {
	c, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	type row struct {
		UUID       string                     `json:"uuid"`
		Finished   *string                    `json:"inspection_finished_at"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	nodes, err := readAll(c, "nodes", "uuid,inspection_finished_at,properties", func(r row) string { return r.UUID })
	if err != nil {
		return err
	}
	for _, n := range nodes {
		for _, property := range []string{"cpu_arch", "memory_mb", "local_gb"} {
			if n.Finished == nil || n.Properties[property] == nil {
				return fmt.Errorf("after the restart node %s has no %s: inspection finished at %v", n.UUID, property, n.Finished)
			}
		}
		if !strings.Contains(string(n.Properties["capabilities"]), "boot_mode:") {
			return fmt.Errorf("after the restart node %s has no boot mode: %s", n.UUID, n.Properties["capabilities"])
		}
	}
	return nil
}
