package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgram unmaps the pages of the program's file that are in memory. The start of the
// program runs code of every linked package, which leaves 40 MB mapped. The process maps again from
// the page cache what it needs later.
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

// unchangedMappings returns the mappings of a file that a process cannot write and of which it
// holds no page of its own. Unmapping a relocated or patched page would lose the change. smaps is
// the text of /proc/PID/smaps (proc_pid_smaps(5)).
func unchangedMappings(smaps io.Reader, path string) ([]mapping, error) {
	var found []mapping
	var m mapping
	ofFile := false // whether the fields that follow are of a read-only mapping of the file
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
