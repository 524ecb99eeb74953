package pxefilter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// server is the dnsmasq that reads the folder. It notices new and changed files by itself. Only
// SIGHUP makes it forget the content of deleted files and of earlier versions of files.
type server struct {
	pidFile string // empty if pid is set, or if the process is not known
	pid     int
	signal  func(pid int, s syscall.Signal) error
	proc    string // the folder /proc
}

// known reports whether the options say which process dnsmasq is.
func (s server) known() bool { return s.pidFile != "" || s.pid != 0 }

// errNotRunning means that there is no such process. dnsmasq reads the folder when it starts, so
// nothing is lost.
var errNotRunning = errors.New("dnsmasq is not running")

// reload makes dnsmasq read the folder again. It signals only a process named dnsmasq, because the
// number in an old file may belong to another process now.
func (s server) reload() error {
	pid, err := s.find()
	if err != nil {
		return err
	}
	name, err := os.ReadFile(filepath.Join(s.proc, strconv.Itoa(pid), "comm"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: there is no process %d", errNotRunning, pid)
	case err != nil:
		return fmt.Errorf("check whether process %d is dnsmasq: %w", pid, err)
	case strings.TrimSpace(string(name)) != "dnsmasq":
		return fmt.Errorf("%w: process %d is %s", errNotRunning, pid, strings.TrimSpace(string(name)))
	}
	switch err := s.signal(pid, syscall.SIGHUP); {
	case errors.Is(err, syscall.ESRCH):
		return fmt.Errorf("%w: there is no process %d", errNotRunning, pid)
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("send SIGHUP to dnsmasq, process %d: %w: run this as the same user, as root or with CAP_KILL", pid, err)
	case err != nil:
		return fmt.Errorf("send SIGHUP to dnsmasq, process %d: %w", pid, err)
	}
	return nil
}

// find returns the number of the process.
func (s server) find() (int, error) {
	if s.pidFile == "" {
		return s.pid, nil
	}
	text, err := os.ReadFile(s.pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w: there is no file %s", errNotRunning, s.pidFile)
	}
	if err != nil {
		return 0, fmt.Errorf("find dnsmasq: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 1 {
		return 0, fmt.Errorf("find dnsmasq: %s holds no process number", s.pidFile)
	}
	return pid, nil
}
