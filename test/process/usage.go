package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc (USER_HZ). It is the same on every architecture on which
// Go runs Linux.
const tick = 10 * time.Millisecond

// CPU returns how much CPU time the process has used so far.
func (p *Process) CPU() (time.Duration, error) {
	stat, err := os.ReadFile(p.proc("stat"))
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	return parseCPU(string(stat))
}

// parseCPU reads user and system time from /proc/PID/stat (proc(5)). The name of the program, which
// is in parentheses, may have spaces.
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
	return time.Duration(ticks) * tick, nil
}

// Memory returns the resident memory of the process now and at its peak, in bytes.
func (p *Process) Memory() (now, peak int64, err error) {
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
