package store

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ingot-metal/ingot/internal/node"
)

// Errors of a BootView that no waiting mends.
var (
	// ErrUnknownSchema says that a program newer than this one has written the
	// database. Only another version of the program helps.
	ErrUnknownSchema = errors.New("schema is not known")
	// ErrWrongURL says that a text is no URL of a PostgreSQL database.
	ErrWrongURL = errors.New("its URL is not understood")
)

// BootNode is what decides whether the machine of a node may boot from the
// network.
type BootNode struct {
	ID               int64
	UUID             string
	State            node.State
	InspectInterface string
	MACs             []string // of its ports, as they are stored
	Provisional      bool     // discovered, and no person has accepted it
	// Doubtful says that the database is a copy of an older state, and nothing has
	// happened to the node since a person has to decide about it.
	Doubtful bool
}

// BootMark is how far a BootView has been read. The zero value is its beginning.
type BootMark struct {
	Updated    int64 // latest change of a node, in microseconds since 1970
	Node, Port int64 // keys up to which all nodes and ports are known
	// Horizon is set where changes are committed in another order than that of their
	// times and keys: whatever transactions below it changed is known.
	Horizon int64
	// Doubt is since when nodes are doubtful that nothing has happened to, in
	// microseconds since 1970; 0 when none is.
	Doubt int64
}

// BootChanges is what one reading of a BootView found.
type BootChanges struct {
	Nodes []BootNode // each whole, with all of its ports
	Mark  BootMark   // where to go on
	// NodeCount and PortCount are those of the database. Who keeps nodes and
	// replaces those that changed has more than these exactly when some were
	// deleted.
	NodeCount, PortCount int
}

// BootView reads from the database of an engine, which may run meanwhile, what a
// filter of boot requests must know. It writes nothing and changes no schema. It
// is not safe for concurrent use.
type BootView struct {
	db   viewer
	name string // of the database, for errors
}

// viewer is a BootView on one kind of database.
type viewer interface {
	// token is a text that is another one after each commit of anybody.
	token(ctx context.Context) (string, error)
	read(ctx context.Context, fn func(*Tx) error) error
	close(ctx context.Context) error
}

// OpenBootView opens a view of a database, SQLite in opts.Dir or the PostgreSQL
// of opts.URL. It waits for nothing: a database that is not there is an error,
// and worth another try unless it is ErrWrongURL. The first reading checks the
// schema.
func OpenBootView(ctx context.Context, opts Options) (*BootView, error) {
	if opts.URL == "" {
		return viewSQLite(opts.Dir)
	}
	return viewPostgres(ctx, opts.URL)
}

// Close releases the database.
func (v *BootView) Close(ctx context.Context) error { return v.db.close(ctx) }

// Token is a text that is another one after something was committed to the
// database; it costs next to nothing. An error means that the view is of no use
// any more: the database went away, or another one has taken its place.
func (v *BootView) Token(ctx context.Context) (string, error) {
	token, err := v.db.token(ctx)
	if err != nil {
		return "", fmt.Errorf("watch database %s: %w", v.name, err)
	}
	return token, nil
}

// Sum is a text that is another one after nodes or ports were changed, also in ways
// that Since does not see. It costs more than Token and much less than reading
// everything.
func (v *BootView) Sum(ctx context.Context) (string, error) {
	// Times are added up by what is left of a prime, so that they fit.
	const sums = `SELECT coalesce((SELECT CAST(sum(updated_at % 1000000007) AS BIGINT) FROM nodes), 0),
		coalesce((SELECT CAST(sum(updated_at % 1000000007) AS BIGINT) FROM ports), 0)`
	var nodes, ports int64
	err := v.db.read(ctx, func(tx *Tx) error {
		_, err := checkViewed(tx)
		if err != nil {
			return err
		}
		_, err = tx.one(sums, nil, &nodes, &ports)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("look for changes in database %s: %w", v.name, plain(err))
	}
	return fmt.Sprint(nodes, " ", ports), nil
}

// Since returns the nodes that were changed or created, or got a port, since the
// mark; with the zero mark, or when they are many, all nodes. It does not see the
// change of an address of a port, nor what was written while the database's clock
// was set back, which Sum does. The order is that of creation.
//
// The error is ErrUnknownSchema when this program is too old for the database.
func (v *BootView) Since(ctx context.Context, mark BootMark) (BootChanges, error) {
	changes := BootChanges{Mark: mark}
	err := v.db.read(ctx, func(tx *Tx) error {
		version, err := checkViewed(tx)
		if err != nil {
			return err
		}
		suspended, err := tx.suspendedSince(version)
		if err != nil {
			return err
		}
		return changes.read(tx, version, suspended)
	})
	if err != nil {
		return BootChanges{}, fmt.Errorf("read nodes and ports from database %s: %w", v.name, plain(err))
	}
	return changes, nil
}

// oldestViewed is the oldest schema that has all that is read here.
const oldestViewed = 1

// checkViewed returns the version of the schema. It refuses one that this program does
// not know, and one that is not complete: an engine may be about to create it.
func checkViewed(tx *Tx) (version int64, err error) {
	newest, err := newestSchema()
	if err != nil {
		return 0, err
	}
	if _, err := tx.one("SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied", nil, &version); err != nil {
		return 0, fmt.Errorf("read its schema version (has an engine created it?): %w", err)
	}
	switch {
	case version > newest:
		return 0, fmt.Errorf("%w: it has version %d, this program knows %d to %d: run the version of the program that the engine has", ErrUnknownSchema, version, oldestViewed, newest)
	case version < oldestViewed:
		return 0, fmt.Errorf("its schema has version %d, this program knows %d to %d: start the engine, which brings it forward", version, oldestViewed, newest)
	}
	return version, nil
}

// withSuspension is the schema since which a database tells that it is a copy.
const withSuspension = 10

// suspendedSince returns since when a person has to decide about a database that was restored,
// see BootMark. A copy that no engine has started on yet counts too. A user of
// PostgreSQL who may not read that has no doubts.
func (tx *Tx) suspendedSince(version int64) (micros int64, err error) {
	if version < withSuspension {
		return 0, nil
	}
	if tx.settle != 0 {
		may := false
		_, err := tx.one("SELECT has_table_privilege('suspension', 'SELECT') AND has_table_privilege('lineage', 'SELECT')", nil, &may)
		if err != nil || !may {
			return 0, err
		}
	}
	suspension, err := tx.Suspension()
	if err != nil {
		return 0, err
	}
	if suspension.Reason == node.Restored {
		return suspension.Since.UnixMicro(), nil
	}
	copied := "SELECT 1 FROM pragma_user_version WHERE user_version <> 0"
	if tx.settle != 0 { // on PostgreSQL
		copied = "SELECT 1 FROM lineage WHERE written_in <> xmin::text"
	}
	found, err := tx.one(copied, nil, new(any))
	if found {
		micros = math.MaxInt64
	}
	return micros, err
}

// withProvisional is the schema since which nodes say whether they are provisional.
const withProvisional = 11

// selectBootNodes returns the statement that reads nodes with their ports.
func selectBootNodes(version int64) string {
	provisional := "nodes.provisional"
	if version < withProvisional {
		provisional = "0"
	}
	return `SELECT nodes.id, nodes.uuid, nodes.provision_state, coalesce(nodes.inspect_interface, ''), coalesce(nodes.updated_at, 0),
	coalesce(nodes.provision_updated_at, nodes.created_at), ` + provisional + `, coalesce(ports.id, 0), coalesce(ports.address, '') FROM nodes LEFT JOIN ports ON ports.node_id = nodes.id`
}

// read fills in what changed since the mark of c, and moves the mark. When much
// did, or the doubt began or ended, it reads everything.
func (c *BootChanges) read(tx *Tx, version, doubt int64) error {
	where, args := "", []any(nil)
	if c.Mark != (BootMark{}) && c.Mark.Doubt == doubt {
		ids, few, err := changedSince(tx, c.Mark)
		if err != nil {
			return err
		}
		if few {
			where, args = " WHERE nodes.id IN ("+marks(len(ids))+")", ids
		}
	}
	c.Mark.Doubt = doubt
	if where == "" || len(args) > 0 {
		if err := tx.query(c.add, selectBootNodes(version)+where+" ORDER BY nodes.id", args...); err != nil {
			return err
		}
	}
	if _, err := tx.one("SELECT (SELECT count(*) FROM nodes), (SELECT count(*) FROM ports)", nil, &c.NodeCount, &c.PortCount); err != nil || tx.settle == 0 {
		return err
	}
	_, err := tx.one(selectHorizon, []any{tx.settle.Microseconds()}, &c.Mark.Horizon, &c.Mark.Node, &c.Mark.Port)
	return err
}

// selectHorizon reads the lowest transaction that the snapshot of a reading may not
// see, and the keys below which no row can come any more.
const selectHorizon = `WITH committed AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - ?::bigint AS at)
	SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
		coalesce((SELECT id FROM nodes WHERE created_at < (SELECT at FROM committed) ORDER BY id DESC LIMIT 1), 0),
		coalesce((SELECT id FROM ports WHERE created_at < (SELECT at FROM committed) ORDER BY id DESC LIMIT 1), 0)`

// sinceHorizon is the condition that a row was written by a transaction from the
// horizon on. A row names its transaction by 32 bits, so the difference counts.
const sinceHorizon = " AND ((xmin::text::bigint - ?) & 4294967295) < 2147483648"

// manyChanged is from how many nodes on it costs less to read all of them.
const manyChanged = 1000

// changedSince returns the keys of nodes that were changed, created or got a port
// since the mark; false when they are many. Each search follows an index from the
// mark on, which the order and the bound make sure of.
func changedSince(tx *Tx, mark BootMark) (ids []any, few bool, err error) {
	found := map[int64]bool{}
	condition, from := "", mark.Updated
	if mark.Horizon != 0 {
		condition, from = sinceHorizon, mark.Updated-tx.settle.Microseconds()
	}
	for _, search := range []struct {
		query string
		from  int64
	}{
		{"SELECT id FROM nodes WHERE updated_at >= ?" + condition + " ORDER BY updated_at NULLS FIRST, id LIMIT ?", from},
		{"SELECT id FROM nodes WHERE id > ?" + condition + " ORDER BY id LIMIT ?", mark.Node},
		{"SELECT node_id FROM ports WHERE id > ?" + condition + " ORDER BY id LIMIT ?", mark.Port},
	} {
		rows := 0
		args := []any{search.from, manyChanged}
		if mark.Horizon != 0 {
			args = []any{search.from, mark.Horizon, manyChanged}
		}
		err := tx.query(func(r row) error {
			var id int64
			if err := r.Scan(&id); err != nil {
				return err
			}
			rows++
			if !found[id] {
				found[id] = true
				ids = append(ids, id)
			}
			return nil
		}, search.query, args...)
		if err != nil || rows == manyChanged {
			return nil, false, err
		}
	}
	return ids, true, nil
}

// add takes a row: a node with one of its ports, or without any.
func (c *BootChanges) add(r row) error {
	var n BootNode
	var updated, moved, provisional, port int64
	var mac string
	if err := r.Scan(&n.ID, &n.UUID, &n.State, &n.InspectInterface, &updated, &moved, &provisional, &port, &mac); err != nil {
		return err
	}
	n.Provisional = provisional != 0
	n.Doubtful = c.Mark.Doubt != 0 && moved <= c.Mark.Doubt
	if last := len(c.Nodes) - 1; last < 0 || c.Nodes[last].ID != n.ID {
		c.Nodes = append(c.Nodes, n)
	}
	if port != 0 {
		last := &c.Nodes[len(c.Nodes)-1]
		last.MACs = append(last.MACs, mac)
	}
	c.Mark.Updated, c.Mark.Node, c.Mark.Port = max(c.Mark.Updated, updated), max(c.Mark.Node, n.ID), max(c.Mark.Port, port)
	return nil
}
