package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// suspended is a write that stops before its commit until it is told to continue.
type suspended struct {
	goOn chan struct{}
	done chan error
}

// suspend runs a write up to its end and stops it before the commit.
func suspend(t *testing.T, s *store.Store, fn func(*store.Tx) error) *suspended {
	t.Helper()
	w := &suspended{goOn: make(chan struct{}), done: make(chan error, 1)}
	inside := make(chan struct{})
	var once sync.Once
	go func() {
		w.done <- s.Write(context.Background(), func(tx *store.Tx) error {
			err := fn(tx)
			once.Do(func() { close(inside); <-w.goOn })
			return err
		})
	}()
	<-inside
	return w
}

// finish lets the write commit.
func (w *suspended) finish(t *testing.T) {
	t.Helper()
	close(w.goOn)
	if err := <-w.done; err != nil {
		t.Errorf("suspended write: %v", err)
	}
}

// enrolling returns a write that creates a node for an unknown machine, and counts the nodes that
// it created.
func enrolling(macs []string, made *int) func(*store.Tx) error {
	claims := make([]store.Claim, len(macs))
	for i, mac := range macs {
		claims[i] = store.Claim{Kind: store.MAC, Address: mac}
	}
	return func(tx *store.Tx) error {
		*made = 0
		known, err := tx.MatchClaims(claims)
		if err != nil || len(known) > 0 {
			return err
		}
		*made = 1
		n := &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Enroll, AutoDiscovered: true}
		return errors.Join(tx.CreateNode(n), tx.ClaimInventory(n.ID, claims))
	}
}

func TestPostsOfOneMachineMakeOneNode(t *testing.T) {
	stores := replicas(t, 2)
	var made [20]int
	var posts sync.WaitGroup
	for i := range made {
		macs := []string{"52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03"}
		if i%2 == 0 {
			slices.Reverse(macs)
		}
		posts.Go(func() {
			if err := stores[i%2].Write(t.Context(), enrolling(macs, &made[i])); err != nil {
				t.Errorf("post: %v", err)
			}
		})
	}
	posts.Wait()
	total := 0
	for _, count := range made {
		total += count
	}
	if nodes := nodeNames(t, stores[0]); total != 1 || len(nodes) != 1 {
		t.Errorf("%d posts made a node and there are %d nodes, want one", total, len(nodes))
	}
}

func TestWritesToOtherNodesDoNotWait(t *testing.T) {
	stores := replicas(t, 2)
	for _, name := range []string{"a", "b"} {
		createNode(t, stores[0], name)
	}
	read := func(name string) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			before, err := tx.Node(name)
			if err != nil {
				return err
			}
			after := *before
			after.Description = "changed"
			return tx.UpdateNode(before, &after)
		}
	}
	first := suspend(t, stores[0], read("a"))
	for _, s := range stores {
		if err := s.Write(t.Context(), read("b")); err != nil {
			t.Errorf("write beside a suspended one: %v", err)
		}
	}
	first.finish(t)
}

// TestBoundHoldsForWritesAtOnce counts nodes in writes that run at the same time and
// adds one while there are fewer than the bound.
func TestBoundHoldsForWritesAtOnce(t *testing.T) {
	stores := replicas(t, 2)
	const bound = 5
	var writes sync.WaitGroup
	for i := range 30 {
		writes.Go(func() {
			if err := stores[i%2].Write(t.Context(), func(tx *store.Tx) error {
				if err := tx.LockName("test"); err != nil {
					return err
				}
				count, err := tx.CountStates(node.Enroll)
				if err != nil || count >= bound {
					return err
				}
				return tx.CreateNode(&node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Enroll})
			}); err != nil {
				t.Error(err)
			}
		})
	}
	writes.Wait()
	if got := len(nodeNames(t, stores[0])); got != bound {
		t.Errorf("%d nodes, want %d", got, bound)
	}
}

// TestOneLeaseForANode acquires the same lease at the same time, under the lock of
// the node and without.
func TestOneLeaseForANode(t *testing.T) {
	stores := replicas(t, 2)
	n := createNode(t, stores[0], "a")
	var granted, locked int
	var mu sync.Mutex
	var writes sync.WaitGroup
	for i := range 20 {
		writes.Go(func() {
			err := stores[i%2].Write(t.Context(), func(tx *store.Tx) error {
				if i%3 == 0 {
					if _, err := tx.Node("a"); err != nil {
						return err
					}
				}
				_, err := tx.AcquireLease(n.ID, fmt.Sprint("conductor-", i), time.Minute)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				granted++
			case errors.Is(err, node.ErrLocked):
				locked++
			default:
				t.Error(err)
			}
		})
	}
	writes.Wait()
	if granted != 1 || locked != 19 {
		t.Errorf("%d were granted the lease and %d refused, want 1 and 19", granted, locked)
	}
}

// TestCheckpointKeepsItsLease takes over an expired lease while another write, which has checked
// the lease, is about to commit.
func TestCheckpointKeepsItsLease(t *testing.T) {
	database := storetest.Postgres(t)
	clock := storetest.NewClock()
	here, there := openURL(t, database, clock.Now), openURL(t, database, clock.Now)
	n := createNode(t, here, "a")
	var lease node.Lease
	if err := here.Write(t.Context(), func(tx *store.Tx) (err error) {
		lease, err = tx.AcquireLease(n.ID, "here", time.Minute)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	checkpoint := suspend(t, here, func(tx *store.Tx) error {
		if err := tx.CheckLease(n.ID, lease); err != nil {
			return err
		}
		return tx.AddEvent(&node.Event{UUID: uuid.NewString(), NodeID: n.ID, Severity: node.SeverityInfo, Type: "test", Message: "checkpoint"})
	})
	clock.Advance(time.Minute)
	taken := make(chan int, 1)
	go func() {
		events := -1
		if err := there.Write(context.Background(), func(tx *store.Tx) error {
			if _, err := tx.AcquireLease(n.ID, "there", time.Minute); err != nil {
				return err
			}
			found, err := tx.Events(n.ID)
			events = len(found)
			return err
		}); err != nil {
			t.Error(err)
		}
		taken <- events
	}()
	checkpoint.finish(t)
	if events := <-taken; events != 1 {
		t.Errorf("the next holder sees %d checkpoints, want the one of the write before", events)
	}
}

// TestReferredRecordIsNotDeleted looks for the members of a chassis while one joins.
func TestReferredRecordIsNotDeleted(t *testing.T) {
	stores := replicas(t, 2)
	chassis := &node.Chassis{}
	if err := stores[0].Write(t.Context(), func(tx *store.Tx) error { return store.Chassis.Create(tx, chassis) }); err != nil {
		t.Fatal(err)
	}
	joining := suspend(t, stores[0], func(tx *store.Tx) error {
		if _, err := store.Chassis.Refer(tx, chassis.UUID); err != nil {
			return err
		}
		return tx.CreateNode(&node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Enroll, ChassisUUID: chassis.UUID})
	})
	members := make(chan int, 1)
	go func() {
		count := -1
		if err := stores[1].Write(context.Background(), func(tx *store.Tx) error {
			if _, err := store.Chassis.Get(tx, chassis.UUID); err != nil {
				return err
			}
			nodes, err := tx.Nodes(node.Query{Filters: []node.Filter{{Field: "chassis_uuid", Value: chassis.UUID}}})
			count = len(nodes)
			return err
		}); err != nil {
			t.Error(err)
		}
		members <- count
	}()
	joining.finish(t)
	if got := <-members; got != 1 {
		t.Errorf("who may delete the chassis sees %d nodes in it, want 1", got)
	}
}

// TestTakenValueIsAConflictForWritesAtOnce gives two nodes one name at once.
func TestTakenValueIsAConflictForWritesAtOnce(t *testing.T) {
	stores := replicas(t, 2)
	for _, name := range []string{"a", "b"} {
		createNode(t, stores[0], name)
	}
	answers := make(chan error, 2)
	for i, name := range []string{"a", "b"} {
		go func() {
			answers <- stores[i].Write(context.Background(), func(tx *store.Tx) error {
				before, err := tx.Node(name)
				if err != nil {
					return err
				}
				after := *before
				after.Name = "c"
				return tx.UpdateNode(before, &after)
			})
		}()
	}
	one, other := <-answers, <-answers
	var conflict *node.ConflictError
	if (one == nil) == (other == nil) || !errors.As(errors.Join(one, other), &conflict) {
		t.Errorf("answers %v and %v, want one conflict", one, other)
	}
}

// TestWritesThatWaitForEachOtherBothEnd locks two nodes in opposite orders.
func TestWritesThatWaitForEachOtherBothEnd(t *testing.T) {
	stores := replicas(t, 2)
	for _, name := range []string{"a", "b"} {
		createNode(t, stores[0], name)
	}
	var met sync.WaitGroup
	met.Add(2)
	answers := make(chan error, 2)
	for i, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		var once sync.Once
		go func() {
			answers <- stores[i].Write(context.Background(), func(tx *store.Tx) error {
				for _, name := range order {
					before, err := tx.Node(name)
					if err != nil {
						return err
					}
					once.Do(func() { met.Done(); met.Wait() })
					after := *before
					after.Description += order[0]
					if err := tx.UpdateNode(before, &after); err != nil {
						return err
					}
				}
				return nil
			})
		}()
	}
	if err := errors.Join(<-answers, <-answers); err != nil {
		t.Errorf("writes: %v", err)
	}
}

func TestViewSeesWhatCommitsAfterWhatCameLater(t *testing.T) {
	opts := store.Options{URL: storetest.NewSchema(t)}
	v := view(t, opts)
	old := v.node()
	mark := v.since(store.BootMark{}).Mark
	late := &node.Node{UUID: uuid.NewString(), Driver: "fake-hardware", ProvisionState: node.Enroll}
	slow := suspend(t, v.s, func(tx *store.Tx) error {
		before, err := tx.Node(old.UUID)
		if err != nil {
			return err
		}
		after := *before
		after.ProvisionState = node.InspectWait
		return errors.Join(tx.UpdateNode(before, &after), tx.CreateNode(late))
	})
	quick := v.node("52:54:00:00:00:01")
	changes := v.since(mark)
	v.want(changes, 2, 1, store.BootNode{UUID: quick.UUID, State: node.Enroll, MACs: []string{"52:54:00:00:00:01"}})
	slow.finish(t)
	seen := map[string]node.State{}
	for _, n := range v.since(changes.Mark).Nodes {
		seen[n.UUID] = n.State
	}
	if seen[old.UUID] != node.InspectWait || seen[late.UUID] != node.Enroll {
		t.Errorf("read %v, want the node that was changed and the one that was created before", seen)
	}
	if again := v.since(v.since(changes.Mark).Mark); len(again.Nodes) != 0 {
		t.Errorf("read %d nodes although nothing has changed", len(again.Nodes))
	}
}

func TestNodesThatCommitLateAreCounted(t *testing.T) {
	s := replicas(t, 1)[0]
	var made int
	late := suspend(t, s, enrolling([]string{"52:54:00:00:00:01"}, &made))
	if err := s.Write(t.Context(), enrolling([]string{"52:54:00:00:00:02"}, &made)); err != nil {
		t.Fatal(err)
	}
	count := func(after int64) (found store.Discovered) {
		t.Helper()
		if err := s.Read(t.Context(), func(tx *store.Tx) (err error) {
			found, err = tx.DiscoveredAfter(after)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	first := count(0)
	if first.Count+first.Newer != 1 {
		t.Errorf("counted %+v, want one node", first)
	}
	late.finish(t)
	if rest := count(first.Last); first.Count+rest.Count+rest.Newer != 2 {
		t.Errorf("counted %+v, then %+v; want two nodes", first, rest)
	}
}

// TestManyWritesToOneNodeLeaveConnectionsToOthers has another process stop in a write to a node,
// while many requests of this process want to write to that node.
func TestManyWritesToOneNodeLeaveConnectionsToOthers(t *testing.T) {
	const connections = 4
	database := storetest.Postgres(t)
	other := openURL(t, database, nil)
	s := openWith(t, store.Options{URL: database, WriteConnections: connections})
	locked, free := createNode(t, s, "locked"), createNode(t, s, "free")
	first := suspend(t, other, func(tx *store.Tx) error { return describe(tx, locked.UUID, "first") })

	var writes sync.WaitGroup
	for i := range 5 * connections {
		writes.Go(func() {
			if err := s.Write(t.Context(), func(tx *store.Tx) error { return describe(tx, locked.UUID, fmt.Sprint(i)) }); err != nil {
				t.Errorf("write to the node that others write to: %v", err)
			}
		})
	}
	// After 5 seconds the server would end the suspended write.
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	for i, began := 0, time.Now(); time.Since(began) < time.Second; i++ { // by then all others have begun
		if err := s.Write(ctx, func(tx *store.Tx) error { return describe(tx, free.UUID, fmt.Sprint(i)) }); err != nil {
			t.Errorf("write to another node: %v", err)
			break
		}
	}
	first.finish(t)
	writes.Wait()
}

// TestManyWritesOfOneNodeLeaveConnectionsToOthers has another process stop in a write to a node,
// while many requests of this process want to write to records of that node.
func TestManyWritesOfOneNodeLeaveConnectionsToOthers(t *testing.T) {
	const connections = 4
	database := storetest.Postgres(t)
	other := openURL(t, database, nil)
	s := openWith(t, store.Options{URL: database, WriteConnections: connections})
	locked, free := createNode(t, s, "locked"), createNode(t, s, "free")
	ports := make([]*node.Port, 5*connections)
	for i := range ports {
		ports[i] = &node.Port{UUID: uuid.NewString(), NodeUUID: locked.UUID, NodeID: locked.ID, Address: fmt.Sprintf("52:54:00:00:00:%02x", i)}
		if err := s.Write(t.Context(), func(tx *store.Tx) error { return tx.CreatePort(ports[i]) }); err != nil {
			t.Fatal(err)
		}
	}
	first := suspend(t, other, func(tx *store.Tx) error { return describe(tx, locked.UUID, "first") })

	var writes sync.WaitGroup
	for _, p := range ports {
		writes.Go(func() {
			if err := s.Write(t.Context(), func(tx *store.Tx) error {
				_, err := tx.Port(p.UUID)
				return err
			}); err != nil {
				t.Errorf("write to a port of the node that stands still: %v", err)
			}
		})
	}
	awaitLock(t, s)
	// After 5 seconds the server would end the suspended write.
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	for i, began := 0, time.Now(); time.Since(began) < time.Second; i++ { // by then all others have begun
		if err := s.Write(ctx, func(tx *store.Tx) error { return describe(tx, free.UUID, fmt.Sprint(i)) }); err != nil {
			t.Errorf("write to another node: %v", err)
			break
		}
	}
	first.finish(t)
	writes.Wait()
}

// describe changes a node.
func describe(tx *store.Tx, ident, text string) error {
	before, err := tx.Node(ident)
	if err != nil {
		return err
	}
	after := *before
	after.Description = text
	return tx.UpdateNode(before, &after)
}

// TestLeasesAreGivenBackBesideAWriteThatEndsABusyTime has a call return while its conductor
// gives everything back.
func TestLeasesAreGivenBackBesideAWriteThatEndsABusyTime(t *testing.T) {
	stores := replicas(t, 2)
	n := createNode(t, stores[0], "a")
	var lease node.Lease
	if err := stores[0].Write(t.Context(), func(tx *store.Tx) (err error) {
		if lease, err = tx.AcquireLease(n.ID, "here", time.Minute); err != nil {
			return err
		}
		return tx.SetBusy(&lease, tx.Now().Add(time.Minute), 0)
	}); err != nil {
		t.Fatal(err)
	}
	returns := suspend(t, stores[0], func(tx *store.Tx) error {
		ended := lease
		if err := tx.EndBusy(&ended); err != nil {
			return err
		}
		_, err := tx.LeasesOf([]string{n.UUID}) // sends it
		return err
	})
	dropped := make(chan error, 1)
	go func() {
		dropped <- stores[1].Write(context.Background(), func(tx *store.Tx) error { return tx.EndLeasesKeepBusy("here") })
	}()
	awaitLock(t, stores[0])
	returns.finish(t)
	if err := <-dropped; err != nil {
		t.Errorf("give leases back: %v", err)
	}
}

// TestLeasesAreRenewedBesideAWriteThatIsAtOne renews leases while a write that has changed one of
// them stops before its commit.
func TestLeasesAreRenewedBesideAWriteThatIsAtOne(t *testing.T) {
	stores := replicas(t, 2)
	var leases [2]node.Lease
	var uuids [2]string
	for i := range leases {
		n := createNode(t, stores[0], fmt.Sprint("node-", i))
		uuids[i] = n.UUID
		if err := stores[0].Write(t.Context(), func(tx *store.Tx) (err error) {
			leases[i], err = tx.AcquireLease(n.ID, "here", time.Minute)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	at := suspend(t, stores[0], func(tx *store.Tx) error {
		lease := leases[0]
		return tx.SetBusy(&lease, tx.Now().Add(time.Second), 0)
	})
	// After 5 seconds the server would end the suspended write.
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var lost []int64
	if err := stores[1].Write(ctx, func(tx *store.Tx) (err error) {
		lost, err = tx.RenewLeases("here", []int64{leases[0].Epoch, leases[1].Epoch, leases[1].Epoch + 100}, time.Hour)
		return err
	}); err != nil || !slices.Equal(lost, []int64{leases[1].Epoch + 100}) {
		t.Errorf("lost %v, %v; want the one that there never was", lost, err)
	}
	at.finish(t)
	if err := stores[0].Read(t.Context(), func(tx *store.Tx) error {
		found, err := tx.LeasesOf(uuids[1:])
		if renewed := found[uuids[1]]; renewed.ExpiresAt.Sub(leases[1].ExpiresAt) < 30*time.Minute {
			t.Errorf("the other lease is %+v, want it renewed", renewed)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// awaitLock waits until a write of this database waits for another one.
func awaitLock(t *testing.T, s *store.Store) {
	t.Helper()
	for began, waiting := time.Now(), []string{"0"}; waiting[0] == "0"; {
		if time.Since(began) > 10*time.Second {
			t.Fatal("no write waits for another one")
		}
		if err := s.Read(t.Context(), func(tx *store.Tx) (err error) {
			waiting, err = tx.Texts(`SELECT count(*)::text FROM pg_locks JOIN pg_stat_activity USING (pid)
				WHERE NOT granted AND datname = current_database()`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
