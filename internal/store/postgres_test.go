package store_test

import (
	"os"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

func TestPostgresKeepsThePromisesOfAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) *store.Store {
		t.Helper()
		return openURL(t, storetest.Postgres(t), clock)
	})
}

// openURL opens a PostgreSQL database until the end of the test.
func openURL(t *testing.T, url string, clock func() time.Time) *store.Store {
	t.Helper()
	return openWith(t, store.Options{URL: url, Clock: clock})
}

func openWith(t *testing.T, options store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the test may have closed it
	return s
}
