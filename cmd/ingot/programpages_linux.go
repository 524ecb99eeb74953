package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgram unmaps the pages of the program's file that are in memory: its start runs
// code of every package that it is linked from, which leaves 40 MB mapped. What the
// process needs again, it maps again from the page cache as it goes.
func releaseProgram() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer file.Close()
	mappings, err := unchangedMappings(file, program)
	if err != nil {
		return err
	}
	for _, m := range mappings {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED); errno != 0 {
			return os.NewSyscallError("madvise", errno)
		}
	}
	return nil
}

// mapping is a range of addresses of the process.
type mapping struct{ start, end uintptr }

// unchangedMappings returns the mappings of a file that a process cannot write and of
// which it holds no page of its own: a relocated or patched page would be lost. The text
// is that of /proc/PID/smaps (proc_pid_smaps(5)).
func unchangedMappings(smaps io.Reader, path string) ([]mapping, error) {
	var found []mapping
	var m mapping
	ofFile := false // the mapping whose fields are read is one of the file, read-only
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"):
			if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.start, &m.end); err != nil {
				return nil, fmt.Errorf("read smaps: %w", err)
			}
			ofFile = len(fields) == 6 && fields[5] == path && !strings.Contains(fields[1], "w")
		case ofFile && len(fields) >= 2 && fields[0] == "Anonymous:" && fields[1] == "0":
			found = append(found, m)
		}
	}
	return found, lines.Err()
}
