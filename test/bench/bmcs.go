package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/ingot-metal/ingot/test/process"
)

// Where the machines and their BMCs are: not where those of `ingot sim` and `ingot up`
// are that somebody may have running beside the bench.
const (
	machineNetwork = "127.49.0.0/16"
	bmcNetwork     = "127.50.0.0/16"
)

// bmcs is an `ingot sim` that runs as a child of this process: machines with Redfish BMCs
// of three vendors in turn, which are reached over verified TLS. They are off.
type bmcs struct {
	*process.Process
	admin     string // host:port for testers
	authority string // path of a PEM file
}

// startBMCs runs so many machines, with more flags if there are any.
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

// bmcMachine is what a node needs to know of a machine.
type bmcMachine struct {
	URL string `json:"url"` // of the BMC
	MAC string `json:"boot_mac"`
}

// read asks for the first machines.
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

// driverInfo leads a node to a machine.
func (m *bmcs) driverInfo(of bmcMachine) string {
	return fmt.Sprintf(`{"redfish_address":%q,"redfish_username":"root","redfish_password":"calvin","redfish_verify_ca":%q}`, of.URL, m.authority)
}
