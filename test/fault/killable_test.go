//go:build fault

package fault_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ingot-metal/ingot/test/process"
)

// killable is a program that is killed now and then, and started again until the test ends.
type killable struct {
	t    *testing.T
	name string // of the program, in messages
	log  string // file with the output of all processes
	// launch starts the next process. It is called with mu held.
	launch func() (*process.Process, error)
	// killed reports whether the process that has just ended was killed by the test.
	killed func() (bool, error)

	mu      sync.Mutex
	process *process.Process
	stopped bool
	ended   chan struct{} // closed when nothing is started any more
	broken  error         // why
}

// run starts the program, and keeps it running until stop.
func (m *killable) run() {
	m.t.Helper()
	m.ended = make(chan struct{})
	if err := m.start(); err != nil {
		m.t.Fatal(err)
	}
	go m.keep()
}

// start starts the next process.
func (m *killable) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return nil
	}
	p, err := m.launch()
	m.process = p
	return err
}

// keep starts the program again whenever it was killed. If the program ends in another way, that is
// a failure.
func (m *killable) keep() {
	defer close(m.ended)
	for {
		<-m.process.Done()
		m.mu.Lock()
		stopped := m.stopped
		m.mu.Unlock()
		if stopped {
			return
		}
		killed, err := m.killed()
		if err == nil && !killed {
			err = fmt.Errorf("the %s ended by itself: %w", m.name, m.process.Failure())
		}
		if err == nil {
			err = m.start()
		}
		if err != nil {
			m.broken = err
			return
		}
	}
}

// check fails the test when the program has ended by itself.
func (m *killable) check() {
	m.t.Helper()
	select {
	case <-m.ended:
		m.t.Fatalf("the %s runs no more: %v", m.name, m.broken)
	default:
	}
}

// stop ends the program for good. The program ends in order. stop reports whether it still ran.
func (m *killable) stop() bool {
	m.mu.Lock()
	was := m.stopped
	m.stopped = true
	p := m.process
	m.mu.Unlock()
	if was || p == nil {
		return false
	}
	if err := p.Stop(stopWithin); err != nil && !p.Ended() {
		m.t.Error(err)
	}
	<-m.ended
	return true
}

// logEnd returns the end of the log, at most this many bytes.
func (m *killable) logEnd(most int) string {
	text, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// panics returns the lines of the log about what must not happen in any process.
func (m *killable) panics() (lines []string) {
	text, err := os.ReadFile(m.log)
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "panic") || strings.Contains(line, "DATA RACE") {
			lines = append(lines, line)
		}
	}
	return lines
}
