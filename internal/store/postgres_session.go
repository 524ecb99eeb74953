package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresSession runs the statements of one transaction on one connection, which keeps them
// prepared. Every trip to the server takes time, so statements without a result are queued and sent
// together with the next statement that has one.
type postgresSession struct {
	ctx    context.Context //nolint:containedctx // of statements: its end would end the connection
	caller context.Context //nolint:containedctx // nothing more runs after its end
	conn   *pgx.Conn
	texts  *statementTexts
	queued pgx.Batch
	reads  map[int]reader // readers of results, by position in the queue
	cause  error          // the first failure; after it, nothing more runs in this transaction
	// connect takes a connection, for the first trip or in place of a dead connection. It is nil
	// when there is no other connection, and as soon as the server has answered anything on the
	// present one.
	connect func() error
	single  bool          // true when it runs only one query, without a transaction
	ran     bool          // true when that query has run
	more    bool          // true when a second query was requested
	missing error         // the error to return when a statement of require finds no row
	trips   int           // number of trips to the server
	longest time.Duration // duration of the longest trip
}

// maxQueued is how many statements can be queued.
const maxQueued = 64

func (s *postgresSession) exec(query string, args []any) error {
	s.queued.Queue(s.texts.numbered(query), args...)
	if s.queued.Len() < maxQueued {
		return nil
	}
	if err := s.flush(); err != nil {
		return fmt.Errorf("write to the database: %w", err)
	}
	return nil
}

func (s *postgresSession) insert(key, query string, args []any) (id int64, inserted bool, err error) {
	_, err = s.run(func(r row) error {
		inserted = true
		return r.Scan(&id)
	}, s.texts.numbered(query)+" RETURNING "+key, args)
	if err != nil {
		return 0, false, fmt.Errorf("write to the database: %w", err)
	}
	return id, inserted, nil
}

func (s *postgresSession) query(scan func(row) error, query string, args []any) error {
	if err := s.caller.Err(); err != nil {
		return err
	}
	if s.single && s.ran {
		s.more = true
		return errSecondQuery
	}
	s.ran = true
	own, err := s.run(scan, s.texts.numbered(query), args)
	if own != nil {
		return own
	}
	if err != nil {
		return fmt.Errorf("read from the database: %w", err)
	}
	return nil
}

// errSecondQuery ends a read without a transaction that turns out to need one.
var errSecondQuery = errors.New("a read of one statement asked for a second one")

// reader reads the result of a statement.
type reader struct {
	scan func(row) error // called for each row; nil drops the rows
	end  func()          // called after the last row; may be nil
}

// queue puts a statement off until the next trip to the server. Scan is then called for each row of
// its result; an error of scan ends the transaction.
func (s *postgresSession) queue(scan func(row) error, query string, args ...any) {
	s.queueRead(reader{scan: scan}, query, args...)
}

func (s *postgresSession) queueRead(read reader, query string, args ...any) {
	if s.reads == nil {
		s.reads = map[int]reader{}
	}
	s.reads[s.queued.Len()] = read
	s.queued.Queue(query, args...)
}

// require queues a statement that changes one row and returns one column of it. If there is no such
// row, the server ends the transaction, possibly in the trip of the commit, and the error is
// missing.
func (s *postgresSession) require(scan func(row) error, missing error, query string, args []any) {
	s.missing = missing
	s.queue(func(r row) error { return scan(firstColumn{r}) },
		s.texts.numbered("WITH changed (value) AS ("+query+") SELECT min(value), 1 / count(*) FROM changed"), args...)
}

// stateDivision is the SQLSTATE of a division by zero. Only the statements of require divide.
const stateDivision = "22012"

// firstColumn reads only the first of a row's two columns.
type firstColumn struct{ row }

func (r firstColumn) Scan(into ...any) error {
	var count int64
	return r.row.Scan(into[0], &count)
}

// run sends the queued statements and the query, and calls scan for each row of its result. It
// returns an error of scan as own, and an error of the database as err.
func (s *postgresSession) run(scan func(row) error, query string, args []any) (own, err error) {
	s.queue(func(r row) error {
		if own == nil {
			own = scan(r)
		}
		return nil
	}, query, args...)
	err = s.send()
	return own, err
}

// flush sends what is queued.
func (s *postgresSession) flush() error {
	if s.queued.Len() == 0 {
		return nil
	}
	return s.send()
}

// commit sends what is queued and commits. It returns the server's answer.
func (s *postgresSession) commit() (tag string, err error) {
	s.queued.Queue("COMMIT")
	err = s.sendWith(func(results pgx.BatchResults) error {
		answer, err := results.Exec()
		tag = answer.String()
		return err
	})
	return tag, err
}

// send sends everything that is queued in one trip.
func (s *postgresSession) send() error {
	last := s.reads[s.queued.Len()-1]
	return s.sendWith(func(results pgx.BatchResults) error { return take(results, last) })
}

// sendWith sends everything that is queued in one trip; last reads the result of the last
// statement. Any error becomes the cause, which ends the transaction.
func (s *postgresSession) sendWith(last func(pgx.BatchResults) error) error {
	if s.cause != nil {
		return s.cause
	}
	if s.conn == nil {
		if s.cause = s.connect(); s.cause != nil {
			return s.cause
		}
	}
	batch, reads := s.queued, s.reads
	s.queued, s.reads = pgx.Batch{}, nil
	answered, err := s.sendBatch(&batch, reads, last)
	// A connection may have died while it waited in the pool.
	for tries := 0; err != nil && !answered && s.connect != nil && s.conn.IsClosed() && s.ctx.Err() == nil && tries < maxConnects; tries++ {
		if err = s.connect(); err != nil {
			break
		}
		answered, err = s.sendBatch(again(&batch), reads, last)
	}
	if answered {
		s.connect = nil
	}
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == stateDivision && s.missing != nil:
		err = s.missing
	case refused != nil || s.conn.IsClosed():
		err = outage(err) // any other error is an argument or a result that does not fit its column
	}
	s.cause = err
	return err
}

// maxConnects is how many dead connections a transaction replaces at most.
const maxConnects = 20

// sendBatch sends the statements and reads their results. Answered reports whether the server has
// answered anything.
func (s *postgresSession) sendBatch(batch *pgx.Batch, reads map[int]reader, last func(pgx.BatchResults) error) (answered bool, err error) {
	began := time.Now()
	defer func() { s.trips, s.longest = s.trips+1, max(s.longest, time.Since(began)) }()
	results := s.conn.SendBatch(s.ctx, batch)
	for i := range batch.Len() - 1 {
		if err = take(results, reads[i]); err != nil {
			break
		}
		answered = true
	}
	if err == nil {
		err = last(results)
		answered = answered || err == nil
	}
	closed := results.Close() // also waits for the results that were not read
	if err == nil {
		err = closed
	}
	return answered, err
}

// take reads the result of the next statement.
func take(results pgx.BatchResults, read reader) error {
	if read.scan == nil {
		_, err := results.Exec()
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	for err == nil && rows.Next() {
		err = read.scan(rows)
	}
	rows.Close()
	if err == nil {
		err = rows.Err()
	}
	if err == nil && read.end != nil {
		read.end()
	}
	return err
}

// again returns a batch of the same statements.
func again(batch *pgx.Batch) *pgx.Batch {
	copied := &pgx.Batch{}
	for _, q := range batch.QueuedQueries {
		copied.Queue(q.SQL, q.Arguments...)
	}
	return copied
}

// statementTexts keeps the statements of a database in the form that the server wants. The nil
// value keeps none.
type statementTexts struct {
	mu   sync.RWMutex
	kept map[string]string
}

// maxTexts is how many texts are kept at most. Clients choose filters, and each choice may be
// another text.
const maxTexts = 1024

// numbered replaces the first "?" by $1, the second by $2, and so on. No statement of the store has
// a "?" inside a string.
func (t *statementTexts) numbered(query string) string {
	if t == nil {
		return numbered(query)
	}
	t.mu.RLock()
	text, ok := t.kept[query]
	t.mu.RUnlock()
	if ok {
		return text
	}
	text = numbered(query)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) < maxTexts {
		t.kept[query] = text
	}
	return text
}

func numbered(query string) string {
	var b strings.Builder
	b.Grow(len(query) + 32)
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		query = after
	}
}

// control runs statements without arguments in one round trip and returns the
// results of each.
func control(ctx context.Context, conn *pgx.Conn, statements string) ([]*pgconn.Result, error) {
	return conn.PgConn().Exec(ctx, statements).ReadAll()
}
