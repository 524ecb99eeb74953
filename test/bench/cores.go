package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// cores is how much time the cores of this machine have spent since it started, in ticks, summed
// over all cores.
type cores struct{ idle, all int64 }

func readCores() (cores, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cores{}, fmt.Errorf("read the use of cores: %w", err)
	}
	return parseCores(string(stat))
}

// parseCores reads the first line of /proc/stat (proc(5)): user, nice, system, idle, iowait, irq,
// softirq and steal. The fields after these are the time of guests, which is a part of user. A core
// that waits for a disk is idle.
func parseCores(stat string) (cores, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	const first, idle, wait, last = 1, 4, 5, 8
	if len(fields) <= last || fields[0] != "cpu" {
		return cores{}, fmt.Errorf("read the use of cores: %q is not the sum of all", line)
	}
	var c cores
	for i := first; i <= last; i++ {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return cores{}, fmt.Errorf("read the use of cores: %w", err)
		}
		c.all += ticks
		if i == idle || i == wait {
			c.idle += ticks
		}
	}
	return c, nil
}

// busySince returns the part of the time for which the cores were in use, 0 to 1.
func (c cores) busySince(before cores) float64 {
	all := c.all - before.all
	if all <= 0 {
		return 0
	}
	return 1 - float64(c.idle-before.idle)/float64(all)
}
