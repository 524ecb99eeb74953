package controlplane

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// portAttempts is on how many ports a program is tried.
const portAttempts = 5

// choosePort returns the wanted port, or an error if it is taken. If wanted is 0, it returns the
// last port if that is free, else any free port.
func choosePort(wanted, last int) (int, error) {
	if wanted != 0 {
		port, err := freePort(wanted)
		if err != nil {
			return 0, fmt.Errorf("%w; free the port or choose another one", err)
		}
		return port, nil
	}
	if port, err := freePort(last); err == nil {
		return port, nil
	}
	return freePort(0)
}

// freePort checks that nothing listens on a loopback port; 0 requests any free port. The port is
// free when freePort returns, but another program may take it before it is used.
func freePort(port int) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port))) //nolint:noctx // does not wait
	if err != nil {
		return 0, err // names the address and the reason
	}
	port = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("close probe of port %d: %w", port, err)
	}
	return port, nil
}

// portTaken reports whether a program ended because its port was not free. The programs quote the
// operating system's message.
func portTaken(err error) bool {
	return strings.Contains(err.Error(), syscall.EADDRINUSE.Error())
}
