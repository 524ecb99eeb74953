//go:build fault

package fault_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// process is a run of the program under test.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// launch runs the program, which adds to a log. It ends with the tests, however they
// end: the kernel kills a child when the thread that started it does.
func launch(log string, environ []string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(binary, args...), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append(os.Environ(), environ...), out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	launched := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer out.Close()
		err := p.cmd.Start()
		launched <- err
		if err == nil {
			_ = p.cmd.Wait() // tests kill it
			close(p.done)
		}
	}()
	return p, <-launched
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// ended reports whether the process is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the process at once and returns when it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// freeAddress returns an address of this machine on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

// names returns count names that begin with prefix.
func names(prefix string, count int) []string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprint(prefix, "-", i)
	}
	return list
}

// eventually polls until condition holds.
func eventually(t *testing.T, within time.Duration, what string, condition func() bool) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(within)
	for !condition() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("gave up after %v waiting for %s", within, what)
		}
	}
}
