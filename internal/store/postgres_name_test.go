package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// openNamed opens a database for a process of this name.
func openNamed(t *testing.T, database, name string) (*store.Store, error) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{URL: database, Name: name})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() }) // the test may have closed it
	}
	return s, err
}

func TestNameOfAProcessThatRunsIsRefused(t *testing.T) {
	t.Parallel() // it waits for the other to end
	database := storetest.Postgres(t)
	first, err := openNamed(t, database, "rack-1")
	if err != nil {
		t.Fatal(err)
	}
	createNode(t, first, "before")
	if _, err := openNamed(t, database, "rack-1"); err == nil || !strings.Contains(err.Error(), `another engine named "rack-1"`) {
		t.Errorf("open under the same name: got %v, want it refused", err)
	}
	for database, name := range map[string]string{database: "rack-2", storetest.Postgres(t): "rack-1"} {
		if _, err := openNamed(t, database, name); err != nil {
			t.Errorf("open as %s: %v", name, err)
		}
	}
	createNode(t, first, "after") // nobody disturbed it
	closeStore(t, first)
	if _, err := openNamed(t, database, "rack-1"); err != nil {
		t.Errorf("open after the first one ended: %v", err)
	}
}

func TestNameOfAProcessThatDiedIsFreeAtOnce(t *testing.T) {
	database := storetest.Postgres(t)
	proxy, throughProxy := storetest.ThroughProxy(t, database)
	dead, err := openNamed(t, throughProxy, "rack-1")
	if err != nil {
		t.Fatal(err)
	}
	proxy.Refuse(true)
	proxy.Disconnect() // as the kernel does for a process that was killed
	began := time.Now()
	restarted, err := openNamed(t, database, "rack-1")
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the start took %v", took)
	}
	createNode(t, restarted, "a")

	proxy.Refuse(false)
	// One that was only cut off, and finds its name taken, goes on: its leases and
	// the database's locks keep the two apart.
	if err := dead.Write(context.Background(), small("b")); err != nil {
		t.Errorf("write: %v", err)
	}
}
