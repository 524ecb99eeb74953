package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

func TestCommitWhoseAnswerIsLostCountsOnce(t *testing.T) {
	for name, test := range map[string]struct {
		arm  func(p *storetest.Proxy)
		runs int
	}{
		"after it happened":  {func(p *storetest.Proxy) { p.Lose("COMMIT\x00") }, 1},
		"before it happened": {func(p *storetest.Proxy) { p.Cut("COMMIT\x00") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			p, database := storetest.ThroughProxy(t, storetest.Postgres(t))
			s := openURL(t, database, nil)
			test.arm(p)
			runs := 0
			if err := s.Write(t.Context(), func(tx *store.Tx) error {
				runs++
				return small("once")(tx)
			}); err != nil {
				t.Fatalf("write: %v", err)
			}
			if got := nodeNames(t, s); !slices.Equal(got, []string{"once"}) || runs != test.runs {
				t.Errorf("nodes = %v after %d runs, want one after %d", got, runs, test.runs)
			}
		})
	}
}

// TestPortsAreNotPrefetchedInPart loses the answer to the batch that both commits and reads ports.
func TestPortsAreNotPrefetchedInPart(t *testing.T) {
	p, database := storetest.ThroughProxy(t, storetest.Postgres(t))
	s := openURL(t, database, nil)
	n := createNode(t, s, "a")
	for i, arm := range []func(string){func(string) {}, p.Lose} {
		arm("COMMIT\x00")
		prefetched := 0
		if err := s.Write(t.Context(), func(tx *store.Tx) error {
			err := tx.AddPorts(n.ID, []*node.Port{{UUID: uuid.NewString(), Address: fmt.Sprintf("52:54:00:00:00:%02x", i)}})
			return errors.Join(err, tx.PrefetchMachinePorts(n.ID, nil, func(ports *store.MachinePorts) {
				prefetched = len(ports.Own)
			}))
		}); err != nil {
			t.Fatalf("write: %v", err)
		}
		if want := 1 - i; prefetched != want {
			t.Errorf("prefetched %d ports, want %d", prefetched, want)
		}
	}
}

func TestCommitWithUnknownOutcomeSaysSo(t *testing.T) {
	t.Parallel() // it waits out the time to ask
	p, database := storetest.ThroughProxy(t, storetest.Postgres(t))
	s := openURL(t, database, nil)
	p.Lose("COMMIT\x00")
	p.Refuse(true)
	err := s.Write(t.Context(), small("perhaps"))
	if !errors.Is(err, node.ErrUnavailable) || !strings.Contains(err.Error(), "not known") {
		t.Errorf("error = %v, want one that says that the outcome is not known", err)
	}
	p.Refuse(false)
	if got := nodeNames(t, s); !slices.Equal(got, []string{"perhaps"}) {
		t.Errorf("nodes = %v, want the one of the commit", got)
	}
}

func TestUnreachableServerIsAnOutageThatEnds(t *testing.T) {
	p, database := storetest.ThroughProxy(t, storetest.Postgres(t))
	s := openURL(t, database, nil)
	createNode(t, s, "before")
	p.Refuse(true)
	p.Disconnect()
	for what, err := range map[string]error{
		"write": s.Write(t.Context(), small("lost")),
		"read":  s.Read(t.Context(), func(tx *store.Tx) error { _, err := tx.Nodes(node.Query{}); return err }),
		"ping":  s.Ping(t.Context()),
	} {
		if !errors.Is(err, node.ErrUnavailable) {
			t.Errorf("%s: error = %v, want %v", what, err, node.ErrUnavailable)
		}
	}
	p.Refuse(false)
	createNode(t, s, "after")
	if got := nodeNames(t, s); !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("nodes = %v, want those whose writes succeeded", got)
	}
}

// TestWriteThatFindsNoSpaceTakesNoOtherAlong fills the disk of a server, and then runs large and
// small writes side by side.
func TestWriteThatFindsNoSpaceTakesNoOtherAlong(t *testing.T) {
	disk := storetest.NewDisk(t, 24<<20)
	s := openURL(t, disk.Postgres(), nil)
	createNode(t, s, "before")
	free := disk.Fill()
	var answers sync.Map // errors by name
	var running sync.WaitGroup
	for i := range 60 {
		running.Go(func() {
			name, write := fmt.Sprint("group-", i), small
			if i%4 == 0 {
				write = incompressible
			}
			answers.Store(name, s.Write(context.Background(), write(name)))
		})
	}
	running.Wait()
	present := nodeNames(t, s)
	succeeded, failed := 0, 0
	answers.Range(func(name, value any) bool {
		err, _ := value.(error)
		switch {
		case slices.Contains(present, name.(string)) != (err == nil):
			t.Errorf("%s was answered with %v, which is not true", name, err)
		case err == nil:
			succeeded++
		case !errors.Is(err, node.ErrUnavailable) || !strings.Contains(err.Error(), "disk of the database is full"):
			t.Errorf("%s: error = %v, want one that tells of the disk", name, err)
		default:
			failed++
		}
		return true
	})
	if succeeded < 5 || failed < 10 {
		t.Errorf("%d writes succeeded and %d failed, want the small ones to succeed and the large to fail", succeeded, failed)
	}
	free()
	createNode(t, s, "after")
	if got := nodeNames(t, s); !slices.Equal(got, append(present, "after")) {
		t.Errorf("nodes = %v, want %v and one more", got, present)
	}
}

// incompressible is a write that needs some hundred kilobytes.
func incompressible(name string) func(*store.Tx) error {
	random := make([]byte, 200<<10)
	_, _ = rand.Read(random) // never fails
	return func(tx *store.Tx) error {
		return tx.CreateNode(&node.Node{
			UUID: uuid.NewString(), Name: name, Driver: "fake-hardware", ProvisionState: node.Enroll,
			Extra: node.ObjectOf(map[string]any{"pad": random}),
		})
	}
}

// asVictim returns the URL with a name by which the server knows its sessions,
// and a function that ends them.
func asVictim(t *testing.T, database string) (victim string, terminate func()) {
	t.Helper()
	parsed, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := parsed.Query()
	name := "victim-of-" + query.Get("search_path")
	query.Set("application_name", name[:min(len(name), 63)])
	parsed.RawQuery = query.Encode()
	return parsed.String(), func() {
		conn, err := pgx.Connect(context.Background(), database)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(),
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", name[:min(len(name), 63)]); err != nil {
			t.Error(err)
		}
	}
}

func TestSessionsThatTheServerEndsLoseNothing(t *testing.T) {
	victim, terminate := asVictim(t, storetest.Postgres(t))
	s := openURL(t, victim, nil)
	runs := 0
	if err := s.Write(t.Context(), func(tx *store.Tx) error {
		if err := small("a")(tx); err != nil {
			return err
		}
		if runs++; runs == 1 {
			terminate()
		}
		return nil
	}); err != nil {
		t.Fatalf("write: %v", err)
	}
	if got := nodeNames(t, s); !slices.Equal(got, []string{"a"}) || runs != 2 {
		t.Errorf("nodes = %v after %d runs, want one after 2", got, runs)
	}
	terminate()
	createNode(t, s, "b")
	if got := nodeNames(t, s); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("nodes = %v, want both", got)
	}
}

// TestPausedProcessHoldsNobodyUp stops one process in the middle of a write, as
// SIGSTOP does, while another changes the same node.
func TestPausedProcessHoldsNobodyUp(t *testing.T) {
	t.Parallel() // it waits for the server to end an idle transaction
	database := storetest.Postgres(t)
	paused, other := openURL(t, database, nil), openURL(t, database, nil)
	createNode(t, other, "a")
	describe := func(s *store.Store, text string, between func()) error {
		return s.Write(context.Background(), func(tx *store.Tx) error {
			before, err := tx.Node("a")
			if err != nil {
				return err
			}
			if before.Description != "" {
				return node.ErrLeaseLost // somebody else was faster
			}
			between()
			after := *before
			after.Description = text
			return tx.UpdateNode(before, &after)
		})
	}
	inside, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error)
	var once sync.Once
	go func() {
		done <- describe(paused, "stale", func() { once.Do(func() { close(inside); <-goOn }) })
	}()
	<-inside
	began := time.Now()
	if err := describe(other, "fresh", func() {}); err != nil {
		t.Errorf("write of the other process: %v", err)
	}
	if took := time.Since(began); took > 11*time.Second {
		t.Errorf("the other process waited for %v", took)
	}
	close(goOn)
	if err := <-done; !errors.Is(err, node.ErrLeaseLost) {
		t.Errorf("paused write: %v, want it to see what happened meanwhile", err)
	}
}

// TestNumberThatACrashedServerGivesAgainProvesNothing loses a transaction with a server
// that crashes before anything of it was on disk. The server then gives its number to
// another one, which succeeds.
func TestNumberThatACrashedServerGivesAgainProvesNothing(t *testing.T) {
	for name, crash := range map[string]func(*testing.T, *storetest.Server, *pgx.Conn){
		"server crashes": func(t *testing.T, server *storetest.Server, _ *pgx.Conn) {
			t.Helper()
			if err := errors.Join(server.Halt(storetest.Crash), server.Start()); err != nil {
				t.Fatal(err)
			}
		},
		"one of its sessions crashes": func(t *testing.T, server *storetest.Server, session *pgx.Conn) {
			t.Helper()
			witness := connectTo(t, server.URL)
			if err := syscall.Kill(int(session.PgConn().PID()), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			for witness.Ping(t.Context()) == nil { // until the server has ended the others
				continue
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.NewServer(t)
			p, database := storetest.ThroughProxy(t, server.URL)
			s := openURL(t, database, nil)
			createNode(t, s, "a")
			watcher := connectTo(t, server.URL)
			hung, answer := make(chan func(), 1), make(chan error, 1)
			hang := sync.OnceFunc(func() { hung <- p.Hang() })
			go func() {
				answer <- s.Write(context.Background(), func(tx *store.Tx) error {
					before, err := tx.Node("a") // which gives the transaction its number
					if err != nil {
						return err
					}
					hang()
					after := *before
					after.Description = "changed"
					return tx.UpdateNode(before, &after) // which is sent with the commit
				})
			}()
			resume := <-hung
			defer resume()
			var lost, taken int64
			if err := watcher.QueryRow(t.Context(), "SELECT max(backend_xid::text::bigint) FROM pg_stat_activity").Scan(&lost); err != nil {
				t.Fatal(err)
			}
			crash(t, server, watcher)
			for other := connectTo(t, server.URL); taken < lost; {
				if err := other.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text::bigint").Scan(&taken); err != nil {
					t.Fatal(err)
				}
			}
			if taken != lost {
				t.Fatalf("the server has not given number %d again, it is at %d", lost, taken)
			}
			resume()
			if err := <-answer; !errors.Is(err, node.ErrUnavailable) || !strings.Contains(err.Error(), "not known") {
				t.Errorf("write: %v, want an error that says that the outcome is not known", err)
			}
			if err := s.Read(t.Context(), func(tx *store.Tx) error {
				n, err := tx.Node("a")
				if err == nil && n.Description != "" {
					t.Errorf("node = %+v, want it unchanged", n)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// connectTo connects to a server as soon as it takes connections.
func connectTo(t *testing.T, server string) *pgx.Conn {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		conn, err := pgx.Connect(t.Context(), server)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close(context.Background()) }) // its server may be gone
			return conn
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
