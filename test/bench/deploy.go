package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// deployments is how many machines get an image at the same time.
	deployments = 1000
	// deploySpeed is how much faster than usual the agents of the machines work and wait.
	deploySpeed = 20
	// deployTimeout bounds the whole section.
	deployTimeout = 10 * time.Minute
)

// deployLimits let the engine work on all machines at the same time.
var deployLimits = append([]string{
	"--set", "inspector.require_managed_boot=false", "--set", "agent.verify_callback_address=false",
	"--set", "conductor.max_deploying=" + strconv.Itoa(deployments), "--set", syncOff,
}, redfishOnly...)

// benchDeploy measures how long an engine takes to deploy an image to many machines at the same
// time, with Redfish BMCs over verified TLS, and how much memory that needs. The machines are in
// another process. Their agents download, verify and write the image.
func benchDeploy(ctx context.Context, b *bench) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deployTimeout, fmt.Errorf("%d deployments took longer than %s", deployments, deployTimeout))
	defer cancel()
	e, err := b.startEngine(ctx, "deploy", deployLimits...)
	if err != nil {
		return err
	}
	defer e.Kill()
	m, err := b.startBMCs(ctx, "deploy-machines", deployments, "--engine", "http://"+e.address, "--speed", strconv.Itoa(deploySpeed))
	if err != nil {
		return err
	}
	defer m.Kill()
	image, err := serveImage(ctx)
	if err != nil {
		return err
	}
	defer image.close()
	nodes, err := e.registerMachines(ctx, m, image)
	if err != nil {
		return err
	}
	return b.measureDeployments(ctx, e, nodes)
}

// registerMachines creates a node for each machine and makes it available.
func (e *engine) registerMachines(ctx context.Context, m *bmcs, image servedImage) ([]string, error) {
	found, err := m.read(ctx, deployments)
	if err != nil {
		return nil, err
	}
	nodes, _, err := e.createNodes(ctx, deployments, func(i int) []byte {
		return fmt.Appendf(nil, `{"driver":"redfish","inspect_interface":"no-inspect","automated_clean":false,"driver_info":%s,
			"instance_info":{"image_source":%q,"image_disk_format":"raw","image_os_hash_algo":"sha256","image_os_hash_value":%q}}`,
			m.driverInfo(found[i]), image.url, image.checksum)
	})
	if err != nil {
		return nil, err
	}
	if _, err := e.load(ctx, apiClients, deployments, func(c *client, i int) error {
		return c.want(http.StatusCreated, http.MethodPost, "/v1/ports", fmt.Appendf(nil, `{"node_uuid":%q,"address":%q}`, nodes[i], found[i].MAC))
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

// request asks for a verb on every node and waits until all nodes are in a state.
func (e *engine) request(ctx context.Context, nodes []string, verb, state string) (storm, error) {
	return e.load(ctx, apiClients, len(nodes), func(c *client, i int) error {
		return c.want(http.StatusAccepted, http.MethodPut, "/v1/nodes/"+nodes[i]+"/states/provision", fmt.Appendf(nil, `{"target":%q}`, verb))
	}, func(ctx context.Context, c *client) error { return allIn(ctx, c, len(nodes), state) })
}

// allIn waits until this many nodes are in a state. A node that has failed ends the wait with an
// error.
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

// servedImage is an image to deploy, with its server.
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
