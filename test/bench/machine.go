package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// describeMachine returns a line or two about the computer on which the figures were measured: the
// same engine has other figures on another disk.
func describeMachine(folder string) (string, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return "", fmt.Errorf("look at the disk below %s: %w", folder, err)
	}
	const tmpfs = 0x01021994 // statfs(2)
	if fs.Type == tmpfs {
		return "", fmt.Errorf("%s is in memory, where durability costs nothing: choose a folder on a disk with -dir", folder)
	}
	sync, err := syncTime(folder)
	if err != nil {
		return "", err
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "", fmt.Errorf("read kernel version: %w", err)
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", fmt.Errorf("read load: %w", err)
	}
	return fmt.Sprintf("%d CPUs (%s), Linux %s, %s\nload average before %s, fdatasync of 8 kB in %.2f ms (median)\n",
		runtime.NumCPU(), processor(), strings.TrimSpace(string(kernel)), runtime.Version(),
		strings.Join(strings.Fields(string(load))[:3], " "), milliseconds(sync)), nil
}

// processor returns the name of the CPU.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// syncTime measures how long the disk takes to make 8 kB durable that were appended to a file.
func syncTime(folder string) (time.Duration, error) {
	path := filepath.Join(folder, "sync")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, fmt.Errorf("measure the disk: %w", err)
	}
	defer func() { _ = os.Remove(path) }()
	defer file.Close()
	times := make([]time.Duration, 50)
	block := make([]byte, 8<<10)
	for i := range times {
		if _, err := file.Write(block); err != nil {
			return 0, fmt.Errorf("measure the disk: %w", err)
		}
		start := time.Now()
		if err := syscall.Fdatasync(int(file.Fd())); err != nil {
			return 0, fmt.Errorf("measure the disk: %w", err)
		}
		times[i] = time.Since(start)
	}
	return median(times), nil
}
