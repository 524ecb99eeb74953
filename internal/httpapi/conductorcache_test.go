package httpapi

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestNodeShowsAConductorOfItsGroupThatIsAlive(t *testing.T) {
	for group, want := range map[string]any{"": "ingot-1", "row1": "ingot-2", "row2": nil, "row3": nil} {
		s := newServer(t)
		s.engine.conductors = []node.Conductor{
			{Hostname: "ingot-1", Alive: true}, {Hostname: "ingot-2", Group: "row1", Alive: true}, {Hostname: "ingot-3", Group: "row2"},
		}
		s.addNode(uuid1, func(n *node.Node) { n.ConductorGroup = group })
		for what, shown := range map[string]map[string]any{
			"shown":  s.get("/v1/nodes/" + uuid1).want(200).json(),
			"listed": s.get("/v1/nodes?fields=conductor").want(200).json()["nodes"].([]any)[0].(map[string]any),
		} {
			if got := shown["conductor"]; got != want {
				t.Errorf("group %q, %s: conductor %v, want %v", group, what, got, want)
			}
		}
	}
}

func TestListOfAConductorPagesOverItsOwnNodes(t *testing.T) {
	conductors := []node.Conductor{{Hostname: "a", Group: "row1", Alive: true}, {Hostname: "b", Group: "row1", Alive: true}}
	var stored []*node.Node
	want := map[string][]string{}
	for i := range 50 {
		n := &node.Node{UUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), ConductorGroup: "row1"}
		stored = append(stored, n)
		conductor := node.Responsible(n.UUID, "row1", conductors)
		want[conductor] = append(want[conductor], n.UUID)
	}
	for _, limit := range []int{0, 1, 7, 50} {
		for hostname, want := range want {
			own := conductorNodes{hostname: hostname, group: "row1", conductors: conductors, read: func(_ context.Context, q node.Query) ([]*node.Node, error) {
				return pageOf(stored, q, func(n *node.Node) string { return n.UUID })
			}}
			var got []string
			for query := (node.Query{Limit: limit}); ; {
				some, err := own.page(t.Context(), query)
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range some {
					got = append(got, n.UUID)
				}
				if limit == 0 || len(some) < limit {
					break
				}
				query.Marker = got[len(got)-1]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("nodes of %s in pages of %d (-want +got):\n%s", hostname, limit, diff)
			}
		}
	}
}

func TestListOfAConductorGoesOnWhereAPageWasCut(t *testing.T) {
	conductors := []node.Conductor{{Hostname: "a", Group: "row1", Alive: true}, {Hostname: "b", Group: "row1", Alive: true}}
	s := newServer(t)
	s.engine.conductors = conductors
	want := map[string][]any{}
	for i := range 50 {
		uuid := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		s.addNode(uuid, func(n *node.Node) { n.ConductorGroup = "row1" })
		conductor := node.Responsible(uuid, "row1", conductors)
		want[conductor] = append(want[conductor], uuid)
	}
	for _, read := range []int{1, 5} { // with 1, most pages that are read have no node of the conductor
		s.engine.cutNodesAfter = read
		for hostname, want := range want {
			var got []any
			for next, ok := "/v1/nodes?limit=20&conductor="+hostname, true; ok; {
				page := s.get(next).want(200).json()
				for _, n := range page["nodes"].([]any) {
					got = append(got, n.(map[string]any)["uuid"])
				}
				next, ok = page["next"].(string)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("nodes of %s, cut after %d (-want +got):\n%s", hostname, read, diff)
			}
		}
	}
}

func TestConductorsAreCachedAndServedFromTheCacheWhileTheDatabaseIsAway(t *testing.T) {
	engine := &countingEngine{}
	var cache conductorCache
	for _, step := range []struct {
		after time.Duration
		err   error
		reads int
	}{
		{0, nil, 1}, {conductorCacheAge, nil, 1}, {2 * conductorCacheAge, nil, 2}, {4 * conductorCacheAge, errors.New("away"), 3},
	} {
		engine.err = step.err
		known, err := cache.conductors(t.Context(), engine, testTime.Add(step.after))
		if err != nil || len(known) != 1 || engine.reads != step.reads {
			t.Errorf("after %s: %d conductors, %d reads, error %v; want 1, %d and none", step.after, len(known), engine.reads, err, step.reads)
		}
	}
}

// countingEngine has one conductor and counts the calls of Conductors.
type countingEngine struct {
	Service
	reads int
	err   error
}

func (e *countingEngine) Conductors(context.Context) ([]node.Conductor, error) {
	e.reads++
	return []node.Conductor{{Hostname: "ingot-1", Alive: true}}, e.err
}
