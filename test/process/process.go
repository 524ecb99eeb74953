// Package process builds ingot and runs programs for tests and benchmarks: each is a
// child that ends with whoever started it, and whose CPU time and memory can be read.
package process

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Build builds the ingot of a work tree, of which dir is any folder, as the file program.
// A relative path begins in dir. Flags are those of go build.
func Build(ctx context.Context, dir, program string, flags ...string) error {
	args := append([]string{"build", "-o", program}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/ingot-metal/ingot/cmd/ingot")...) //nolint:gosec // a path of the caller's own
	cmd.Dir = dir
	if !strings.Contains(os.Getenv("GOFLAGS"), "-race") { // the program has no race detector, so tests with one use the same build
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build ingot in %q: %w\n%s", dir, err, output)
	}
	return nil
}

// Process is a program that runs as a child of this process, in a group of its own, which
// gets its signals. It is safe for concurrent use.
type Process struct {
	PID     int
	Log     string    // file with its output
	Started time.Time // just before the program was executed

	done chan struct{} // closed when it has ended
	err  error         // how it ended; set before done is closed
}

// Start runs a command, whose output is added to the file log. It ends with this process,
// however that ends: the kernel kills the child when the thread that started it does.
func Start(cmd *exec.Cmd, log string) (*Process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", cmd.Path, err)
	}
	defer output.Close() // the child has its own descriptor
	cmd.Stdout, cmd.Stderr = output, output
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig, cmd.SysProcAttr.Setpgid = syscall.SIGKILL, true
	p := &Process{Log: log, Started: time.Now(), done: make(chan struct{})}
	started := make(chan error)
	go p.run(cmd, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// run starts the command and waits for its end on one thread: Go may end a thread that no
// goroutine is locked to (https://go.dev/issue/27505).
func (p *Process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.PID = cmd.Process.Pid
	started <- nil
	p.err = cmd.Wait()
	close(p.done)
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Signal sends a signal, unless the process has ended.
func (p *Process) Signal(s syscall.Signal) {
	if !p.Ended() {
		_ = syscall.Kill(-p.PID, s) // it may end right now
	}
}

// Kill ends the process as a power cut would, and returns when it has ended.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Stop asks the process to end, kills it if it does not do so in time, and returns when it
// has ended. The error says that it did not end in time, or not well.
func (p *Process) Stop(within time.Duration) error {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		if p.err != nil {
			return p.Failure()
		}
		return nil
	case <-time.After(within):
		p.Kill()
		return fmt.Errorf("process %d did not end within %s of being asked to", p.PID, within)
	}
}

// Failure is how a process ended that should not have, with the last line of its output.
func (p *Process) Failure() error {
	<-p.done
	output, err := os.ReadFile(p.Log)
	if err != nil {
		return err
	}
	end := "exit status 0"
	if p.err != nil {
		end = p.err.Error()
	}
	output = bytes.TrimSpace(output)
	return fmt.Errorf("process %d ended (%s): %s", p.PID, end, output[bytes.LastIndexByte(output, '\n')+1:])
}

// FreeAddress returns a loopback address, host:port, on which nobody listens now. The port is below
// those that Linux gives to connections, so that a program which is started again finds it free again.
func FreeAddress() (string, error) {
	const first, count, attempts = 20000, 12000, 50
	var err error
	for range attempts {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.N(count))) //nolint:gosec // protects nothing
		var listener net.Listener
		if listener, err = new(net.ListenConfig).Listen(context.Background(), "tcp", address); err == nil {
			return address, listener.Close()
		}
	}
	return "", fmt.Errorf("find a free address: %w", err)
}

func (p *Process) proc(file string) string {
	return filepath.Join("/proc", fmt.Sprint(p.PID), file)
}
