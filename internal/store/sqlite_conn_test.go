package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

func TestStatementIsNotPreparedAnewForAnotherLimit(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	createNode(t, s, "a")
	for limit := range 5 {
		if err := s.Read(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Nodes(node.Query{
				Limit:   limit + 1,
				Filters: []node.Filter{{Field: "name", Op: node.Contains, Value: strings.Repeat("a", limit+1)}},
			})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Reprepared(); got != 0 {
		t.Errorf("statements were prepared anew %d times, want never", got)
	}
}

func TestReadEndsWithItsContext(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	createNode(t, s, "a")
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Read(ctx, func(tx *store.Tx) error {
		cancel()
		_, err := tx.Nodes(node.Query{})
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want that of the context", err)
	}
	if got := nodeNames(t, s); len(got) != 1 {
		t.Errorf("nodes = %v in the next read, want one", got)
	}
}

func TestReadAfterCloseIsRefused(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	closeStore(t, s)
	if err := s.Read(t.Context(), func(*store.Tx) error { return nil }); !errors.Is(err, store.ErrClosed) {
		t.Errorf("error = %v, want store.ErrClosed", err)
	}
}

func TestManyReadsAtOnceWaitForEachOther(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	createNode(t, s, "a")
	const reads = 100
	errs := make(chan error, reads)
	for range reads {
		go func() {
			errs <- s.Read(context.Background(), func(tx *store.Tx) error {
				_, err := tx.Nodes(node.Query{})
				return err
			})
		}()
	}
	for range reads {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestNamesWithOddCharactersAreStoredAsTheyAre(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	for _, name := range []string{"ü", "'; DROP TABLE nodes; --", strings.Repeat("long ", 10_000), "?1"} {
		createNode(t, s, name)
		names := nodeNames(t, s)
		if got := names[len(names)-1]; got != name {
			t.Errorf("name = %.40q, want %.40q", got, name)
		}
	}
}

func TestCommitIsSharedWithThoseWhoWriteAgainAtOnce(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		callers int
		took    time.Duration
		others  []time.Duration // when they come
		want    int
		waited  time.Duration
	}{
		"nobody else wrote":             {callers: 1, took: 4 * ms, others: []time.Duration{ms}, want: 1},
		"first commit":                  {others: []time.Duration{ms}, want: 1},
		"all come back":                 {callers: 3, took: 4 * ms, others: []time.Duration{ms / 2, ms}, want: 3, waited: ms},
		"one comes back too late":       {callers: 3, took: 4 * ms, others: []time.Duration{ms, 3 * ms}, want: 2, waited: 2 * ms},
		"nobody comes back":             {callers: 3, took: 4 * ms, want: 1, waited: 2 * ms},
		"commit took very long":         {callers: 3, took: time.Second, want: 1, waited: 2 * ms},
		"commit that took no time":      {callers: 3, others: []time.Duration{ms}, want: 1},
		"those who come later are left": {callers: 2, took: 4 * ms, others: []time.Duration{ms, ms + 1}, want: 2, waited: ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				if got := store.Gather(test.callers, test.took, test.others...); got != test.want {
					t.Errorf("%d requests share the commit, want %d", got, test.want)
				}
				if waited := time.Since(began); waited != test.waited {
					t.Errorf("waited %s, want %s", waited, test.waited)
				}
			})
		})
	}
}
