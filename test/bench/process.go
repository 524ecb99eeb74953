package main

import (
	"context"
	"errors"
	"fmt"
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

// engine is an `ingot engine` that runs as a child of this process.
type engine struct {
	address string // host:port
	log     string // file with its output
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
	started time.Time     // just before the program was executed
	ready   time.Duration // from started to the first 200
}

// discovery is the only configuration that differs from the default: without it
// an engine enrols nobody.
var discovery = []string{"--set", "auto_discovery.enabled=true", "--set", "auto_discovery.driver=manual-management"}

// startEngine runs an engine on a data folder below the bench's and returns after
// its first answer.
func (b *bench) startEngine(ctx context.Context, data string) (*engine, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	e := &engine{
		address: address,
		log:     filepath.Join(b.folder, data+".log"),
		done:    make(chan struct{}),
	}
	output, err := os.OpenFile(e.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of engine: %w", err)
	}
	defer output.Close() // the child has its own descriptor
	args := append([]string{"engine", "--data", filepath.Join(b.folder, data), "--listen", address}, discovery...)
	e.cmd = exec.Command(b.program, args...) //nolint:gosec,noctx // our own program; stop and kill end it
	e.cmd.Stdout, e.cmd.Stderr = output, output
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	result := make(chan error)
	go e.run(result)
	if err := <-result; err != nil {
		return nil, fmt.Errorf("start %s: %w", b.program, err)
	}
	if err := e.awaitAnswer(ctx); err != nil {
		return nil, errors.Join(err, e.kill())
	}
	return e, nil
}

// run starts the program and waits for its end on one thread, because the
// kernel sends the parent-death signal when the thread that started it ends.
func (e *engine) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e.started = time.Now()
	err := e.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = e.cmd.Wait() // engines that are killed end with an error
	close(e.done)
}

// awaitAnswer asks for the root document until it is there.
func (e *engine) awaitAnswer(ctx context.Context) error {
	const pause = time.Millisecond
	for {
		err := firstAnswer(ctx, e.address)
		if err == nil {
			e.ready = time.Since(e.started)
			return nil
		}
		select {
		case <-e.done:
			output, _ := os.ReadFile(e.log)
			return fmt.Errorf("engine ended before it answered: %s", lastLine(output))
		case <-ctx.Done():
			return fmt.Errorf("wait for the engine's first answer: %w", err)
		case <-time.After(pause):
		}
	}
}

func firstAnswer(ctx context.Context, address string) error {
	c, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer c.close()
	return c.want(200, "GET", "/", nil)
}

// kill ends the engine as a power cut would end the process, and returns after
// it has ended.
func (e *engine) kill() error {
	if err := e.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill engine: %w", err)
	}
	<-e.done
	return nil
}

// cpuTick is the unit of CPU times in /proc, USER_HZ, which is the same on every
// architecture that Go runs Linux on.
const cpuTick = 10 * time.Millisecond

// cpu returns how much CPU time the engine has used so far.
func (e *engine) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(e.proc("stat"))
	if err != nil {
		return 0, fmt.Errorf("read CPU time of engine: %w", err)
	}
	return parseCPU(string(stat))
}

// parseCPU reads user and system time from /proc/PID/stat (proc(5)). The
// program's name, in parentheses, may itself hold spaces.
func parseCPU(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const user, system = 14 - 3, 15 - 3 // counted from the state, which is field 3
	if len(fields) <= system {
		return 0, fmt.Errorf("read CPU time: %d fields in %q", len(fields), stat)
	}
	var ticks int64
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * cpuTick, nil
}

// memory returns the engine's resident memory now and at its peak, in bytes.
func (e *engine) memory() (now, peak int64, err error) {
	status, err := os.ReadFile(e.proc("status"))
	if err != nil {
		return 0, 0, fmt.Errorf("read memory of engine: %w", err)
	}
	if now, err = statusBytes(string(status), "VmRSS:"); err != nil {
		return 0, 0, err
	}
	peak, err = statusBytes(string(status), "VmHWM:")
	return now, peak, err
}

// statusBytes reads a size in kB from /proc/PID/status.
func statusBytes(status, key string) (int64, error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, key); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("read memory of engine: no %s", key)
}

func (e *engine) proc(file string) string {
	return filepath.Join("/proc", strconv.Itoa(e.cmd.Process.Pid), file)
}

// freeAddress returns a loopback address that nobody listens on right now.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1]
}
