package engine

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/store/storetest"
)

func TestAnswersHaveTimeForCallsToMachines(t *testing.T) {
	cfg := DefaultConfig()
	cfg.API.Listen = "127.0.0.1:0"
	cfg.Database.Dir = t.TempDir()
	cfg.Database.URL = storetest.Options(t, cfg.Database.Dir).URL
	cfg.Conductor.CallTimeout = 10 * time.Minute
	e, err := Start(t.Context(), Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if got, calls := e.api.http.WriteTimeout, 2*cfg.Conductor.CallTimeout; got <= calls {
		t.Errorf("an answer may take %s, want more than the %s of calls", got, calls)
	}
}
