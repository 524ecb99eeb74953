package pxefilter

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/polltest"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// engineStore is an engine's store with one node that has a port.
type engineStore struct {
	t    *testing.T
	s    *store.Store
	uuid string
}

func openEngineStore(t *testing.T, opts store.Options, mac string) *engineStore {
	t.Helper()
	s, err := store.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the test may have closed it
	f := &engineStore{t, s, uuid.NewString()}
	n := &node.Node{UUID: f.uuid, Driver: "fake-hardware", ProvisionState: node.Manageable}
	n.Interfaces[node.InspectInterface] = "agent"
	f.write(func(tx *store.Tx) error {
		if err := tx.CreateNode(n); err != nil {
			return err
		}
		return tx.CreatePort(&node.Port{UUID: uuid.NewString(), NodeID: n.ID, Address: mac})
	})
	return f
}

func (f *engineStore) write(fn func(*store.Tx) error) {
	f.t.Helper()
	if err := f.s.Write(f.t.Context(), fn); err != nil {
		f.t.Fatal(err)
	}
}

func (f *engineStore) move(state node.State) {
	f.t.Helper()
	f.write(func(tx *store.Tx) error {
		before, err := tx.Node(f.uuid)
		if err != nil {
			return err
		}
		after := *before
		after.ProvisionState = state
		return tx.UpdateNode(before, &after)
	})
}

// runFilter runs a filter on a real database until the end of the test.
func runFilter(t *testing.T, database store.Options, dir string) (*Filter, *logBuffer) {
	t.Helper()
	log := &logBuffer{}
	f, err := New(Options{
		Database: database, HostsDir: dir, InspectInterfaces: []string{"agent"},
		PollInterval: 100 * time.Millisecond, SyncPeriod: DefaultSyncPeriod, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("filter ended with %v", err)
		}
	})
	return f, log
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	polltest.UntilTrue(t, 30*time.Second, what, done)
}

// says waits until a file has the content of a verdict.
func says(t *testing.T, dir, name string, v Verdict) {
	t.Helper()
	await(t, name+" to say "+string(v), func() bool {
		data, err := os.ReadFile(filepath.Join(dir, name))
		return err == nil && string(data) == content(name, v)
	})
}

func TestFilterStartsBeforeTheEngineAndFollowsItsRestoredDatabase(t *testing.T) {
	data, dir := filepath.Join(t.TempDir(), "data"), t.TempDir()
	f, _ := runFilter(t, store.Options{Dir: data}, dir)
	await(t, "the filter to miss the database", func() bool {
		return strings.Contains(health(f).Body.String(), "start the engine")
	})
	engine := openEngineStore(t, store.Options{Dir: data}, mac1)
	says(t, dir, mac1, Deny)
	engine.move(node.InspectWait)
	says(t, dir, mac1, Allow)

	// As a restore does: another file takes the place of the database.
	if err := engine.s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		path := filepath.Join(data, "ingot.db"+suffix)
		if err := os.Rename(path, path+".replaced"); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	restored := openEngineStore(t, store.Options{Dir: data}, mac2)
	says(t, dir, mac2, Deny)
	says(t, dir, mac1, Deny) // no port has it any more
	restored.move(node.InspectWait)
	says(t, dir, mac2, Allow)
}

func TestFilterSurvivesARestartOfPostgreSQL(t *testing.T) {
	server, dir := storetest.NewServer(t), t.TempDir()
	database := store.Options{URL: server.URL}
	engine := openEngineStore(t, database, mac1)
	engine.move(node.InspectWait)
	f, log := runFilter(t, database, dir)
	says(t, dir, mac1, Allow)

	if err := server.Halt(storetest.Shutdown); err != nil {
		t.Fatal(err)
	}
	await(t, "the filter to miss the server", func() bool { return health(f).Code == 503 })
	says(t, dir, mac1, Allow)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	engine.move(node.Manageable)
	says(t, dir, mac1, Deny)
	if log.count("Database can be read again") != 1 || log.count("secret") != 0 {
		t.Errorf("log:\n%s", log.text.String())
	}
}

func TestAFullDiskLeavesEveryFileWhole(t *testing.T) {
	disk := storetest.NewDisk(t, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dir = disk.Dir
		w.opts.HostsDir = disk.Dir
		n := numbered(1, agentNode(node.Manageable, mac1))
		w.db.put(n)
		w.start()
		free := disk.Fill()
		n.State = node.InspectWait
		w.db.put(n)
		w.pass(time.Minute)
		w.logged(1, "make space on its disk")
		if got := files(t, w.dir)[mac1]; got != content(mac1, Deny) {
			t.Errorf("the file says %q, want what it said before", got)
		}
		free()
		w.pass(longestWait)
		w.want(map[string]Verdict{mac1: Allow, unknownFile: Deny})
		w.logged(1, "in step again")
	})
}

func TestAReadOnlyFolderIsTriedAgain(t *testing.T) {
	disk := storetest.NewDisk(t, 1<<20)
	remount := func(t *testing.T, flags uintptr) {
		t.Helper()
		if err := syscall.Mount("", disk.Dir, "", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dir = disk.Dir
		w.opts.HostsDir = disk.Dir
		w.db.put(numbered(1, agentNode(node.InspectWait, mac1)))
		remount(t, syscall.MS_RDONLY)
		w.start()
		w.pass(time.Minute)
		w.logged(1, "let this process write to it")
		remount(t, 0)
		w.pass(longestWait)
		w.want(map[string]Verdict{mac1: Allow, unknownFile: Deny})
	})
}
