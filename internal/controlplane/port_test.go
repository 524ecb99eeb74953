package controlplane

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestChoosePort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy := l.Addr().(*net.TCPAddr).Port
	free, err := freePort(0)
	if err != nil {
		t.Fatal(err)
	}

	_, err = choosePort(busy, free)
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(busy)) {
		t.Errorf("a wanted busy port: error = %v, want one that names port %d", err, busy)
	}
	if got, err := choosePort(0, free); err != nil || got != free {
		t.Errorf("with a free last port: %d, %v, want %d", got, err, free)
	}
	if got, err := choosePort(0, busy); err != nil || got == busy || got == 0 {
		t.Errorf("with a busy last port: %d, %v, want another one", got, err)
	}
}

func TestStartOnPortTriesAnotherPortWhenOneWasTaken(t *testing.T) {
	taken := errors.New("run etcd: exit status 1: listen tcp 127.0.0.1:1: bind: address already in use")
	other := errors.New("run etcd: exit status 1: out of luck")
	for name, tc := range map[string]struct {
		outcomes  []error // of the programs, one after the other
		wantPorts []int
		wantErr   error
	}{
		"free":        {[]error{nil}, []int{1}, nil},
		"taken once":  {[]error{taken, nil}, []int{1, 2}, nil},
		"other error": {[]error{other, nil}, []int{1}, other},
		"given up":    {[]error{taken, taken, taken, taken, taken, nil}, []int{1, 2, 3, 4, 5}, taken},
	} {
		t.Run(name, func(t *testing.T) {
			c := &ControlPlane{}
			var ports []int
			choose := func() (int, error) { return len(ports) + 1, nil }
			port, err := c.startOnPort(choose, func(port int) error {
				c.processes = append(c.processes, &process{})
				ports = append(ports, port)
				return tc.outcomes[len(ports)-1]
			})
			if !errors.Is(err, tc.wantErr) {
				t.Errorf("error = %v, want %v", err, tc.wantErr)
			}
			if !slices.Equal(ports, tc.wantPorts) {
				t.Errorf("ports tried = %v, want %v", ports, tc.wantPorts)
			}
			if last := ports[len(ports)-1]; err == nil && port != last {
				t.Errorf("port = %d, want %d", port, last)
			}
			if len(c.processes) != 1 {
				t.Errorf("%d programs are watched, want the last one only", len(c.processes))
			}
		})
	}
}
