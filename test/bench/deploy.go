package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/test/process"
)

const (
	// deployments is how many machines get an image at once.
	deployments = 1000
	// deploySpeed is how much faster than usual the agents of the machines work and wait.
	deploySpeed = 20
	// deployPatience bounds the whole section.
	deployPatience = 10 * time.Minute
)

// Where the machines and their BMCs are: not where those of `ingot sim` and `ingot up`
// are that somebody may have running beside the bench.
const (
	deployNetwork    = "127.49.0.0/16"
	deployBMCNetwork = "127.50.0.0/16"
)

// deployLimits let the engine work on all machines at once.
var deployLimits = []string{
	"--set", "driver.enabled_hardware_types=redfish", "--set", "inspector.require_managed_boot=false",
	"--set", "agent.verify_callback_address=false", "--set", "conductor.max_deploying=" + strconv.Itoa(deployments),
	"--set", syncOff, "--set", "auto_discovery.enabled=false",
}

// benchDeploy measures how long an engine takes to deploy an image to machines with
// Redfish BMCs at once, over verified TLS, and how much memory that needs. The machines
// are in another process; their agents download, verify and write the image.
func benchDeploy(ctx context.Context, b *bench) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deployPatience, fmt.Errorf("%d deployments took longer than %s", deployments, deployPatience))
	defer cancel()
	e, err := b.startEngine(ctx, "deploy", deployLimits...)
	if err != nil {
		return err
	}
	defer e.Kill()
	admin, err := process.FreeAddress()
	if err != nil {
		return err
	}
	authority := filepath.Join(b.folder, "deploy-bmcs.pem")
	p, err := b.startProcess("deploy-machines", "sim", "--machines", strconv.Itoa(deployments), "--engine", "http://"+e.address,
		"--listen", deployNetwork, "--speed", strconv.Itoa(deploySpeed), "--admin", admin, "--off",
		"--bmc", "mixed", "--bmc-network", deployBMCNetwork, "--bmc-ipmi-port", "0", "--bmc-ca-file", authority)
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := awaitFirst(ctx, p, admin, "/machines"); err != nil {
		return fmt.Errorf("wait for the machines: %w", err)
	}
	image, err := serveImage(ctx)
	if err != nil {
		return err
	}
	defer image.close()
	if authority, err = filepath.Abs(authority); err != nil {
		return err
	}
	nodes, err := e.registerMachines(ctx, admin, authority, image)
	if err != nil {
		return err
	}
	return b.measureDeployments(ctx, e, nodes)
}

// registerMachines creates a node for each machine and makes it available.
func (e *engine) registerMachines(ctx context.Context, admin, authority string, image servedImage) ([]string, error) {
	machines, err := dial(ctx, admin)
	if err != nil {
		return nil, err
	}
	defer machines.close()
	macs, bodies := make([]string, deployments), make([][]byte, deployments)
	for i := range bodies {
		var m struct {
			URL string `json:"url"`
			MAC string `json:"boot_mac"`
		}
		if err := machines.readJSON("/machines/"+strconv.Itoa(i), &m); err != nil {
			return nil, err
		}
		macs[i] = m.MAC
		bodies[i] = fmt.Appendf(nil, `{"driver":"redfish","inspect_interface":"no-inspect","automated_clean":false,
			"driver_info":{"redfish_address":%q,"redfish_username":"root","redfish_password":"calvin","redfish_verify_ca":%q},
			"instance_info":{"image_source":%q,"image_disk_format":"raw","image_os_hash_algo":"sha256","image_os_hash_value":%q}}`,
			m.URL, authority, image.url, image.checksum)
	}
	nodes, _, err := e.createNodes(ctx, deployments, func(i int) []byte { return bodies[i] })
	if err != nil {
		return nil, err
	}
	if _, err := e.load(ctx, apiClients, deployments, func(c *client, i int) error {
		return c.want(http.StatusCreated, http.MethodPost, "/v1/ports", fmt.Appendf(nil, `{"node_uuid":%q,"address":%q}`, nodes[i], macs[i]))
	}, nil); err != nil {
		return nil, err
	}
	for _, step := range []struct{ verb, state string }{{"manage", "manageable"}, {"provide", "available"}} {
		if _, err := e.request(ctx, nodes, step.verb, step.state); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// request asks for a verb of every node and waits until all are in a state.
func (e *engine) request(ctx context.Context, nodes []string, verb, state string) (storm, error) {
	return e.load(ctx, apiClients, len(nodes), func(c *client, i int) error {
		return c.want(http.StatusAccepted, http.MethodPut, "/v1/nodes/"+nodes[i]+"/states/provision", fmt.Appendf(nil, `{"target":%q}`, verb))
	}, func(ctx context.Context, c *client) error { return allIn(ctx, c, len(nodes), state) })
}

// allIn waits until so many nodes are in a state. One that failed ends the wait.
func allIn(ctx context.Context, c *client, count int, state string) error {
	return poll(ctx, 20*enginePause, func() (bool, error) {
		arrived := 0
		var list struct {
			Nodes []struct {
				State string `json:"provision_state"`
				Error string `json:"last_error"`
			} `json:"nodes"`
		}
		if err := c.readJSON("/v1/nodes?fields=provision_state,last_error&limit="+strconv.Itoa(count), &list); err != nil {
			return false, err
		}
		for _, n := range list.Nodes {
			if strings.HasSuffix(n.State, "failed") {
				return false, fmt.Errorf("a node is in %q: %s", n.State, n.Error)
			}
			if n.State == state {
				arrived++
			}
		}
		return arrived == count, nil
	})
}

func (b *bench) measureDeployments(ctx context.Context, e *engine, nodes []string) error {
	deployed, err := e.request(ctx, nodes, "active", "active")
	if err != nil {
		return err
	}
	memory, peak, err := e.Memory()
	if err != nil {
		return err
	}
	b.add(figure{
		name: fmt.Sprintf("%d machines deployed at once, their agents %d times faster than usual", deployments, deploySpeed), value: deployed.took.Seconds(), unit: "s",
		cpu: deployed.cpu.Seconds() * 1000 / deployments,
	})
	b.add(figure{name: "  resident memory then", value: megabytes(memory), unit: "MB"})
	b.add(figure{name: "  at its peak", value: megabytes(peak), unit: "MB", target: 200, best: least})
	return nil
}

// servedImage is an image that machines boot from, with its server.
type servedImage struct {
	url, checksum string
	close         func()
}

// serveImage serves an image of one MiB with a boot sector.
func serveImage(ctx context.Context) (servedImage, error) {
	content := make([]byte, 1<<20)
	content[510], content[511] = 0x55, 0xaa
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return servedImage{}, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(content) // the client may be gone
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	return servedImage{
		url: "http://" + listener.Addr().String() + "/image.raw", checksum: fmt.Sprintf("%x", sha256.Sum256(content)),
		close: func() {
			if err := errors.Join(server.Close(), <-ended); err != nil && !errors.Is(err, http.ErrServerClosed) {
				fmt.Println("serve the image:", err)
			}
		},
	}, nil
}
