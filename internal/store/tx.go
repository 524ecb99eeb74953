package store

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-metal/ingot/internal/node"
)

// Tx is a transaction. It is valid only inside the function it was given to.
// Its methods return domain errors of package node where one fits and wrapped
// database errors otherwise.
type Tx struct {
	now   time.Time
	begin func() time.Time // returns the time when now is zero
	db    session
	// beforeChange is called before each change; nil in a read, but for that of a refusal.
	beforeChange func() error
	// lateCommit is how long after its time a write may still be committed; 0 where keys grow in
	// the order of commits.
	lateCommit time.Duration
	// counter keeps the count of the database outside of it, see CountUse.
	counter useCounter
	note    commitNote
	// epochs are the epochs granted so far; nil where the database itself never grants an epoch
	// twice.
	epochs *grantedEpochs
	// takesLists is true where a statement can take a list as one argument.
	takesLists bool
	// shared is set in a write that others run beside, so that it has to lock what it reads. It is
	// nil while such a write is only read for its refusal.
	shared *postgresWrite

	expectsWork bool  // see ExpectWork
	created     int64 // key of the last node that this write created; 0 without one
	// free has the keys of the nodes that this write has locked; true for a node that it found
	// without a lease, not even an expired one.
	free map[int64]bool
}

// session runs the statements of one transaction. The statements are written for SQLite, with "?"
// for each argument. Errors that are not errors of scan say what was tried.
type session interface {
	// exec may put the statement off until the next statement with a result, or until the end of
	// the transaction. Then that one fails in its place.
	exec(query string, args []any) error
	// insert runs an INSERT and returns the value of the column key, or false when nothing was
	// inserted.
	insert(key, query string, args []any) (id int64, inserted bool, err error)
	query(scan func(row) error, query string, args []any) error
}

// row is one row of a result.
type row interface {
	Scan(into ...any) error
}

// Now returns the time of the transaction by the database's clock.
func (tx *Tx) Now() time.Time {
	if tx.now.IsZero() && tx.begin != nil {
		tx.now = tx.begin()
	}
	return tx.now
}

func (tx *Tx) exec(query string, args ...any) error {
	if err := tx.prepareChange(args); err != nil {
		return err
	}
	return tx.db.exec(query, args)
}

// insertKey runs an INSERT and returns the key of the new row; false when a conflict was ignored.
func (tx *Tx) insertKey(key, query string, args ...any) (int64, bool, error) {
	if err := tx.prepareChange(args); err != nil {
		return 0, false, err
	}
	return tx.db.insert(key, query, args)
}

// insertNext inserts one row and returns its key. For the tables of nextKeys it uses a reserved
// key if there is one.
func (tx *Tx) insertNext(table, key, columns, values string, args ...any) (int64, error) {
	if err := tx.prepareChange(args); err != nil {
		return 0, err
	}
	if tx.shared != nil {
		if id, ok := tx.shared.reserved(table); ok {
			return id, tx.db.exec("INSERT INTO "+table+" ("+key+", "+columns+") VALUES (?, "+values+")", append([]any{id}, args...))
		}
	}
	id, _, err := tx.db.insert(key, "INSERT INTO "+table+" ("+columns+") VALUES ("+values+")", args)
	return id, err
}

// change runs a statement that changes rows and calls scan for each row that it returns.
func (tx *Tx) change(scan func(row) error, query string, args ...any) error {
	if err := tx.prepareChange(args); err != nil {
		return err
	}
	return tx.db.query(scan, query, args)
}

// changeOne is change for a statement that changes one row and returns one column of it. When there
// is no such row, the write fails with missing. On PostgreSQL the statement is sent later, so scan
// is called, or the write fails, in a later trip to the server.
func (tx *Tx) changeOne(scan func(row) error, missing error, query string, args ...any) error {
	if tx.shared != nil {
		if err := tx.prepareChange(args); err != nil {
			return err
		}
		tx.shared.session.require(scan, missing, query, args)
		return nil
	}
	found := false
	err := tx.change(func(r row) error {
		found = true
		return scan(r)
	}, query, args...)
	if err == nil && !found {
		err = missing
	}
	return err
}

func (tx *Tx) prepareChange(args []any) error {
	if err := checkText(args); err != nil {
		return err
	}
	return tx.beforeChange()
}

// queryFunc is the type of Tx.query.
type queryFunc func(scan func(row) error, query string, args ...any) error

// query calls scan for each row.
func (tx *Tx) query(scan func(row) error, query string, args ...any) error {
	if err := checkText(args); err != nil {
		return err
	}
	return tx.db.query(scan, query, args)
}

// queryLater is query for a result that is needed only after the write. The query goes with the next
// trip to the server, the trip of the commit at the latest, and end is called after the last row. If
// the answer to the commit is lost, end may not be called. It is for writes on PostgreSQL.
func (tx *Tx) queryLater(end func(), scan func(row) error, query string, args ...any) error {
	if err := checkText(args); err != nil {
		return err
	}
	tx.shared.session.queueRead(reader{scan, end}, tx.shared.session.texts.numbered(query), args...)
	return nil
}

// among returns the end of a condition, that a text is one of these, and its arguments.
func (tx *Tx) among(texts []string) (condition string, args []any) {
	if tx.takesLists {
		return "= ANY(CAST(? AS text[]))", []any{append([]string{}, texts...)} // an empty list instead of null
	}
	for _, text := range texts {
		args = append(args, text)
	}
	return "IN (" + marks(len(texts)) + ")", args
}

// one scans the first row and reports whether there was one.
func (tx *Tx) one(query string, args []any, into ...any) (bool, error) {
	found := false
	err := tx.query(func(rows row) error {
		if found {
			return nil
		}
		found = true
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("read from the database: %w", err)
		}
		return nil
	}, query, args...)
	return found, err
}

// checkText refuses text that not every database can store.
func checkText(args []any) error {
	for _, arg := range args {
		ok := true
		switch arg := arg.(type) {
		case string:
			ok = storable(arg)
		case []string:
			ok = !slices.ContainsFunc(arg, func(text string) bool { return !storable(text) })
		}
		if !ok {
			return node.Invalid("Text must be valid UTF-8 and hold no NUL character.")
		}
	}
	return nil
}

// storable reports whether every database can store the text. PostgreSQL accepts neither NUL
// characters nor invalid UTF-8. JSON escapes both, so JSON documents may contain any text.
func storable(text string) bool {
	return strings.IndexByte(text, 0) < 0 && utf8.ValidString(text)
}

// micros returns a time as it is stored; null for the zero time.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// orNull returns a text as it is stored; null for the empty text.
func orNull[S ~string](text S) any {
	if text == "" {
		return nil
	}
	return string(text)
}
