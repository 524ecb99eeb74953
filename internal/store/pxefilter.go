package store

import (
	"context"
	"errors"
	"fmt"

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
}

// BootMark is how far a BootView has been read. The zero value is its beginning.
type BootMark struct {
	Updated    int64 // latest change of a node, in microseconds since 1970
	Node, Port int64 // highest keys
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
		return viewSQLite(ctx, opts.Dir)
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
		if err := checkViewed(tx); err != nil {
			return err
		}
		_, err := tx.one(sums, nil, &nodes, &ports)
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
		if err := checkViewed(tx); err != nil {
			return err
		}
		return changes.read(tx)
	})
	if err != nil {
		return BootChanges{}, fmt.Errorf("read nodes and ports from database %s: %w", v.name, plain(err))
	}
	return changes, nil
}

// oldestViewed is the oldest schema that has all that is read here.
const oldestViewed = 1

// checkViewed refuses a schema that this program does not know, and one that is
// not complete: an engine may be about to create it.
func checkViewed(tx *Tx) error {
	newest, err := newestSchema()
	if err != nil {
		return err
	}
	var version int64
	if _, err := tx.one("SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied", nil, &version); err != nil {
		return fmt.Errorf("read its schema version (has an engine created it?): %w", err)
	}
	switch {
	case version > newest:
		return fmt.Errorf("%w: it has version %d, this program knows %d to %d: run the version of the program that the engine has", ErrUnknownSchema, version, oldestViewed, newest)
	case version < oldestViewed:
		return fmt.Errorf("its schema has version %d, this program knows %d to %d: start the engine, which brings it forward", version, oldestViewed, newest)
	}
	return nil
}

const selectBootNodes = `SELECT nodes.id, nodes.uuid, nodes.provision_state, coalesce(nodes.inspect_interface, ''), coalesce(nodes.updated_at, 0),
	coalesce(ports.id, 0), coalesce(ports.address, '') FROM nodes LEFT JOIN ports ON ports.node_id = nodes.id`

// read fills in what changed since the mark of c, and moves the mark. When much
// did, it reads everything.
func (c *BootChanges) read(tx *Tx) error {
	where, args := "", []any(nil)
	if c.Mark != (BootMark{}) {
		ids, few, err := changedSince(tx, c.Mark)
		if err != nil {
			return err
		}
		if few {
			where, args = " WHERE nodes.id IN ("+marks(len(ids))+")", ids
		}
	}
	if where == "" || len(args) > 0 {
		if err := tx.query(c.add, selectBootNodes+where+" ORDER BY nodes.id", args...); err != nil {
			return err
		}
	}
	_, err := tx.one("SELECT (SELECT count(*) FROM nodes), (SELECT count(*) FROM ports)", nil, &c.NodeCount, &c.PortCount)
	return err
}

// manyChanged is from how many nodes on it costs less to read all of them.
const manyChanged = 1000

// changedSince returns the keys of nodes that were changed, created or got a port
// since the mark; false when they are many. Each search follows an index from the
// mark on, which the order and the bound make sure of.
func changedSince(tx *Tx, mark BootMark) (ids []any, few bool, err error) {
	found := map[int64]bool{}
	for _, search := range []struct {
		query string
		from  int64
	}{
		{"SELECT id FROM nodes WHERE updated_at >= ? ORDER BY updated_at NULLS FIRST, id LIMIT ?", mark.Updated},
		{"SELECT id FROM nodes WHERE id > ? ORDER BY id LIMIT ?", mark.Node},
		{"SELECT node_id FROM ports WHERE id > ? ORDER BY id LIMIT ?", mark.Port},
	} {
		rows := 0
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
		}, search.query, search.from, manyChanged)
		if err != nil || rows == manyChanged {
			return nil, false, err
		}
	}
	return ids, true, nil
}

// add takes a row: a node with one of its ports, or without any.
func (c *BootChanges) add(r row) error {
	var n BootNode
	var updated, port int64
	var mac string
	if err := r.Scan(&n.ID, &n.UUID, &n.State, &n.InspectInterface, &updated, &port, &mac); err != nil {
		return err
	}
	if last := len(c.Nodes) - 1; last < 0 || c.Nodes[last].ID != n.ID {
		c.Nodes = append(c.Nodes, n)
	}
	if port != 0 {
		last := &c.Nodes[len(c.Nodes)-1]
		last.MACs = append(last.MACs, mac)
	}
	c.Mark = BootMark{max(c.Mark.Updated, updated), max(c.Mark.Node, n.ID), max(c.Mark.Port, port)}
	return nil
}
