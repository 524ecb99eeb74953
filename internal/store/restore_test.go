package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

var restoredAt = time.Date(2030, 1, 31, 12, 30, 5, 0, time.UTC)

const keptName = "ingot.db.replaced-20300131T123005Z"

// backupOf returns a backup of a database with nodes of these names.
func backupOf(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, nil)
	for _, name := range names {
		createNode(t, s, name)
	}
	file := filepath.Join(t.TempDir(), "backup.db")
	if _, err := store.Backup(t.Context(), dir, file, false); err != nil {
		t.Fatal(err)
	}
	return file
}

// folderOf returns a data folder without engine with nodes of these names.
func folderOf(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, nil)
	for _, name := range names {
		createNode(t, s, name)
	}
	closeStore(t, s)
	return dir
}

// contents returns the nodes of a data folder.
func contents(t *testing.T, dir string) []string {
	t.Helper()
	s := open(t, dir, nil)
	names := nodeNames(t, s)
	closeStore(t, s)
	return names
}

func TestClosedDatabaseIsOneFile(t *testing.T) {
	onlyFiles(t, folderOf(t, "a"), "ingot.db", "ingot.lock")
}

func TestRestoreKeepsTheReplacedDatabase(t *testing.T) {
	file, dir := backupOf(t, "old"), folderOf(t, "new")
	done, err := store.Restore(t.Context(), file, dir, restoredAt)
	if err != nil {
		t.Fatal(err)
	}
	if done.Nodes != 1 || done.Kept != filepath.Join(dir, keptName) {
		t.Errorf("restored %+v", done)
	}
	onlyFiles(t, dir, "ingot.db", keptName, "ingot.lock")
	if got := contents(t, dir); !slices.Equal(got, []string{"old"}) {
		t.Errorf("nodes = %q, want those of the backup", got)
	}
	if _, err := store.Restore(t.Context(), done.Kept, dir, restoredAt.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, dir); !slices.Equal(got, []string{"new"}) {
		t.Errorf("nodes = %q, want those that were replaced", got)
	}
}

func TestRestoreByRootGivesTheDatabaseToTheOwnerOfTheFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	file := backupOf(t, "old")
	for name, dir := range map[string]string{"a folder with a database": folderOf(t, "present"), "an empty folder": t.TempDir()} {
		if err := os.Chown(dir, 12345, 23456); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Restore(t.Context(), file, dir, restoredAt); err != nil {
			t.Fatal(err)
		}
		for _, created := range []string{"ingot.db", "ingot.lock"} {
			info, err := os.Stat(filepath.Join(dir, created))
			if err != nil {
				t.Fatal(err)
			}
			if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 12345 || owner.Gid != 23456 || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %s belongs to %d:%d with mode %v", name, created, owner.Uid, owner.Gid, info.Mode())
			}
		}
	}
}

func TestRestoreDropsLeasesSoThatWorkResumes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	n := createNode(t, s, "a")
	if err := s.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.AcquireLease(n.ID, "an engine that is gone", time.Hour)
		return errors.Join(err, tx.AddWork(&store.Work{NodeID: n.ID, Kind: "verify"}))
	}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "b")
	if _, err := store.Backup(t.Context(), dir, file, false); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if _, err := store.Restore(t.Context(), file, other, restoredAt); err != nil {
		t.Fatal(err)
	}
	var claimed []*store.Work
	if err := open(t, other, nil).Write(t.Context(), func(tx *store.Tx) (err error) {
		claimed, err = tx.ClaimWork("the next engine", time.Minute, 10, store.WorkScope{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(claimed) != 1 || claimed[0].NodeID != n.ID {
		t.Errorf("claimed %d pieces of work, want that of the backup", len(claimed))
	}
}

func TestRestoreRefusesWithoutTouchingTheDatabase(t *testing.T) {
	good := backupOf(t, "old")
	write := func(content []byte) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	intact, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	damaged := write(intact)
	damage(t, damaged)
	inUse := write(intact)
	if err := os.WriteFile(inUse+"-wal", []byte("changes"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := folderOf(t, "present")
	before := files(t, dir)
	for name, test := range map[string]struct{ file, want string }{
		"a file that is absent":         {filepath.Join(dir, "no"), "no such file"},
		"a folder":                      {t.TempDir(), "is a directory"},
		"an empty file":                 {write(nil), "no SQLite database"},
		"another kind of file":          {write([]byte(strings.Repeat("text ", 100))), "no SQLite database"},
		"a damaged backup":              {damaged, "damaged"},
		"half a backup":                 {write(intact[:len(intact)/2/4096*4096]), "damaged"},
		"a database in use":             {inUse, "a log of changes"},
		"the database itself":           {filepath.Join(dir, "ingot.db"), "name a backup"},
		"a database of something else":  {changed(t, intact, "ALTER TABLE ports RENAME TO doors"), "no database of Ingot: it has no table ports"},
		"a backup of a newer version":   {changed(t, intact, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)"), "its schema has version 999"},
		"a database without migrations": {changed(t, intact, "DELETE FROM goose_db_version"), "no database of Ingot"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := store.Restore(t.Context(), test.file, dir, restoredAt)
			wantError(t, err, test.want)
			onlyFiles(t, dir, before...)
		})
	}
	if got := contents(t, dir); !slices.Equal(got, []string{"present"}) {
		t.Errorf("nodes = %q, want those from before", got)
	}
}

// changed returns a file with the content of a backup and one change in it.
func changed(t *testing.T, content []byte, statement string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "ingot.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, nil)
	if err := s.Write(t.Context(), func(tx *store.Tx) error { return tx.Exec(statement) }); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if err := store.FoldLog(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRestoreRefusesAFolderInUse(t *testing.T) {
	file, dir := backupOf(t, "old"), t.TempDir()
	s := open(t, dir, nil)
	createNode(t, s, "present")
	_, err := store.Restore(t.Context(), file, dir, restoredAt)
	wantError(t, err, "another engine uses it")
	if got := nodeNames(t, s); !slices.Equal(got, []string{"present"}) {
		t.Errorf("nodes = %q, want those from before", got)
	}
}

func TestRestoreReplacesADatabaseThatAFilterViews(t *testing.T) {
	file, dir := backupOf(t, "old"), folderOf(t, "before")
	killed := open(t, dir, nil)
	createNode(t, killed, "new") // which is in the log
	v := openView(t, store.Options{Dir: dir})
	if _, err := v.Since(t.Context(), store.BootMark{}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, killed)
	if _, err := store.Restore(t.Context(), file, dir, restoredAt); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "another file has taken its place") {
		t.Errorf("token of the view: %v", err)
	}
	if got := contents(t, dir); !slices.Equal(got, []string{"old"}) {
		t.Errorf("nodes = %q, want those of the backup", got)
	}
	if _, err := store.Restore(t.Context(), filepath.Join(dir, keptName), dir, restoredAt.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, dir); !slices.Equal(got, []string{"before", "new"}) {
		t.Errorf("nodes = %q, want those that were replaced", got)
	}
}

func TestRestoreRefusesADatabaseThatIsBeingRead(t *testing.T) {
	file, dir := backupOf(t, "old"), folderOf(t, "present")
	s := open(t, dir, nil)
	createNode(t, s, "new")
	reader, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "ingot.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	tx, err := reader.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has changed nothing
	var nodes int
	if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM nodes").Scan(&nodes); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	_, err = store.Restore(t.Context(), file, dir, restoredAt)
	wantError(t, err, "the PXE filter")
	if got := contents(t, dir); !slices.Equal(got, []string{"present", "new"}) {
		t.Errorf("nodes = %q, want those from before", got)
	}
}

func TestRestoreReplacesADamagedDatabaseAndKeepsItsLog(t *testing.T) {
	file, dir := backupOf(t, "old"), t.TempDir()
	for name, content := range map[string]string{"ingot.db": "no database at all", "ingot.db-wal": "a log"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Restore(t.Context(), file, dir, restoredAt); err != nil {
		t.Fatal(err)
	}
	onlyFiles(t, dir, "ingot.db", keptName, keptName+"-wal", "ingot.lock")
	if got := contents(t, dir); !slices.Equal(got, []string{"old"}) {
		t.Errorf("nodes = %q, want those of the backup", got)
	}
}

func TestRestoreOnAFullDiskKeepsTheDatabase(t *testing.T) {
	storetest.InOwnProcess(t, func() {
		dir, small := t.TempDir(), folderOf(t, "present")
		s := open(t, dir, nil)
		for i := range 10 {
			if err := s.Write(t.Context(), large(fmt.Sprint("n", i))); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(t.TempDir(), "b")
		if _, err := store.Backup(t.Context(), dir, file, false); err != nil {
			t.Fatal(err)
		}
		before := files(t, small)
		limitFiles(t, 1<<20)
		_, err := store.Restore(t.Context(), file, small, restoredAt)
		wantError(t, err, "file too large") // what the kernel says in place of no space left
		onlyFiles(t, small, before...)
	})
}

// TestKilledRestoreLeavesTheOldOrTheNewDatabase kills restores at different
// times.
func TestKilledRestoreLeavesTheOldOrTheNewDatabase(t *testing.T) {
	const fileOf, dirOf = "INGOT_STORE_TEST_RESTORE_FILE", "INGOT_STORE_TEST_RESTORE_DIR"
	if file := os.Getenv(fileOf); file != "" {
		fmt.Println("begin")
		if _, err := store.Restore(t.Context(), file, os.Getenv(dirOf), restoredAt); err != nil {
			t.Fatal(err)
		}
		return
	}
	file := backupOf(t, "old")
	saw := map[string]int{}
	for i := range 12 {
		dir := folderOf(t, "present")
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), fileOf+"="+file, dirOf+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for line := make([]byte, 256); ; {
			n, err := out.Read(line)
			if err != nil || strings.Contains(string(line[:n]), "begin") {
				break
			}
		}
		<-time.After(time.Duration(2*i) * time.Millisecond) // where it is killed is left to chance
		_ = child.Process.Signal(syscall.SIGKILL)           // it may have ended
		_ = child.Wait()
		got := contents(t, dir)
		if len(got) != 1 || got[0] != "old" && got[0] != "present" {
			t.Fatalf("killed after %d ms: nodes = %q, want those of one database", 2*i, got)
		}
		saw[got[0]]++
		// At the same time, so that what the killed one left must go.
		if err := os.Rename(filepath.Join(dir, keptName), filepath.Join(dir, keptName+".1")); got[0] == "old" && err != nil {
			t.Fatal(err)
		}
		if _, err := store.Restore(t.Context(), file, dir, restoredAt); err != nil {
			t.Fatalf("restore after one that was killed: %v", err)
		}
		if got := contents(t, dir); !slices.Equal(got, []string{"old"}) {
			t.Fatalf("nodes = %q, want those of the backup", got)
		}
	}
	t.Logf("databases that killed restores left: %v", saw)
}
