package pxefilter

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/ingot-metal/ingot/internal/store"
)

// database is a database in memory. Every change of it is a commit.
type database struct {
	mu      sync.Mutex
	nodes   map[int64]store.BootNode
	changed map[int64]int // commit in which a node was changed last
	commits int
	writes  int   // commits that changed nodes
	gone    error // what everything answers while it is not nil

	opened, tokens, reads, wholeReads int
}

func newDatabase() *database {
	return &database{nodes: map[int64]store.BootNode{}, changed: map[int64]int{}}
}

// put creates or replaces nodes.
func (d *database) put(nodes ...store.BootNode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commits++
	d.writes++
	for _, n := range nodes {
		d.nodes[n.ID], d.changed[n.ID] = n, d.commits
	}
}

// secretly changes a node as the change of a port's address does, which does not
// show in what changed since.
func (d *database) secretly(n store.BootNode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commits++
	d.writes++
	d.nodes[n.ID] = n
}

func (d *database) drop(id int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commits++
	d.writes++
	delete(d.nodes, id)
}

// elsewhere commits something that is about no node.
func (d *database) elsewhere() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commits++
}

func (d *database) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = err
}

func (d *database) counts() (tokens, reads, wholeReads int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tokens, d.reads, d.wholeReads
}

func (d *database) timesOpened() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened
}

func (d *database) open(context.Context) (view, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone != nil {
		return nil, d.gone
	}
	d.opened++
	return &fakeView{database: d}, nil
}

// fakeView gives the number of a commit as mark.
type fakeView struct {
	*database
	closed bool
}

var errClosed = errors.New("view is closed")

func (v *fakeView) Token(context.Context) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tokens++
	if v.closed {
		return "", errClosed
	}
	return strconv.Itoa(v.commits), v.gone
}

func (v *fakeView) Sum(context.Context) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strconv.Itoa(v.writes), v.gone
}

func (v *fakeView) Since(_ context.Context, mark store.BootMark) (store.BootChanges, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gone != nil || v.closed {
		return store.BootChanges{}, errors.Join(v.gone, errClosed)
	}
	v.reads++
	whole := mark == store.BootMark{}
	if whole {
		v.wholeReads++
	}
	changes := store.BootChanges{NodeCount: len(v.nodes), Mark: store.BootMark{Node: int64(v.commits)}}
	for id, n := range v.nodes {
		changes.PortCount += len(n.MACs)
		if whole || v.changed[id] > int(mark.Node) {
			n.MACs = slices.Clone(n.MACs)
			changes.Nodes = append(changes.Nodes, n)
		}
	}
	return changes, nil
}

func (v *fakeView) Close(context.Context) error {
	v.closed = true
	return nil
}
