//go:build fault

package fault_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/test/process"
)

// killableEngine is an engine that kills itself at some of its commits.
type killableEngine struct {
	*killable

	address  string
	settings []string
	database string // URL of PostgreSQL; empty for SQLite in a folder of the settings
	dir      string

	points  []killPoint // points that are still to come
	commits []commit    // of the processes that have ended
	starts  int
}

// startKillableEngine starts an engine with kill points, and keeps it running until the test ends.
func startKillableEngine(t *testing.T, address, database string, points []killPoint, settings ...string) *killableEngine {
	t.Helper()
	m := &killableEngine{killable: &killable{t: t, name: "engine"}, address: address, database: database, settings: settings, dir: t.TempDir(), points: points}
	m.log, m.launch, m.killed = m.path("engine.log"), m.next, m.killedItself
	t.Cleanup(m.stop)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the engine:\n%s\ncommits:\n%s", m.logEnd(64<<10), describeCommits(m.all()))
		}
	})
	m.run()
	return m
}

func (m *killableEngine) path(name string) string { return filepath.Join(m.dir, name) }

// commitLog is the log of the present process.
func (m *killableEngine) commitLog() string { return m.path(fmt.Sprintf("commits-%d.log", m.starts)) }

// next starts the next process.
func (m *killableEngine) next() (*process.Process, error) {
	m.starts++
	cmd := engineCommand(m.database, m.address, "engine", m.settings...)
	cmd.Env = append(cmd.Env, "INGOT_FAULT_LOG="+m.commitLog())
	cmd.Env = append(cmd.Env, "INGOT_FAULT_AT="+faultsAt(m.points, len(m.commits)))
	return process.Start(cmd, m.log)
}

// killedItself reports whether the process that has just ended did that at a kill point.
func (m *killableEngine) killedItself() (bool, error) {
	made, err := readCommits(m.commitLog())
	if err != nil || len(made) == 0 || made[len(made)-1].Killed == "" {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits = append(m.commits, endedAt(made)...)
	m.points = behind(m.points, made[len(made)-1])
	return true, nil
}

// endedAt joins the two lines about the commit at which a process was killed into one.
func endedAt(made []commit) []commit {
	if end := len(made) - 2; end >= 0 && made[end+1].Killed != "" {
		return append(slices.Clone(made[:end]), made[end+1])
	}
	return made
}

// stop ends the engine for good. The engine ends in order.
func (m *killableEngine) stop() {
	if !m.killable.stop() {
		return
	}
	if made, err := readCommits(m.commitLog()); err == nil {
		m.mu.Lock()
		m.commits = append(m.commits, endedAt(made)...)
		m.mu.Unlock()
	}
}

// all returns the commits so far, of processes that have ended.
func (m *killableEngine) all() []commit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.commits)
}

// options returns how the engine's database is opened after the engine has ended.
func (m *killableEngine) options() store.Options {
	o := store.Options{URL: m.database}
	for _, setting := range m.settings {
		if dir, ok := strings.CutPrefix(setting, "database.dir="); ok {
			o.Dir = dir
		}
	}
	return o
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
