//go:build fault

package fault_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/test/process"
)

// mortal is an engine that kills itself at some of its commits and is started again.
type mortal struct {
	t        *testing.T
	address  string
	settings []string
	database string // URL of PostgreSQL; empty for SQLite in a folder of the settings
	dir      string

	mu      sync.Mutex
	points  []killPoint // that are to come
	commits []commit    // of the processes that have ended
	process *process.Process
	stopped bool
	starts  int
	ended   chan struct{} // closed when nothing is started any more
	broken  error         // why
}

// startMortal starts an engine with kill points, and keeps it running until the test ends.
func startMortal(t *testing.T, address, database string, points []killPoint, settings ...string) *mortal {
	t.Helper()
	m := &mortal{t: t, address: address, database: database, settings: settings, dir: t.TempDir(), points: points, ended: make(chan struct{})}
	t.Cleanup(m.stop)
	t.Cleanup(func() {
		if t.Failed() {
			text, err := os.ReadFile(m.path("engine.log"))
			t.Logf("log of the engine (%v):\n%s\ncommits:\n%s", err, text[max(0, len(text)-64<<10):], describeCommits(m.all()))
		}
	})
	if err := m.start(); err != nil {
		t.Fatal(err)
	}
	go m.keep()
	return m
}

func (m *mortal) path(name string) string { return filepath.Join(m.dir, name) }

// commitLog is the log of the present process.
func (m *mortal) commitLog() string { return m.path(fmt.Sprintf("commits-%d.log", m.starts)) }

// start starts the next process.
func (m *mortal) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return nil
	}
	m.starts++
	cmd := engineCommand(m.database, m.address, "engine", m.settings...)
	cmd.Env = append(cmd.Env, "INGOT_FAULT_LOG="+m.commitLog())
	cmd.Env = append(cmd.Env, "INGOT_FAULT_AT="+faultsAt(m.points, len(m.commits)))
	p, err := process.Start(cmd, m.path("engine.log"))
	m.process = p
	return err
}

// keep starts the engine again whenever it has killed itself. That it ends in another way is
// a failure.
func (m *mortal) keep() {
	defer close(m.ended)
	for {
		<-m.process.Done()
		m.mu.Lock()
		stopped := m.stopped
		m.mu.Unlock()
		if stopped {
			return
		}
		made, err := readCommits(m.commitLog())
		if err == nil && (len(made) == 0 || made[len(made)-1].Killed == "") {
			err = fmt.Errorf("the engine ended by itself: %w", m.process.Failure())
		}
		if err == nil {
			m.mu.Lock()
			m.commits = append(m.commits, endedAt(made)...)
			m.points = behind(m.points, made[len(made)-1])
			m.mu.Unlock()
			err = m.start()
		}
		if err != nil {
			m.broken = err
			return
		}
	}
}

// endedAt joins the two lines about the commit at which a process was killed.
func endedAt(made []commit) []commit {
	if end := len(made) - 2; end >= 0 && made[end+1].Killed != "" {
		return append(slices.Clone(made[:end]), made[end+1])
	}
	return made
}

// check fails the test when the engine has ended by itself.
func (m *mortal) check() {
	m.t.Helper()
	select {
	case <-m.ended:
		m.t.Fatal(errors.Join(m.broken, errors.New("the engine runs no more")))
	default:
	}
}

// stop ends the engine for good, in order.
func (m *mortal) stop() {
	m.mu.Lock()
	was := m.stopped
	m.stopped = true
	p := m.process
	m.mu.Unlock()
	if was || p == nil {
		return
	}
	if err := p.Stop(stopWithin); err != nil && !p.Ended() {
		m.t.Error(err)
	}
	<-m.ended
	if made, err := readCommits(m.commitLog()); err == nil {
		m.mu.Lock()
		m.commits = append(m.commits, endedAt(made)...)
		m.mu.Unlock()
	}
}

// all returns the commits so far, of processes that have ended.
func (m *mortal) all() []commit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.commits)
}

// options are how its database is opened when it has ended.
func (m *mortal) options() store.Options {
	o := store.Options{URL: m.database}
	for _, setting := range m.settings {
		if dir, ok := strings.CutPrefix(setting, "database.dir="); ok {
			o.Dir = dir
		}
	}
	return o
}

// panics are the lines of the log about what must not happen in any process.
func (m *mortal) panics() (lines []string) {
	text, err := os.ReadFile(m.path("engine.log"))
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

func describeCommits(commits []commit) string {
	var text strings.Builder
	for i, c := range commits {
		fmt.Fprintf(&text, "%4d %s", i+1, c.Name)
		if c.Killed != "" {
			fmt.Fprintf(&text, "   KILLED %s", c.Killed)
		}
		text.WriteByte('\n')
	}
	return text.String()
}
