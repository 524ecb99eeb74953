package store_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// crowd stores many nodes: a third of them with work that waits for a time to come,
// a third with work under a lease, and a third that is available. None of the last ones
// is, because for few nodes behind a random place no index is better than another.
const crowd = `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 3000)
	INSERT INTO nodes (uuid, driver, provision_state, resource_class, created_at)
	SELECT 'node-' || n, 'fake-hardware', CASE WHEN n % 3 = 0 AND n <= 2400 THEN 'available' ELSE 'clean wait' END, 'x', 1 FROM numbers`

var crowdWork = []string{
	"INSERT INTO leases (node_id, owner, expires_at) SELECT id, 'other', 9000000000000000 FROM nodes WHERE provision_state <> 'available' AND id % 3 = 1",
	`INSERT INTO work (node_id, kind, not_before, created_at, epoch)
		SELECT id, 'test', CASE WHEN id % 3 = 1 THEN 1 ELSE 9000000000000000 END, 1, (SELECT epoch FROM leases WHERE node_id = nodes.id)
		FROM nodes WHERE provision_state <> 'available'`,
	"ANALYZE nodes", "ANALYZE work", "ANALYZE leases",
}

// TestFrequentQueriesFollowAnIndex reads the plans of frequent statements, on tables in which
// almost nothing is due.
func TestFrequentQueriesFollowAnIndex(t *testing.T) {
	onBoth(t, func(t *testing.T, opts store.Options) {
		t.Helper()
		s, err := store.Open(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, statement := range append([]string{crowd}, crowdWork...) {
			if err := s.Write(t.Context(), func(tx *store.Tx) error { return tx.Exec(statement) }); err != nil {
				t.Fatal(err)
			}
		}
		scope := store.WorkScope{Kinds: []store.WorkKind{"test", "other"}, NotGroups: []string{"row1"}, InUse: []int64{1, 2, 3}}
		for name, test := range map[string]struct {
			run  func(*store.Tx) error
			want []string
		}{
			"claim work": {func(tx *store.Tx) error {
				_, err := tx.ClaimWork("here", time.Minute, 64, scope)
				return err
			}, []string{"work_free", "leases_expiry"}},
			"next due": {func(tx *store.Tx) error {
				_, _, err := tx.NextDue(scope)
				return err
			}, []string{"work_free", "leases_expiry"}},
			"candidates": {func(tx *store.Tx) error {
				_, err := tx.AllocationCandidates(&node.Allocation{ResourceClass: "x"}, 10)
				return err
			}, []string{"nodes_free"}},
			"leases of some nodes": {func(tx *store.Tx) error {
				_, err := tx.LeasesOf([]string{"node-7", "node-8", "node-9"})
				return err
			}, []string{"nodes_uuid", "leases_node"}},
			"changed nodes": {func(tx *store.Tx) error {
				_, _, err := tx.PowerNodesSince(time.UnixMicro(1000), 2990, 1000)
				return err
			}, []string{"nodes_updated_at"}},
			"versions of some nodes": {func(tx *store.Tx) error {
				_, err := tx.PowerVersions([]int64{7, 8, 9})
				return err
			}, []string{"leases_node"}},
		} {
			plans, err := s.Plans(t.Context(), test.run)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			all := strings.Join(plans, "\n")
			for _, index := range test.want {
				if !strings.Contains(all, index) {
					t.Errorf("%s does not use the index %s:\n%s", name, index, all)
				}
			}
			for _, slow := range []string{"Seq Scan", "Sort", "TEMP B-TREE", "SCAN nodes\n", "SCAN work\n", "SCAN leases\n"} {
				if strings.Contains(all, slow) {
					t.Errorf("%s has a step %q:\n%s", name, slow, all)
				}
			}
		}
	})
}

// TestNewTablesAreReadByIndex reads plans that the server makes before it knows how
// many rows there are, and keeps while the first machines come.
func TestNewTablesAreReadByIndex(t *testing.T) {
	s := replicas(t, 1)[0]
	for name, test := range map[string]struct {
		run  func(*store.Tx) error
		want string // index
	}{
		"claims": {func(tx *store.Tx) error {
			_, err := tx.MatchClaims([]store.Claim{{Kind: store.MAC, Address: "52:54:00:00:00:01"}, {Kind: store.MAC, Address: "52:54:00:00:00:02"}, {Kind: store.BMC, Address: "192.0.2.1"}})
			return err
		}, "claims_pkey"},
		"owners of ports": {func(tx *store.Tx) error {
			_, err := tx.PortOwners([]string{"52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03", "52:54:00:00:00:04"})
			return err
		}, "ports_address"},
		"owners by inventory": {func(tx *store.Tx) error {
			_, err := tx.InventoryOwners(1, []string{"52:54:00:00:00:01", "52:54:00:00:00:02"})
			return err
		}, "claims_pkey"},
		"ports of a node": {func(tx *store.Tx) error {
			_, err := tx.PortsOf(1)
			return err
		}, "ports_node"},
		"a node": {func(tx *store.Tx) error {
			_, err := tx.Node("node-7")
			if errors.Is(err, node.ErrNotFound) {
				err = nil
			}
			return err
		}, "nodes_uuid"},
		"claims that are replaced": {func(tx *store.Tx) error {
			return tx.ClaimInventory(1, nil)
		}, "claims_node"},
	} {
		plans, err := s.Plans(t.Context(), test.run)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(strings.Join(plans, "\n"), test.want) {
			t.Errorf("%s does not use the index %s:\n%s", name, test.want, strings.Join(plans, "\n"))
		}
		for _, plan := range plans {
			if strings.Contains(plan, "Seq Scan") {
				t.Errorf("%s: a whole table is read:\n%s", name, plan)
			}
		}
	}
}

// TestAddressesAreFoundByIndexWhateverTheServerBelieves reads plans that the server makes with
// statistics of empty tables, for which all plans seem equally cheap.
func TestAddressesAreFoundByIndexWhateverTheServerBelieves(t *testing.T) {
	s := replicas(t, 1)[0]
	for _, table := range []string{"nodes", "claims", "ports"} {
		if err := s.Write(t.Context(), func(tx *store.Tx) error { return tx.Exec("ANALYZE " + table) }); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		run  func(*store.Tx) error
		want []string // indexes
	}{
		"claims": {func(tx *store.Tx) error {
			_, err := tx.MatchClaims([]store.Claim{{Kind: store.MAC, Address: "52:54:00:00:00:01"}, {Kind: store.BMC, Address: "192.0.2.1"}})
			return err
		}, []string{"claims_pkey", "ports_address"}},
		"owners of ports": {func(tx *store.Tx) error {
			_, err := tx.PortOwners([]string{"52:54:00:00:00:01", "52:54:00:00:00:02"})
			return err
		}, []string{"ports_address"}},
		"ports of a machine": {func(tx *store.Tx) error {
			_, err := tx.MachinePorts(1, []string{"52:54:00:00:00:01", "52:54:00:00:00:02"})
			return err
		}, []string{"ports_node", "ports_address"}},
	} {
		plans, err := s.Plans(t.Context(), test.run)
		if err != nil {
			t.Fatal(err)
		}
		plan := plans[len(plans)-1]
		for _, index := range test.want {
			if !regexp.MustCompile(`using ` + index + ` [^\n]*\n\s*Index Cond`).MatchString(plan) {
				t.Errorf("%s are not looked up in %s:\n%s", name, index, plan)
			}
		}
	}
}

// TestWritesArePlannedOnce looks for statements that the server plans anew for the values of each write.
func TestWritesArePlannedOnce(t *testing.T) {
	s := replicas(t, 1)[0]
	var anew, once []string
	for range 8 { // the server tries five plans for values at first
		if err := s.Write(t.Context(), func(tx *store.Tx) error {
			_, err := tx.MatchClaims([]store.Claim{{Kind: store.MAC, Address: "52:54:00:00:00:01"}, {Kind: store.BMC, Address: "192.0.2.1"}})
			if err != nil {
				return err
			}
			if once, err = tx.Texts("SELECT statement FROM pg_prepared_statements WHERE generic_plans > 0 AND statement LIKE '%claims%'"); err != nil {
				return err
			}
			anew, err = tx.Texts("SELECT statement FROM pg_prepared_statements WHERE custom_plans > 0")
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(once) == 0 {
		t.Error("the search for addresses is not prepared")
	}
	for _, statement := range anew {
		t.Errorf("planned anew for each write: %s", statement)
	}
}

// withoutIndex lists the columns that refer to another table and that no index begins with.
const withoutIndex = `SELECT child.name || '.' || parent."from" FROM sqlite_master AS child, pragma_foreign_key_list(child.name) AS parent
	WHERE child.type = 'table'
	AND NOT EXISTS (SELECT 1 FROM pragma_table_info(child.name) AS c WHERE c.name = parent."from" AND c.pk = 1)
	AND NOT EXISTS (SELECT 1 FROM pragma_index_list(child.name) AS i, pragma_index_info(i.name) AS c
		WHERE (i.partial = 0 OR EXISTS (SELECT 1 FROM sqlite_master AS s WHERE s.name = i.name AND s.sql LIKE '%WHERE ' || c.name || ' IS NOT NULL'))
		AND c.seqno = 0 AND c.name = parent."from") ORDER BY 1`

// TestReferencesHaveAnIndex looks for references without an index. For each deleted row the
// database searches the rows that refer to it, and without an index it reads the whole table.
func TestReferencesHaveAnIndex(t *testing.T) {
	s, err := store.Open(t.Context(), store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Read(t.Context(), func(tx *store.Tx) error {
		missing, err := tx.Texts(withoutIndex)
		for _, column := range missing {
			t.Errorf("no index begins with %s", column)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
