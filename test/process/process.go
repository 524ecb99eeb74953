// Package process builds ingot and runs programs for tests and benchmarks. Each program is a child
// process that ends with its parent, and whose CPU time and memory can be read.
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

// Build builds the ingot of a work tree into the file program. dir is any folder of the work tree,
// and a relative path of program begins there. flags are flags of go build.
func Build(ctx context.Context, dir, program string, flags ...string) error {
	args := append([]string{"build", "-o", program}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/ingot-metal/ingot/cmd/ingot")...) //nolint:gosec // a path of the caller's own
	cmd.Dir = dir
	// Without cgo, tests with the race detector use the same build: the program has no race detector.
	if !strings.Contains(os.Getenv("GOFLAGS"), "-race") {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build ingot in %q: %w\n%s", dir, err, output)
	}
	return nil
}

// Process is a program that runs as a child of this process. It has a process group of its own, and
// signals go to the whole group. It is safe for concurrent use.
type Process struct {
	PID     int
	Log     string    // file with its output
	Started time.Time // just before the program was executed

	done chan struct{} // closed when the process has ended
	err  error         // how it ended; set before done is closed
}

// Start runs a command and adds its output to the file log. The command ends with this process,
// even if this process is killed: the kernel kills the child when the thread that started it ends.
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

// run starts the command and waits for its end on one thread: Go may end a thread to which no
// goroutine is locked (https://go.dev/issue/27505), and that would kill the child.
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

// Done returns a channel that is closed when the process has ended.
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
		_ = syscall.Kill(-p.PID, s) // an error does not matter: the process may end right now
	}
}

// Kill ends the process as a power cut would, and returns when it has ended.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Stop asks the process to end, and kills it if it does not end in time. It returns when the
// process has ended. The error says that the process did not end in time, or ended with a failure.
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

// Failure returns the error for a process that ended although it should not have. It waits for the
// end, and the error has the last line of the output.
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
// those that Linux gives to connections, so that it is still free when a program is started again.
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
