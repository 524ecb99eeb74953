package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is the measured program running as a child of this one.
type process struct {
	log     string // file with its output
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
	started time.Time     // just before the program was executed
}

// startProcess executes the program. Its output is added to NAME.log in the
// bench's folder.
func (b *bench) startProcess(name string, args ...string) (*process, error) {
	p := &process{log: filepath.Join(b.folder, name+".log"), done: make(chan struct{})}
	output, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of ingot %s: %w", args[0], err)
	}
	defer output.Close()                     // the child has its own descriptor
	p.cmd = exec.Command(b.program, args...) //nolint:gosec,noctx // our own program; kill ends it
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", b.program, err)
	}
	return p, nil
}

// run starts the program and waits for its end on one thread, because the
// kernel sends the parent-death signal when the thread that started it ends.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.started = time.Now()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // programs that are killed end with an error
	close(p.done)
}

// failure describes the unexpected end of a program.
func (p *process) failure() error {
	output, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Errorf("ingot ended too early: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return fmt.Errorf("ingot ended too early: %s", lines[len(lines)-1])
}

// kill ends the program as a power cut would end the process, and returns after
// it has ended.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill ingot: %w", err)
	}
	<-p.done
	return nil
}

// cpuTick is the unit of CPU times in /proc, USER_HZ, which is the same on every
// architecture that Go runs Linux on.
const cpuTick = 10 * time.Millisecond

// cpu returns how much CPU time the program has used so far.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(p.proc("stat"))
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
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

// memory returns the program's resident memory now and at its peak, in bytes.
func (p *process) memory() (now, peak int64, err error) {
	status, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return 0, 0, fmt.Errorf("read memory: %w", err)
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
	return 0, fmt.Errorf("read memory: no %s", key)
}

func (p *process) proc(file string) string {
	return filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), file)
}
