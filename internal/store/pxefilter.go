package store

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ingot-metal/ingot/internal/node"
)

// Errors of a BootView that waiting does not cure.
var (
	// ErrUnknownSchema says that a newer program has written the database. Only another version of
	// this program helps.
	ErrUnknownSchema = errors.New("schema is not known")
	// ErrWrongURL says that a text is not the URL of a PostgreSQL database.
	ErrWrongURL = errors.New("its URL is not understood")
)

// BootNode is what decides whether the machine of a node may boot from the network.
type BootNode struct {
	ID               int64
	UUID             string
	State            node.State
	InspectInterface string
	MACs             []string // addresses of its ports, as stored
	Provisional      bool     // discovered, and no person has accepted it
	// Doubtful says that the database is a copy of an older state about which a person has yet to
	// decide, and that the node has not changed its state since.
	Doubtful bool
}

// BootMark is how far a BootView has read. The zero value is the beginning.
type BootMark struct {
	Updated    int64 // latest change of a node, in microseconds since 1970
	Node, Port int64 // keys up to which all nodes and ports are known
	// Horizon is set where commits may come in another order than their times and keys: everything
	// that transactions below it changed is known.
	Horizon int64
	// Doubt is a time in microseconds since 1970: nodes that have not changed their state since
	// then are doubtful. 0 means that no node is.
	Doubt int64
}

// BootChanges is what one reading of a BootView found.
type BootChanges struct {
	Nodes []BootNode // complete, each with all of its ports
	Mark  BootMark   // where the next reading begins
	// NodeCount and PortCount are the numbers of nodes and ports in the database. A caller that
	// keeps nodes and replaces those that changed has more than these exactly when some were
	// deleted.
	NodeCount, PortCount int
}

// BootView reads what a filter of boot requests must know from the database of an engine, which may
// be running. It writes nothing and does not migrate the schema. It is not safe for concurrent use.
type BootView struct {
	db   viewer
	name string // name of the database in errors
}

// viewer is a BootView on one kind of database.
type viewer interface {
	// token returns a text that changes with each commit of any client.
	token(ctx context.Context) (string, error)
	read(ctx context.Context, fn func(*Tx) error) error
	close(ctx context.Context) error
}

// OpenBootView opens a view of a database, SQLite in opts.Dir or the PostgreSQL of opts.URL. It
// does not wait for a database: if there is none it fails, and the caller may try again unless the
// error is ErrWrongURL. The first reading checks the schema.
func OpenBootView(ctx context.Context, opts Options) (*BootView, error) {
	if opts.URL == "" {
		return viewSQLite(opts.Dir)
	}
	return viewPostgres(ctx, opts.URL)
}

// Close releases the database.
func (v *BootView) Close(ctx context.Context) error { return v.db.close(ctx) }

// Token returns a text that changes after each commit to the database; it costs next to nothing.
// After an error the view is of no further use: the database went away, or another one has taken
// its place.
func (v *BootView) Token(ctx context.Context) (string, error) {
	token, err := v.db.token(ctx)
	if err != nil {
		return "", fmt.Errorf("watch database %s: %w", v.name, err)
	}
	return token, nil
}

// Sum returns a text that changes when nodes or ports were changed, even in ways that Since does
// not see. It costs more than Token and much less than reading everything.
func (v *BootView) Sum(ctx context.Context) (string, error) {
	// The sum of the times modulo a prime fits into a BIGINT.
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

// Since returns the nodes that were changed or created, or got a port, since the mark. With the
// zero mark, or when many nodes changed, it returns all nodes. It does not see a change of a port's
// address, nor changes that were written while the database's clock was set back; Sum sees both.
// The nodes are in order of creation.
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

// oldestViewed is the oldest schema that a BootView can read.
const oldestViewed = 1

// checkViewed returns the version of the schema. It refuses a version that this program does not
// know, and an incomplete schema, which an engine may be about to create.
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

// withSuspension is the first version of the schema in which a database says that it is a copy.
const withSuspension = 10

// suspendedSince returns since when a person has to decide about a restored database, see BootMark.
// A copy that no engine has used yet counts too. It returns 0 when a user of PostgreSQL may not
// read the tables that say so.
func (tx *Tx) suspendedSince(version int64) (micros int64, err error) {
	if version < withSuspension {
		return 0, nil
	}
	if tx.lateCommit != 0 {
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
	if tx.lateCommit != 0 { // on PostgreSQL
		copied = "SELECT 1 FROM lineage WHERE written_in <> xmin::text"
	}
	found, err := tx.one(copied, nil, new(any))
	if found {
		micros = math.MaxInt64
	}
	return micros, err
}

// withProvisional is the first version of the schema in which nodes have the column provisional.
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

// read fills in the changes since the mark of c, and moves the mark. It reads everything when much
// has changed, or when the doubt has begun or ended.
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
	if _, err := tx.one("SELECT (SELECT count(*) FROM nodes), (SELECT count(*) FROM ports)", nil, &c.NodeCount, &c.PortCount); err != nil || tx.lateCommit == 0 {
		return err
	}
	_, err := tx.one(selectHorizon, []any{tx.lateCommit.Microseconds()}, &c.Mark.Horizon, &c.Mark.Node, &c.Mark.Port)
	return err
}

// selectHorizon reads the lowest transaction that the snapshot of a reading may not see, and the
// keys up to which no new row can appear.
const selectHorizon = `WITH committed AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - ?::bigint AS at)
	SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
		coalesce((SELECT id FROM nodes WHERE created_at < (SELECT at FROM committed) ORDER BY id DESC LIMIT 1), 0),
		coalesce((SELECT id FROM ports WHERE created_at < (SELECT at FROM committed) ORDER BY id DESC LIMIT 1), 0)`

// sinceHorizon is the condition that a transaction from the horizon on has written a row. A row
// stores only the low 32 bits of its transaction's number, so the condition compares the
// difference.
const sinceHorizon = " AND ((xmin::text::bigint - ?) & 4294967295) < 2147483648"

// manyChanged is the number of changed nodes from which on reading all nodes costs less.
const manyChanged = 1000

// changedSince returns the keys of nodes that were changed, created or got a port since the mark;
// false when they are many. The ORDER BY and the limit make each search follow an index from the
// mark on.
func changedSince(tx *Tx, mark BootMark) (ids []any, few bool, err error) {
	found := map[int64]bool{}
	condition, from := "", mark.Updated
	if mark.Horizon != 0 {
		condition, from = sinceHorizon, mark.Updated-tx.lateCommit.Microseconds()
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

// add adds a row: a node with one of its ports, or without ports.
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
