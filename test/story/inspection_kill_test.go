package story

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

func TestInspectionKilledAfterItsAnswerCompletes(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		data := t.TempDir()
		killInspection(t, store.Options{Dir: data}, "database.dir="+data)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url := storetest.NewSchema(t)
		killInspection(t, store.Options{URL: url}, "database.url="+url)
	})
}

// manyInterfaces is a number of interfaces with which it takes much longer to process a machine
// than to answer it.
const manyInterfaces = 4000

// killInspection kills an engine that has answered the post of a machine but not processed it yet.
// It then looks into the database that the engine has left, and starts the engine again.
func killInspection(t *testing.T, database store.Options, setting string) {
	t.Helper()
	r := startRack(t, 1, setting)
	uuid := r.register(t, "agent", r.bootMAC(0), nil)
	r.provision(t, uuid, "inspect", "inspect wait")

	document := withInterfaces(t, r.Machine(0).Document(), manyInterfaces)
	status, body := r.call(t, http.MethodPost, "/v1/continue_inspection", document, "")
	r.process.Kill()
	if status != http.StatusOK {
		t.Fatalf("the post was answered with %d %s", status, body)
	}
	left := stateOf(t, database, uuid)
	if left.ProvisionState != node.Inspecting || !left.InspectionFinishedAt.IsZero() {
		t.Fatalf("the engine left the node in %q, want it killed in the middle of the processing", left.ProvisionState)
	}

	r.restart(t)
	n := r.awaitState(t, uuid, "manageable")
	if n.Finished == nil || n.LastError != "" {
		t.Errorf("inspection finished at %v with error %q", n.Finished, n.LastError)
	}
	ports, err := r.engine.Ports(t.Context(), uuid)
	if want := manyInterfaces + stormNICs; err != nil || len(ports) != want {
		t.Errorf("the node has %d ports, %v, want %d", len(ports), err, want)
	}
}

// withInterfaces adds interfaces to an inspection document.
func withInterfaces(t *testing.T, document []byte, count int) []byte {
	t.Helper()
	var added strings.Builder
	for i := range count {
		fmt.Fprintf(&added, `{"name":"vf%d","mac_address":"00:11:22:00:%02x:%02x","has_carrier":true},`, i, i>>8, i&0xff)
	}
	whole := strings.Replace(string(document), `"interfaces":[`, `"interfaces":[`+added.String(), 1)
	if !json.Valid([]byte(whole)) || len(whole) == len(document) {
		t.Fatal("the document has no list of interfaces")
	}
	return []byte(whole)
}

// stateOf reads a node from the database of an engine that does not run.
func stateOf(t *testing.T, database store.Options, uuid string) *node.Node {
	t.Helper()
	s, err := store.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var n *node.Node
	if err := s.Read(t.Context(), func(tx *store.Tx) (err error) {
		n, err = tx.Node(uuid)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
