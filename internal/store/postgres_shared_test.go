package store_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// replicas opens a database as often as processes would.
func replicas(t *testing.T, count int) []*store.Store {
	t.Helper()
	database := storetest.Postgres(t)
	stores := make([]*store.Store, count)
	for i := range stores {
		stores[i] = openURL(t, database, nil)
	}
	return stores
}

// TestWritesOfSeveralProcessesFollowOneAnother reads, adds one and writes back
// from all processes at once.
func TestWritesOfSeveralProcessesFollowOneAnother(t *testing.T) {
	stores := replicas(t, 3)
	n := createNode(t, stores[0], "counter")
	const each = 40
	var writers sync.WaitGroup
	for _, s := range stores {
		for range each {
			writers.Go(func() {
				if err := s.Write(t.Context(), func(tx *store.Tx) error {
					before, err := tx.Node(n.UUID)
					if err != nil {
						return err
					}
					count, _ := strconv.Atoi(before.Description)
					after := *before
					after.Description = strconv.Itoa(count + 1)
					return tx.UpdateNode(before, &after)
				}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	writers.Wait()
	if err := stores[0].Read(t.Context(), func(tx *store.Tx) error {
		got, err := tx.Node(n.UUID)
		if err == nil && got.Description != strconv.Itoa(each*len(stores)) {
			t.Errorf("counted to %s, want %d", got.Description, each*len(stores))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestOneProcessGetsEachPieceOfWork lets all processes claim at once.
func TestOneProcessGetsEachPieceOfWork(t *testing.T) {
	stores := replicas(t, 3)
	const pieces = 60
	if err := stores[0].Write(t.Context(), func(tx *store.Tx) error {
		for range pieces {
			n := &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Enroll}
			if err := tx.CreateNode(n); err != nil {
				return err
			}
			if err := tx.AddWork(&store.Work{NodeID: n.ID, Kind: "test"}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	claimed := map[int64]string{}
	var mu sync.Mutex
	var claimers sync.WaitGroup
	for i, s := range stores {
		owner := fmt.Sprint("conductor-", i)
		for range 10 {
			claimers.Go(func() {
				var got []*store.Work
				if err := s.Write(t.Context(), func(tx *store.Tx) (err error) {
					got, err = tx.ClaimWork(owner, time.Minute, 3, store.WorkScope{})
					return err
				}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, w := range got {
					if other := claimed[w.ID]; other != "" {
						t.Errorf("%s and %s both got work %d", other, owner, w.ID)
					}
					claimed[w.ID] = owner
				}
			})
		}
	}
	claimers.Wait()
	if len(claimed) != pieces {
		t.Errorf("%d pieces were claimed, want %d", len(claimed), pieces)
	}
}

func TestProcessesThatStartTogetherShareTheMigration(t *testing.T) {
	database := storetest.NewSchema(t)
	var starts sync.WaitGroup
	for range 5 {
		starts.Go(func() {
			s, err := store.Open(t.Context(), store.Options{URL: database})
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	starts.Wait()
}

// TestTimeIsTheServers compares the time of a write with what the server tells
// before and after it.
func TestTimeIsTheServers(t *testing.T) {
	s := replicas(t, 1)[0]
	server := func() (now time.Time) {
		if err := s.Read(t.Context(), func(tx *store.Tx) error {
			texts, err := tx.Texts("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text")
			if err != nil {
				return err
			}
			micros, err := strconv.ParseInt(texts[0], 10, 64)
			now = time.UnixMicro(micros)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return now
	}
	before := server()
	var within time.Time
	if err := s.Write(t.Context(), func(tx *store.Tx) error { within = tx.Now(); return nil }); err != nil {
		t.Fatal(err)
	}
	if after := server(); within.Before(before) || within.After(after) {
		t.Errorf("time of the write = %v, want one between %v and %v", within, before, after)
	}
}

func TestSchemaOfANewerVersionIsRefused(t *testing.T) {
	database := storetest.NewSchema(t)
	s := openURL(t, database, nil)
	if err := s.Write(t.Context(), func(tx *store.Tx) error {
		return tx.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)")
	}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	_, err := store.Open(t.Context(), store.Options{URL: database})
	if err == nil || !strings.Contains(err.Error(), "999") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error = %v, want one line that names the version", err)
	}
}

func TestServersThatDoNotSuitAreRefused(t *testing.T) {
	for _, test := range []struct {
		version         int
		shown, encoding string
		want            string
	}{
		{150018, "15.18 (Debian 15.18-0+deb12u1)", "UTF8", ""},
		{180001, "18.1", "UTF8", ""},
		{149900, "14.99", "UTF8", "14.99"},
		{150018, "15.18", "SQL_ASCII", "ENCODING 'UTF8'"},
	} {
		err := store.CheckVersion(test.version, test.shown, test.encoding)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: error = %v, want %q", test.shown, test.encoding, err, test.want)
		}
	}
}

func TestErrorsKeepThePasswordOfADatabase(t *testing.T) {
	for _, database := range []string{
		"postgres://ingot:hunter2@127.0.0.1:1/ingot",
		"postgres://ingot:hunter2@127.0.0.1:port/ingot",
		"postgres://ingot:hunter2@%zz/ingot",
		"postgres://ingot:hunter2@127.0.0.1:1/ingot?sslmode=perhaps",
		"mysql://ingot:hunter2@127.0.0.1/ingot",
		"host=127.0.0.1 port=1 user=ingot password=hunter2",
		"password=hunter2://x",
	} {
		s, err := store.Open(t.Context(), store.Options{URL: database})
		if err == nil {
			closeStore(t, s)
			t.Fatalf("%s was opened", database)
		}
		if text := err.Error(); strings.Contains(text, "hunter2") || !strings.Contains(text, "open database") {
			t.Errorf("error = %q, want one that says what was tried and no password", text)
		}
	}
}
