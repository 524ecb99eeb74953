package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/ingot-metal/ingot/test/process"
)

// machines is an `ingot sim fake-machines` that runs as a child of this process:
// the machines behind nodes of fake hardware.
type machines struct {
	*process.Process
	address string // host:port
}

// startMachines runs machines that answer at once, until they are told otherwise. No machine exists
// before the first call that names it.
func (b *bench) startMachines(ctx context.Context, name, address string) (*machines, error) {
	p, err := b.startProcess(name, "sim", "fake-machines", "--listen", address)
	if err != nil {
		return nil, err
	}
	m := &machines{Process: p, address: address}
	if err := awaitFirst(ctx, p, address, "/faults"); err != nil {
		m.Kill()
		return nil, fmt.Errorf("wait for the machines' first answer: %w", err)
	}
	return m, nil
}

// driverInfo returns the driver_info of a node for machine i, which has a BMC of its own.
func (m *machines) driverInfo(i int) string {
	return fmt.Sprintf(`{"fake_machine":"http://%s/machines/%s","fake_bmc":"bmc-%d"}`, m.address, machineName(i), i)
}

func machineName(i int) string { return fmt.Sprintf("m%d", i) }

// tell makes a request about each of count machines, from machine first on.
func (m *machines) tell(ctx context.Context, first, count int, method, path, body string) error {
	c, err := dial(ctx, m.address)
	if err != nil {
		return fmt.Errorf("connect to machines: %w", err)
	}
	defer c.close()
	for i := first; i < first+count; i++ {
		if err := c.want(http.StatusOK, method, "/machines/"+machineName(i)+path, []byte(body)); err != nil {
			return err
		}
	}
	return nil
}

// hang makes count machines, from machine first on, never answer an engine again.
func (m *machines) hang(ctx context.Context, first, count int) error {
	return m.tell(ctx, first, count, http.MethodPut, "/faults", `{"hang":1}`)
}

// switchOn switches on count machines, from machine first on, as a person in front of them does.
func (m *machines) switchOn(ctx context.Context, first, count int) error {
	return m.tell(ctx, first, count, http.MethodPost, "/effects", `{"kind":"power on"}`)
}
