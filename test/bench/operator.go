package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/test/process"
)

// machineCount is how many hosts are created, or machines are powered on, at the same time.
const machineCount = 1000

// agentNetwork is the network on which the agents of these machines answer.
const agentNetwork = "127.49.0.0/16"

// operatorPoll is the default interval at which the operator polls the engine. idleTime is how long
// an idle operator is watched.
const (
	operatorPoll = 5 * time.Second
	idleTime     = 6 * operatorPoll
)

// benchOperatorCreate measures how long hosts with BMCs that are created at the same time take to
// become available if the engine takes no time, and what each host costs the API server.
func benchOperatorCreate(ctx context.Context, b *bench) (err error) {
	c, err := b.startCluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.createAll(ctx, machineCount, func(i int) kube.Object { return hostSecret(i) }); err != nil {
		return err
	}
	o, err := b.startOperator(c, "--demo")
	if err != nil {
		return err
	}
	defer o.Kill()
	if err := awaitFirst(ctx, o.Process, strings.TrimSuffix(strings.TrimPrefix(o.metrics, "http://"), "/metrics"), "/metrics"); err != nil {
		return err
	}
	before, err := c.writes(ctx)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	begun := time.Now()
	if err := c.createAll(waiting, machineCount, func(i int) kube.Object { return virtualMediaHost(i) }); err != nil {
		return err
	}
	if err := o.awaitAvailable(waiting, machineCount); err != nil {
		return err
	}
	took := time.Since(begun)
	if err := b.addOperator(ctx, c, o, operatorRun{
		what: fmt.Sprintf("%d hosts created at once, demo provisioner", machineCount), took: took, within: 60,
		before: before, byBench: machineCount, writes: 10,
	}); err != nil {
		return err
	}
	return b.watchIdle(ctx, c, o, fmt.Sprintf("idle with %d hosts with BMCs", machineCount), nil)
}

// operatorRun is what an operator did, with the targets of its costs.
type operatorRun struct {
	what           string
	took           time.Duration
	within         float64 // seconds
	before         written
	byBench        float64 // how many objects the bench wrote itself
	writes, events float64 // targets for each host; 0 events means no target
}

// lastWritesTime is how long the last writes and events may take after all hosts are available.
const lastWritesTime = 10 * time.Second

// addOperator adds the figures of a run, after it has verified the result of the run.
func (b *bench) addOperator(ctx context.Context, c *cluster, o *operatorProcess, r operatorRun) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lastWritesTime):
	}
	if err := c.verify(ctx, machineCount); err != nil {
		return err
	}
	after, err := c.writes(ctx)
	if err != nil {
		return err
	}
	_, peak, err := o.Memory()
	if err != nil {
		return err
	}
	cpu, err := o.CPU()
	if err != nil {
		return err
	}
	cost := after.minus(r.before)
	b.add(figure{name: r.what + ": all available", value: r.took.Seconds(), unit: "s", target: r.within, best: least})
	b.add(figure{name: r.what + ": CPU time of the operator for each", value: milliseconds(cpu) / machineCount, unit: "ms CPU"})
	b.add(figure{name: r.what + ": writes of hosts, Secrets and HardwareData for each", value: (cost.objects - r.byBench) / machineCount, unit: "writes", target: r.writes, best: least})
	b.add(figure{name: r.what + ": writes of objects of BIOS settings and firmware for each", value: cost.firmware / machineCount, unit: "writes"})
	// One event on the discovery resource is about many hosts, so there are a few more than one
	// each.
	events := figure{name: r.what + ": events for each", value: cost.events / machineCount, unit: "events", best: least}
	if r.events > 0 {
		events.target = r.events + 0.02
	}
	b.add(events)
	b.add(figure{name: r.what + ": memory of the operator at its peak", value: float64(peak) / 1e6, unit: "MB", target: 200, best: least})
	return nil
}

func hostName(i int) string { return fmt.Sprintf("machine-%04d", i) }

func hostSecret(i int) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: hostNamespace, Name: hostName(i)},
		StringData: map[string]string{"username": "admin", "password": "secret"},
	}
}

// virtualMediaHost returns a host whose ramdisk boots from virtual media. The limit of machines at
// work at the same time does not apply to such hosts.
func virtualMediaHost(i int) *v1alpha1.BareMetalHost {
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: hostNamespace, Name: hostName(i)}}
	h.Spec.Online = true
	h.Spec.BootMACAddress = fmt.Sprintf("00:00:5e:00:%02x:%02x", i/256, i%256)
	h.Spec.BMC.Address = fmt.Sprintf("redfish-virtualmedia://198.51.%d.%d/redfish/v1/Systems/1", i/256, i%256)
	h.Spec.BMC.CredentialsName = hostName(i)
	return h
}

// benchOperatorDiscover measures how long unknown machines that are powered on at the same time
// take to become available hosts, with the engine, the operator and the simulator on this computer.
// It also measures what the hosts cost when nothing happens afterwards.
func benchOperatorDiscover(ctx context.Context, b *bench) (err error) {
	c, err := b.startCluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	d, err := b.startDiscovery(ctx, c)
	if err != nil {
		return err
	}
	defer d.kill()
	before, err := c.writes(ctx)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	begun := time.Now()
	if err := d.powerOn(b, machineCount); err != nil {
		return err
	}
	if err := d.operator.awaitAvailable(waiting, machineCount); err != nil {
		return err
	}
	took := time.Since(begun)
	calls, err := d.calls(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d unknown machines powered on at once", machineCount)
	if err := b.addOperator(ctx, c, d.operator, operatorRun{what: what, took: took, within: 40, before: before, writes: 4, events: 1}); err != nil {
		return err
	}
	b.add(figure{name: what + ": calls of the engine for each, apart from lists", value: calls.single / machineCount, unit: "calls", target: 6, best: least})
	return b.watchIdle(ctx, c, d.operator, fmt.Sprintf("idle with %d hosts", machineCount), d.calls)
}

// discoveryProcesses are the processes that turn machines into hosts.
type discoveryProcesses struct {
	engine        *engine
	engineMetrics string // URL
	operator      *operatorProcess
	sim           *process.Process
}

func (d *discoveryProcesses) kill() {
	if d.sim != nil {
		d.sim.Kill()
	}
	if d.operator != nil {
		d.operator.Kill()
	}
	d.engine.Kill()
}

// startDiscovery starts an engine and an operator, which may have further arguments, and enables
// discovery.
func (b *bench) startDiscovery(ctx context.Context, c *cluster, operator ...string) (*discoveryProcesses, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	d := &discoveryProcesses{engineMetrics: "http://" + address + "/metrics"}
	d.engine, err = b.startEngine(ctx, "discover", "--set", "api.metrics_listen="+address,
		"--set", "inspector.require_managed_boot=false", "--set", "inspector.loopback_networks="+agentNetwork)
	if err != nil {
		return nil, err
	}
	if d.operator, err = b.startOperator(c, append(operator, "--engine", "http://"+d.engine.address)...); err != nil {
		d.kill()
		return nil, err
	}
	all := &discoveryv1.BareMetalHostDiscovery{ObjectMeta: metav1.ObjectMeta{Namespace: hostNamespace, Name: "all"}}
	all.Spec.ResourceNameTemplate = discoveryv1.ResourceNameTemplate{Prefix: "node-", HardwareDetails: discoveryv1.DetailSerialNumber}
	all.Spec.PollInterval = metav1.Duration{Duration: operatorPoll}
	if err := c.client.Create(ctx, all); err != nil {
		d.kill()
		return nil, fmt.Errorf("create discovery: %w", err)
	}
	return d, nil
}

// powerOn powers on this many machines.
func (d *discoveryProcesses) powerOn(b *bench, machines int) (err error) {
	d.sim, err = b.startProcess("sim", "sim", "--machines", strconv.Itoa(machines), "--rate", "0",
		"--engine", "http://"+d.engine.address, "--listen", agentNetwork)
	return err
}

// engineCalls counts the requests of the operator that an engine has answered.
type engineCalls struct{ lists, single float64 }

// calls reads the counts of the engine. The requests of machines have other routes.
func (d *discoveryProcesses) calls(ctx context.Context) (engineCalls, error) {
	samples, err := scrape(ctx, http.DefaultTransport, d.engineMetrics, "ingot_api_requests_total")
	var calls engineCalls
	for _, s := range samples {
		route := s.labels["route"]
		switch {
		case s.labels["method"] == http.MethodGet && slices.Contains([]string{"/v1/nodes", "/v1/ports"}, route):
			calls.lists += s.value
		case strings.HasPrefix(route, "/v1/nodes"), strings.HasPrefix(route, "/v1/ports"):
			calls.single += s.value
		}
	}
	return calls, err
}

// watchIdle measures what an operator costs while nothing happens. calls reads the counts of its
// engine; nil means that the engine has none.
func (b *bench) watchIdle(ctx context.Context, c *cluster, o *operatorProcess, what string, calls func(context.Context) (engineCalls, error)) error {
	if calls == nil {
		calls = func(context.Context) (engineCalls, error) { return engineCalls{}, nil }
	}
	read := func() (w written, e engineCalls, cpu time.Duration, err error) {
		w, err = c.writes(ctx)
		if err == nil {
			e, err = calls(ctx)
		}
		if err == nil {
			cpu, err = o.CPU()
		}
		return w, e, cpu, err
	}
	writes, asked, cpu, err := read()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleTime):
	}
	laterWrites, laterAsked, laterCPU, err := read()
	if err != nil {
		return err
	}
	cost, intervals := laterWrites.minus(writes), float64(idleTime/operatorPoll)
	b.add(figure{name: what + ": writes in 30 s, apart from leases", value: cost.objects + cost.firmware + cost.events + cost.discoveries, unit: "writes", target: noMore, best: least})
	if laterAsked.lists > 0 {
		// A page has a hundred nodes, and the changes may fill more than one page.
		b.add(figure{name: what + ": pages of lists of the engine in each poll", value: (laterAsked.lists - asked.lists) / intervals, unit: "pages", target: 2, best: least})
		b.add(figure{name: what + ": other calls of the engine in 30 s", value: laterAsked.single - asked.single, unit: "calls", target: noMore, best: least})
	}
	b.add(figure{name: what + ": operator's share of one core", value: 100 * (laterCPU - cpu).Seconds() / idleTime.Seconds(), unit: "%"})
	return nil
}

// noMore is a target that only zero meets. A target of zero would mean that there is none.
const noMore = 1e-9
