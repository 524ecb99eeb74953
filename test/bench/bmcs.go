package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/ingot-metal/ingot/test/process"
)

// The networks of the machines and of their BMCs. They differ from those of an `ingot sim` or
// `ingot up` that may run beside the bench.
const (
	machineNetwork = "127.49.0.0/16"
	bmcNetwork     = "127.50.0.0/16"
)

// bmcs is an `ingot sim` that runs as a child of this process: machines that are off, with Redfish
// BMCs of three vendors in turn, which are reached over verified TLS.
type bmcs struct {
	*process.Process
	admin     string // host:port for testers
	authority string // path of a PEM file
}

// startBMCs runs this many machines, with more flags if there are any.
func (b *bench) startBMCs(ctx context.Context, name string, count int, more ...string) (*bmcs, error) {
	admin, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	authority, err := filepath.Abs(filepath.Join(b.folder, name+".pem"))
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"sim", "--machines", strconv.Itoa(count), "--listen", machineNetwork, "--admin", admin, "--off",
		"--bmc", "mixed", "--bmc-network", bmcNetwork, "--bmc-ipmi-port", "0", "--bmc-ca-file", authority,
	}, more...)
	p, err := b.startProcess(name, args...)
	if err != nil {
		return nil, err
	}
	if err := awaitFirst(ctx, p, admin, "/machines"); err != nil {
		p.Kill()
		return nil, fmt.Errorf("wait for the machines: %w", err)
	}
	return &bmcs{p, admin, authority}, nil
}

// bmcMachine is what a node needs to know about a machine.
type bmcMachine struct {
	URL string `json:"url"` // of the BMC
	MAC string `json:"boot_mac"`
}

// read returns the first count machines.
func (m *bmcs) read(ctx context.Context, count int) ([]bmcMachine, error) {
	c, err := dial(ctx, m.admin)
	if err != nil {
		return nil, fmt.Errorf("connect to machines: %w", err)
	}
	defer c.close()
	found := make([]bmcMachine, count)
	for i := range found {
		if err := c.readJSON("/machines/"+strconv.Itoa(i), &found[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// driverInfo returns the driver_info of a node for a machine.
func (m *bmcs) driverInfo(of bmcMachine) string {
	return fmt.Sprintf(`{"redfish_address":%q,"redfish_username":"root","redfish_password":"calvin","redfish_verify_ca":%q}`, of.URL, m.authority)
}
