// Package firmware finds out what simulated machines boot. It runs iPXE scripts and reads virtual
// media as a machine does, downloads what they name, and returns the parameters of the kernel that
// would be started. It bounds the size of what servers send, the steps and the time. It keeps
// nothing of what it has downloaded.
package firmware

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Action is what a machine does after the attempt to boot from a device.
type Action int

// The actions.
const (
	NextDevice Action = iota // it tries the next device; Result.Reason says why
	StartKernel
	StartDisk // it boots from its disk
	Restart   // it restarts
	Halt      // it waits for a person; Result.Reason says why
)

// Result is the outcome of booting from a device.
type Result struct {
	Action Action
	Reason string
	// Source is the URL from which the kernel came.
	Source string
	// Parameters are those of the kernel, and those on a medium with parameters.
	Parameters map[string]string
}

// Identity is what scripts can read about a machine.
type Identity struct {
	MAC          string // of the interface that boots, in lower case with colons
	UUID         string
	Address      string // IPv4
	Hostname     string
	Serial       string
	Manufacturer string
	Product      string
	Architecture string // as uname -m prints it
	UEFI         bool
}

// Loader boots machines. All machines share one.
type Loader struct {
	client *http.Client
	sleep  func(ctx context.Context, d time.Duration) error
	media  chan struct{} // bounds how many media are kept at the same time
}

// Limits of what servers send.
const (
	maxScript  = 256 << 10 // bytes of one script
	maxConfig  = 256 << 10 // bytes of a boot menu or of a file of parameters
	maxLoaded  = 4 << 30   // bytes of a kernel or a ramdisk
	maxMedium  = 8 << 30   // bytes of a virtual medium
	maxSteps   = 5000      // lines of scripts in one boot
	maxDepth   = 16        // scripts that wait for the end of another script
	maxTime    = time.Hour // of a boot, in real and not in simulated time
	mediaSlots = 8         // media that are kept at the same time, in files without names
)

// NewLoader returns a loader that downloads with client. sleep waits for a duration on the clock of
// the machines, or returns an error when ctx ends first.
func NewLoader(client *http.Client, sleep func(ctx context.Context, d time.Duration) error) *Loader {
	return &Loader{client: client, sleep: sleep, media: make(chan struct{}, mediaSlots)}
}

// Trace records what a machine did while it booted, up to a limit. It is used by one goroutine.
type Trace struct {
	lines   []string
	dropped int
}

const (
	maxTrace     = 100 // lines
	maxTraceLine = 300 // bytes
)

// Add appends a line.
func (t *Trace) Add(format string, args ...any) {
	if len(t.lines) >= maxTrace {
		t.dropped++
		return
	}
	line := strings.ToValidUTF8(fmt.Sprintf(format, args...), "?")
	if len(line) > maxTraceLine {
		line = strings.ToValidUTF8(line[:maxTraceLine], "") + "…"
	}
	t.lines = append(t.lines, line)
}

// Lines returns what was added.
func (t *Trace) Lines() []string {
	if t.dropped > 0 {
		return append(t.lines[:len(t.lines):len(t.lines)], fmt.Sprintf("and %d lines more", t.dropped))
	}
	return t.lines
}

// parse reads parameters as the agent does: the words that have an equals sign.
func parse(into map[string]string, words []string) {
	for _, word := range words {
		if key, value, ok := strings.Cut(word, "="); ok {
			into[key] = value
		}
	}
}
