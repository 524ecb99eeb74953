package httpapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestBodiesOfRamdisksShareABudget(t *testing.T) {
	a := &api{ramdiskBytes: semaphore.NewWeighted(10)}
	read := a.withBudget(func(w http.ResponseWriter, r *http.Request) error {
		_, err := readBody(w, r, 100)
		return err
	})
	post := func(body string) error {
		return read(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
	}
	if err := post(`"123456789012"`); !errors.Is(err, node.ErrBusy) {
		t.Errorf("a body over the budget: got %v, want busy", err)
	}
	for range 3 {
		if err := post(`"123456"`); err != nil {
			t.Errorf("a body within the budget: %v", err)
		}
	}
	nested := a.withBudget(func(w http.ResponseWriter, r *http.Request) error {
		if _, err := readBody(w, r, 100); err != nil {
			return err
		}
		return post(`"abcdef"`) // while the first request is being processed
	})
	err := nested(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`"123456"`)))
	if !errors.Is(err, node.ErrBusy) {
		t.Errorf("a second body while the first takes most of the budget: got %v, want busy", err)
	}
}
