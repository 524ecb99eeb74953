package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/node"
)

// slowEngine is an engine whose heartbeats of the node slow end when it is released.
type slowEngine struct {
	*fakeEngine
	slow    string
	release chan struct{}
	// givesBack says that slow requests give their slots back before they wait.
	givesBack bool
}

func (e *slowEngine) Heartbeat(ctx context.Context, ident string, _ node.Heartbeat) error {
	if ident == e.slow {
		if e.givesBack && !fairqueue.Release(ctx) {
			return node.ErrBusy
		}
		select {
		case <-e.release:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

const (
	floodedNode = "00000000-0000-4000-8000-00000000f100"
	waitingNode = "00000000-0000-4000-8000-000000000a11"
	otherNode   = "00000000-0000-4000-8000-000000000071"
)

// flooded is an API where many heartbeats from floodSource hang.
type flooded struct {
	t       *testing.T
	handler http.Handler
	engine  *slowEngine
}

const floodSource = "192.0.2.66:1024"

func newFlooded(t *testing.T, beats int) *flooded {
	t.Helper()
	s := newServer(t)
	s.addNode(floodedNode)
	s.addNode(waitingNode, func(n *node.Node) { n.ProvisionState = node.CleanWait })
	s.addNode(otherNode)
	drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	engine := &slowEngine{fakeEngine: s.engine, slow: floodedNode, release: make(chan struct{})}
	f := &flooded{t: t, engine: engine, handler: New(engine, Options{Drivers: drivers, Logger: slog.New(slog.DiscardHandler)})}
	for range beats {
		go f.beat(floodSource, floodedNode)
	}
	synctest.Wait()
	return f
}

func (f *flooded) beat(source, ident string) int {
	r := httptest.NewRequest(http.MethodPost, "/v1/heartbeat/"+ident, strings.NewReader(`{"callback_url":"http://192.0.2.7:9999","agent_version":"9.0"}`))
	r.RemoteAddr = source
	r.Header.Set("X-OpenStack-Ironic-API-Version", "1.61")
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w.Code
}

func TestAFloodFromOneSourceKeepsNoOtherOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlooded(t, ramdiskSlots/2+maxWaitingRamdisk)
		began := time.Now()
		for _, request := range []struct {
			name, source, node string
			want               int
		}{
			{"of the flooding source", floodSource, otherNode, http.StatusServiceUnavailable},
			{"of a node of the flooding source that waits for its ramdisk", floodSource, waitingNode, http.StatusAccepted},
			{"of another source", "192.0.2.7:1024", otherNode, http.StatusAccepted},
			{"of another network of IPv6", "[2001:db8:0:7::7]:1024", otherNode, http.StatusAccepted},
		} {
			if got := f.beat(request.source, request.node); got != request.want {
				t.Errorf("a heartbeat %s: got %d, want %d", request.name, got, request.want)
			}
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the heartbeats waited %v", waited)
		}
		close(f.engine.release)
	})
}

func TestRequestsThatWaitForOthersHoldNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlooded(t, 0)
		f.engine.givesBack = true
		for i := range 4 * ramdiskSlots {
			go f.beat(fmt.Sprintf("192.0.2.%d:1024", 100+i), floodedNode)
		}
		synctest.Wait()
		began := time.Now()
		if got := f.beat("198.51.100.7:1024", otherNode); got != http.StatusAccepted || time.Since(began) != 0 {
			t.Errorf("a heartbeat beside them: %d after %v, want 202 at once", got, time.Since(began))
		}
		close(f.engine.release)
	})
}

func TestRequestsThatWaitForOthersAreBoundedAndShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlooded(t, 0)
		f.engine.givesBack = true
		for range maxHeldUpRamdisk / 2 {
			go f.beat(floodSource, floodedNode)
			synctest.Wait()
		}
		for _, request := range []struct {
			source string
			want   int
		}{{floodSource, http.StatusServiceUnavailable}, {"192.0.2.7:1024", http.StatusAccepted}} {
			answered := make(chan int, 1)
			go func() { answered <- f.beat(request.source, floodedNode) }()
			synctest.Wait()
			select {
			case got := <-answered:
				if got != request.want {
					t.Errorf("a heartbeat from %s: got %d, want %d", request.source, got, request.want)
				}
			default:
				if request.want != http.StatusAccepted {
					t.Errorf("a heartbeat from %s waits beside %d others", request.source, maxHeldUpRamdisk/2)
				}
			}
		}
		close(f.engine.release)
	})
}

func TestRequestsOfRamdisksDoNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlooded(t, ramdiskSlots/2)
		began := time.Now()
		if got := f.beat(floodSource, otherNode); got != http.StatusServiceUnavailable {
			t.Errorf("a heartbeat that found no turn: got %d, want 503", got)
		}
		if waited := time.Since(began); waited != maxRamdiskWait {
			t.Errorf("it waited %v, want %v", waited, maxRamdiskWait)
		}
		close(f.engine.release)
	})
}
