package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/test/process"
)

// upMachines is how many machines are powered on at once in `ingot up`.
const upMachines = 100

// upNetwork is the network on which their agents answer. It differs from that of an `ingot up` that
// may run beside the bench.
const upNetwork = "127.48.0.0/16"

// kubectlPause is the pause between two runs of kubectl. Each run takes a fifth of a second of CPU
// time.
const kubectlPause = 500 * time.Millisecond

// beforePowerOn is the start of the last line that `ingot up` writes before it powers the machines
// on.
const beforePowerOn = "\nDiscovery "

// benchUp measures how long unknown machines take to become available hosts, as kubectl shows them,
// with everything on this computer.
func benchUp(ctx context.Context, b *bench) error {
	assets, err := controlplane.AssetsDir()
	if err != nil {
		return err
	}
	data := filepath.Join(b.folder, "up")
	p, err := b.startProcess("up", "up", "--machines", strconv.Itoa(upMachines), "--data", data,
		"--listen", "127.0.0.1:0", "--network", upNetwork)
	if err != nil {
		return err
	}
	hosts := kubectl{program: filepath.Join(assets, "kubectl"), config: filepath.Join(data, "kubeconfig")}
	took, err := timeToAvailable(ctx, p, hosts)
	if err := errors.Join(err, p.Stop(30*time.Second)); err != nil {
		return err
	}
	b.add(figure{
		name:  fmt.Sprintf("%d machines powered on at once: available in kubectl", upMachines),
		value: took.Seconds(), unit: "s", target: 30, best: least,
	})
	return nil
}

// timeToAvailable returns how long after power on all machines are available hosts. It fails if
// there are more hosts than machines.
func timeToAvailable(ctx context.Context, p *process.Process, hosts kubectl) (time.Duration, error) {
	whileRunning := func(done func() (bool, error)) func() (bool, error) {
		return func() (bool, error) {
			if p.Ended() {
				return false, p.Failure()
			}
			return done()
		}
	}
	err := poll(ctx, enginePause, whileRunning(func() (bool, error) {
		output, err := os.ReadFile(p.Log)
		return bytes.Contains(output, []byte(beforePowerOn)), err
	}))
	if err != nil {
		return 0, fmt.Errorf("wait for machines to be powered on: %w", err)
	}
	start := time.Now()
	var states map[string]int
	err = poll(ctx, kubectlPause, whileRunning(func() (bool, error) {
		states, err = hosts.states(ctx)
		return states["available"] >= upMachines, err
	}))
	if err != nil {
		return 0, fmt.Errorf("wait for %d available hosts, last seen %v: %w", upMachines, states, err)
	}
	took := time.Since(start)
	// If a machine gets a second host, it does so at the next poll.
	const pollInterval = 5 * time.Second
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(2 * pollInterval):
	}
	if states, err = hosts.states(ctx); err != nil {
		return 0, err
	}
	if len(states) != 1 || states["available"] != upMachines {
		return 0, fmt.Errorf("%d machines became the hosts %v", upMachines, states)
	}
	return took, nil
}

// kubectl is the client that counts the hosts.
type kubectl struct{ program, config string }

// states counts the hosts by their provisioning state.
func (k kubectl) states(ctx context.Context) (map[string]int, error) {
	cmd := exec.CommandContext(ctx, k.program, "--kubeconfig", k.config, "get", "bmh", "--all-namespaces", "-o", "json") //nolint:gosec // the control plane's own kubectl
	output, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return nil, fmt.Errorf("kubectl get bmh: %w", err)
	}
	var list struct {
		Items []struct {
			Status struct {
				Provisioning struct {
					State string `json:"state"`
				} `json:"provisioning"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := json.Unmarshal(output, &list); err != nil {
		return nil, fmt.Errorf("read output of kubectl get bmh: %w", err)
	}
	states := map[string]int{}
	for _, host := range list.Items {
		states[host.Status.Provisioning.State]++
	}
	return states, nil
}
