package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	// probeInterval is how often a starting program is asked whether it is ready.
	probeInterval = 50 * time.Millisecond
	// stopGrace is how long a program may take to end by itself. The API server
	// and etcd take up to 2 s each.
	stopGrace = 10 * time.Second
	// collectAt is by how many percent the heap of a program grows before garbage is collected,
	// unless GOGC is set: kube-apiserver allocates much and keeps little of it.
	collectAt = "300"
)

// process is one program of the control plane, running as a child.
type process struct {
	name    string
	logFile string
	cmd     *exec.Cmd
	done    chan struct{} // closed when the program has ended
	err     error         // how it ended; read it after done
}

// startProcess runs a program. Its output replaces the content of logFile. The child gets only two
// parts of this process's environment: the search paths, and how often Go collects garbage. From
// other variables, etcd would read settings.
func startProcess(path, logFile string, args ...string) (*process, error) {
	name := filepath.Base(path)
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", name, err)
	}
	defer out.Close() // the child has its own descriptor

	cmd := exec.Command(path, args...) //nolint:gosec,noctx // the caller's program; it outlives the context of its start
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttr()
	cmd.Env = []string{"GOGC=" + cmp.Or(os.Getenv("GOGC"), collectAt)}
	for _, key := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(key); ok {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
	}
	p := &process{name: name, logFile: logFile, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// run starts the program and waits for its end. It stays on one thread, because the kernel's
// parent-death signal fires when that thread ends, and Go may end a thread that no goroutine is
// locked to (https://go.dev/issue/27505).
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// waitReady returns when probe succeeds. It gives up when the program or ctx ends. The error says
// which of the two ended, and why.
func (p *process) waitReady(ctx context.Context, probe func(context.Context) error) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.failure()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s, whose output is in %s: %w (last answer: %w)",
				p.name, p.logFile, context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// failure describes the unexpected end of a program.
func (p *process) failure() error {
	end := errors.New("ended unasked")
	if p.err != nil {
		end = p.err
	}
	output, err := os.ReadFile(p.logFile)
	if err != nil {
		return fmt.Errorf("run %s: %w (its output is lost: %w)", p.name, end, err)
	}
	return fmt.Errorf("run %s: %w: %s (all output is in %s)", p.name, end, lastError(output), p.logFile)
}

// stop asks the program to end, and kills it after grace. It returns after the program has ended.
func (p *process) stop(grace time.Duration) error {
	// Signalling a program that has already ended fails, which is fine.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
	}
	p.kill()
	return fmt.Errorf("stop %s: killed, because it did not end within %s", p.name, grace)
}

// kill ends the program at once and returns after it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}
