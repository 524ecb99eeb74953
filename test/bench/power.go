package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/test/process"
)

const (
	powerNodes    = 10_000
	powerHanging  = 100 // how many of them never answer
	powerSwitched = 100 // how many of them were switched on while no engine ran
	powerAnswer   = 300 * time.Millisecond
	powerPause    = 250 * time.Millisecond // between questions to the machines, which cost them milliseconds
	powerTimeout  = 5 * time.Minute        // no figures are shown after this time
)

const (
	// syncOff keeps an engine from reading power states by itself.
	syncOff = "conductor.power_sync_interval=0s"
	// syncEvery is how often the engine reads them while that is measured.
	syncEvery = "conductor.power_sync_interval=60s"
	// acceptPower lets the engine store what it reads, so that a read is visible.
	acceptPower = "conductor.force_power_state_during_sync=false"
)

// switchedClass is the resource class of the nodes whose machines were switched on.
const switchedClass = "switched"

// benchPower measures how long an engine takes after a cold start to read the power state of every
// machine that answers.
//
// A machine that exists has been asked. Whether the engine has heard the answers is visible on the
// machines that were switched on: their nodes must say so.
func benchPower(ctx context.Context, b *bench) error {
	const data = "power"
	address, err := process.FreeAddress()
	if err != nil {
		return err
	}
	if err := b.preparePower(ctx, data, address); err != nil {
		return err
	}
	m, err := b.startMachines(ctx, data+"-machines", address) // none has been asked
	if err != nil {
		return err
	}
	err = m.makeSlow(ctx)
	if err == nil {
		err = b.measurePower(ctx, data, m)
	}
	m.Kill()
	return err
}

// preparePower creates the nodes and manages them while their machines are quick.
func (b *bench) preparePower(ctx context.Context, data, address string) (err error) {
	m, err := b.startMachines(ctx, data+"-machines", address)
	if err != nil {
		return err
	}
	defer m.Kill()
	e, err := b.startEngine(ctx, data, "--set", syncOff)
	if err != nil {
		return err
	}
	defer e.Kill()
	nodes, _, err := e.createNodes(ctx, powerNodes, func(i int) []byte {
		class := "ordinary"
		if i >= powerHanging && i < powerHanging+powerSwitched {
			class = switchedClass
		}
		return fmt.Appendf(nil, `{"driver":"fake-hardware","resource_class":%q,"driver_info":%s}`, class, m.driverInfo(i))
	})
	if err != nil {
		return err
	}
	if _, err := e.manage(ctx, nodes); err != nil {
		return err
	}
	return e.checkNodes(ctx, map[string]int{"manageable": powerNodes}, 0)
}

// makeSlow switches on the second hundred of the machines, makes the first hundred hang, and lets
// the others answer late.
func (m *machines) makeSlow(ctx context.Context) error {
	if err := m.switchOn(ctx, powerHanging, powerSwitched); err != nil {
		return err
	}
	if err := m.hang(ctx, 0, powerHanging); err != nil {
		return err
	}
	c, err := dial(ctx, m.address)
	if err != nil {
		return fmt.Errorf("connect to machines: %w", err)
	}
	defer c.close()
	return c.want(http.StatusOK, http.MethodPut, "/faults", fmt.Appendf(nil, `{"delay":%q}`, powerAnswer))
}

func (b *bench) measurePower(ctx context.Context, data string, m *machines) error {
	e, err := b.startEngine(ctx, data, "--set", syncEvery, "--set", acceptPower)
	if err != nil {
		return err
	}
	// Figures are shown only if the engine still knows the same after it was started again.
	var figures []figure
	asked, err := e.awaitPower(ctx, m)
	if err == nil {
		figures, err = powerFigures(e, "power of %d machines read after a cold start, %d more hang", asked, 0)
	}
	e.Kill()
	if err != nil {
		return err
	}
	if e, err = b.startEngine(ctx, data, "--set", syncOff); err != nil {
		return err
	}
	on, err := e.switchedOn(ctx)
	if err == nil && on != powerSwitched {
		err = fmt.Errorf("%d machines were switched on, after the restart %d nodes say so", powerSwitched, on)
	}
	err = errors.Join(err, e.checkNodes(ctx, map[string]int{"manageable": powerNodes}, 0))
	e.Kill()
	if err == nil {
		b.figures = append(b.figures, figures...)
	}
	return err
}

// awaitPower waits until every machine has answered. It returns how long after the engine's start
// that was.
func (e *engine) awaitPower(ctx context.Context, m *machines) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, powerTimeout)
	defer cancel()
	toMachines, err := dial(ctx, m.address)
	if err != nil {
		return 0, fmt.Errorf("connect to machines: %w", err)
	}
	defer toMachines.close()
	asked := 0
	err = poll(ctx, powerPause, func() (bool, error) {
		var list struct{ Machines []string }
		err := toMachines.readJSON("/machines", &list)
		asked = len(list.Machines)
		return asked == powerNodes, err
	})
	if err != nil {
		return 0, fmt.Errorf("wait until each machine was asked for its power state, %d of %d are: %w", asked, powerNodes, err)
	}
	answered := time.Since(e.Started) + powerAnswer
	on := 0
	err = poll(ctx, powerPause, func() (bool, error) {
		var err error
		on, err = e.switchedOn(ctx)
		return on == powerSwitched, err
	})
	if err != nil {
		return 0, fmt.Errorf("wait until the nodes of the machines that were switched on say so, %d of %d do: %w", on, powerSwitched, err)
	}
	return max(answered, time.Since(e.Started)), nil
}

// switchedOn counts the nodes that say that their machines were switched on.
func (e *engine) switchedOn(ctx context.Context) (int, error) {
	c, err := e.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer c.close()
	type row struct {
		UUID  string `json:"uuid"`
		Power string `json:"power_state"`
	}
	var list struct{ Nodes []row }
	if err := c.readJSON(fmt.Sprintf("/v1/nodes?fields=uuid,power_state&resource_class=%s&limit=%d", switchedClass, powerSwitched), &list); err != nil {
		return 0, err
	}
	on := 0
	for _, n := range list.Nodes {
		if n.Power == "power on" {
			on++
		}
	}
	return on, nil
}

// powerFigures returns the figures of an engine that has read all power states. name is a format
// for two numbers: the machines that answered and those that hang. memory is the target of the
// memory in MB; 0 means none.
func powerFigures(e *engine, name string, took time.Duration, memory float64) ([]figure, error) {
	cpu, err := e.CPU()
	if err != nil {
		return nil, err
	}
	now, peak, err := e.Memory()
	return []figure{
		{name: fmt.Sprintf(name, powerNodes-powerHanging, powerHanging), value: took.Seconds(), unit: "s", target: 60, best: least},
		{name: "  CPU time of the engine meanwhile", value: cpu.Seconds(), unit: "s"},
		{name: "  resident memory of the engine then", value: megabytes(now), unit: "MB"},
		{name: "  at its peak", value: megabytes(peak), unit: "MB", target: memory, best: least},
	}, err
}
