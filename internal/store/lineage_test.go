package store_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// countUse counts a use of a database and returns what shows that it is a copy, "" if nothing does.
func countUse(t *testing.T, s *store.Store) (how string) {
	t.Helper()
	err := s.Write(t.Context(), func(tx *store.Tx) error {
		how = ""
		copied, err := tx.CountUse()
		if copied != nil {
			how = copied.How
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return how
}

// run counts uses of the database of a folder as often as an engine that runs for a while.
func run(t *testing.T, dir string, count int) (how string) {
	t.Helper()
	s := open(t, dir, nil)
	how = countUse(t, s)
	for range count - 1 {
		if again := countUse(t, s); again != "" {
			t.Errorf("told later: %s", again)
		}
	}
	closeStore(t, s)
	return how
}

func wantCopy(t *testing.T, how, want string) {
	t.Helper()
	if want == "" && how != "" || want != "" && !strings.Contains(how, want) {
		t.Errorf("the database is a copy because %q, want %q", how, want)
	}
}

func TestABackupIsKnownHoweverItIsPutBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	countUse(t, s)
	file := filepath.Join(t.TempDir(), "backup.db")
	if _, err := store.Backup(t.Context(), dir, file, false); err != nil {
		t.Fatal(err)
	}
	wantCopy(t, countUse(t, s), "") // the database itself is none
	closeStore(t, s)
	restored, byHand := t.TempDir(), t.TempDir()
	if _, err := store.Restore(t.Context(), file, restored, restoredAt); err != nil {
		t.Fatal(err)
	}
	copyTo(t, file, filepath.Join(byHand, "ingot.db"))
	for _, folder := range []string{restored, byHand} {
		wantCopy(t, run(t, folder, 2), "a backup that was taken at 20")
		wantCopy(t, run(t, folder, 2), "") // told once
	}
}

func TestWhateverIsRestoredIsKnown(t *testing.T) {
	dir := folderOf(t, "a")
	if err := store.FoldLog(t.Context(), filepath.Join(dir, "ingot.db")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "copy") // made with cp while no engine ran
	copyTo(t, filepath.Join(dir, "ingot.db"), file)
	if _, err := store.Restore(t.Context(), file, dir, restoredAt); err != nil {
		t.Fatal(err)
	}
	wantCopy(t, run(t, dir, 1), "a backup that was taken at 2030-01-31T12:30:05Z")
}

func TestABackupOfABackupIsAsOldAsThat(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "second.db")
	copyTo(t, backupOf(t, "a"), filepath.Join(dir, "ingot.db"))
	mark := []byte{0x12, 0x34, 0x56, 0x78} // https://sqlite.org/fileformat.html, section 1.3
	content, err := os.ReadFile(filepath.Join(dir, "ingot.db"))
	if err != nil {
		t.Fatal(err)
	}
	copy(content[60:], mark)
	if err := os.WriteFile(filepath.Join(dir, "ingot.db"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Backup(t.Context(), dir, file, false); err != nil {
		t.Fatal(err)
	}
	if content, err = os.ReadFile(file); err != nil || !bytes.Equal(content[60:64], mark) {
		t.Errorf("the mark is %x, %v", content[60:64], err)
	}
}

func TestACopyThatNobodyKnowsIsMarked(t *testing.T) {
	if _, err := store.MarkRestored(t.Context(), store.Options{Dir: t.TempDir()}); err == nil {
		t.Error("a database was marked that is not there")
	}
	onBoth(t, func(t *testing.T, opts store.Options) {
		t.Helper()
		s, err := store.Open(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		n := createNode(t, s, "a")
		if err := s.Write(t.Context(), func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: "verify"}) }); err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		if nodes, err := store.MarkRestored(t.Context(), opts); err != nil || nodes != 1 {
			t.Errorf("marked %d nodes, %v", nodes, err)
		}
		if s, err = store.Open(t.Context(), opts); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		wantCopy(t, countUse(t, s), "")
		if err := s.Read(t.Context(), func(tx *store.Tx) error {
			suspension, err := tx.Suspension()
			if suspension.Reason != node.Restored {
				t.Errorf("suspended %+v", suspension)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAnOlderFileInTheSameFolderIsKnown(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, 3)
	older := filepath.Join(t.TempDir(), "older")
	copyTo(t, filepath.Join(dir, "ingot.db"), older)
	wantCopy(t, run(t, dir, 3), "")
	copyTo(t, older, filepath.Join(dir, "ingot.db"))
	wantCopy(t, run(t, dir, 1), "in a later state")
	wantCopy(t, run(t, dir, 1), "")

	if err := os.Remove(filepath.Join(dir, "ingot.lock")); err != nil {
		t.Fatal(err)
	}
	copyTo(t, older, filepath.Join(dir, "ingot.db"))
	wantCopy(t, run(t, dir, 1), "remembers until when, is missing")
	wantCopy(t, run(t, dir, 1), "")
}

func TestAFileThatWasUsedInAnotherFolderMayBeAnOlderOne(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	run(t, dir, 1)
	copyTo(t, filepath.Join(dir, "ingot.db"), filepath.Join(other, "ingot.db"))
	wantCopy(t, run(t, other, 2), "used before, and ingot.lock")
	wantCopy(t, run(t, other, 2), "")
}

func TestADatabaseThatIsOnlyUsedIsNoCopy(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		wantCopy(t, run(t, dir, 1+i%3), "")
	}
	other := t.TempDir() // moved with all that belongs to it
	for _, name := range []string{"ingot.db", "ingot.lock"} {
		copyTo(t, filepath.Join(dir, name), filepath.Join(other, name))
	}
	wantCopy(t, run(t, other, 2), "")
}

func TestTablesFromADumpAreKnown(t *testing.T) {
	original, restored := storetest.NewSchema(t), storetest.NewSchema(t)
	s, err := store.Open(t.Context(), store.Options{URL: original})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantCopy(t, countUse(t, s), "")
	wantCopy(t, countUse(t, s), "")
	storetest.Dump(t, original, restored)
	again, err := store.Open(t.Context(), store.Options{URL: restored})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	wantCopy(t, countUse(t, again), "from a dump")
	wantCopy(t, countUse(t, again), "")
	wantCopy(t, countUse(t, s), "")
}

func TestADatabaseThatGoesBackUnderAnEngineIsKnown(t *testing.T) {
	url := storetest.NewSchema(t)
	s, err := store.Open(t.Context(), store.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 3 {
		wantCopy(t, countUse(t, s), "")
	}
	n := createNode(t, s, "with-work")
	back := "UPDATE lineage SET signatures = 1, written_in = pg_current_xact_id()::xid::text"
	if err := s.Write(t.Context(), func(tx *store.Tx) error {
		return errors.Join(tx.Exec(back), tx.AddWork(&store.Work{NodeID: n.ID, Kind: "test"}))
	}); err != nil {
		t.Fatal(err)
	}
	claim := func() (claimed []*store.Work) {
		if err := s.Write(t.Context(), func(tx *store.Tx) (err error) {
			claimed, err = tx.ClaimWork("here", time.Minute, 1, store.WorkScope{})
			return err
		}); err != nil {
			t.Error(err)
		}
		return claimed
	}
	if claimed := claim(); len(claimed) > 0 {
		t.Errorf("claimed %+v before anybody was told that the database is older", *claimed[0])
	}
	wantCopy(t, countUse(t, s), "in a later state")
	wantCopy(t, countUse(t, s), "")
	if claimed := claim(); len(claimed) != 1 {
		t.Errorf("claimed %d pieces of work afterwards, want 1", len(claimed))
	}
}

func TestADatabaseThatGoesBackUnderSeveralEnginesIsToldOfOnce(t *testing.T) {
	url := storetest.NewSchema(t)
	var engines []*store.Store
	for range 3 {
		s, err := store.Open(t.Context(), store.Options{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		engines = append(engines, s)
	}
	for range 3 { // each keeps a count one higher than the one before
		for _, s := range engines {
			wantCopy(t, countUse(t, s), "")
		}
	}
	for range 3 {
		storetest.GoBack(t, url)
	}
	wantCopy(t, countUse(t, engines[0]), "in a later state")
	for range 2 {
		for _, s := range slices.Backward(engines) { // first the one with the highest count
			wantCopy(t, countUse(t, s), "")
		}
	}
}

func TestConductorsOfACopyHaveTheirTimeToShowLife(t *testing.T) {
	const aliveFor = time.Minute
	url, clock := storetest.NewSchema(t), storetest.NewClock()
	s, err := store.Open(t.Context(), store.Options{URL: url, Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Write(t.Context(), func(tx *store.Tx) error { return tx.RegisterConductor(node.Conductor{Hostname: "other"}) }); err != nil {
		t.Fatal(err)
	}
	wantAlive := func(want bool) {
		t.Helper()
		if err := s.Read(t.Context(), func(tx *store.Tx) error {
			conductors, err := tx.Conductors(aliveFor)
			if err == nil && (len(conductors) != 1 || conductors[0].Alive != want) {
				t.Errorf("conductors %+v, want one, alive: %v", conductors, want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		wantCopy(t, countUse(t, s), "")
	}
	clock.Advance(time.Hour)
	wantAlive(false)
	wantCopy(t, countUse(t, s), "")
	wantAlive(false)
	for range 2 {
		storetest.GoBack(t, url)
	}
	wantCopy(t, countUse(t, s), "in a later state")
	wantAlive(true)
	clock.Advance(aliveFor + time.Second)
	wantCopy(t, countUse(t, s), "")
	wantAlive(false)
}

func TestAnEmptyDatabaseInAFolderThatRemembersIsNoCopy(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, 3)
	if err := os.Remove(filepath.Join(dir, "ingot.db")); err != nil {
		t.Fatal(err)
	}
	wantCopy(t, run(t, dir, 1), "")
}

// TestACountThatWasNotCommittedIsNotKept counts in a copy twice. Because the first count is not
// committed, the second one reports the copy again.
func TestACountThatWasNotCommittedIsNotKept(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, 2)
	older := filepath.Join(t.TempDir(), "older")
	copyTo(t, filepath.Join(dir, "ingot.db"), older)
	run(t, dir, 3)
	copyTo(t, older, filepath.Join(dir, "ingot.db"))
	s := open(t, dir, nil)
	err := s.Write(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.CountUse(); err != nil {
			t.Error(err)
		}
		return context.Canceled
	})
	if err == nil {
		t.Fatal("the count was committed")
	}
	wantCopy(t, countUse(t, s), "in a later state")
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
