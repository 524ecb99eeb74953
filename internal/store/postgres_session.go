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

// postgresSession runs the statements of one transaction on one connection, which
// keeps them prepared. Each waits for the network, so those without a result are
// queued and sent together with the next one that has a result.
type postgresSession struct {
	ctx    context.Context //nolint:containedctx // of statements: its end would end the connection
	caller context.Context //nolint:containedctx // nothing more runs after its end
	conn   *pgx.Conn
	texts  *statementTexts
	queued pgx.Batch
	scans  map[int]func(row) error // what takes the rows of a queued statement, by its place
	cause  error                   // the first failure, after which the server runs nothing more in this transaction
	// connect takes a connection, for the first trip and in place of a dead one. It is
	// nil when there is no other one, and as soon as the server has answered anything on
	// this one.
	connect func() error
	single  bool          // whether it runs one query only, without a transaction
	ran     bool          // whether that one was run
	more    bool          // whether another one was asked for
	missing error         // the failure of a statement of require
	trips   int           // how often it waited for the server
	longest time.Duration // longest trip
}

// maxQueued bounds the statements that are queued.
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

// errSecondQuery ends a read without a transaction that needs one.
var errSecondQuery = errors.New("a read of one statement asked for a second one")

// queue puts a statement off until the next trip to the server; scan is called for
// each row of its result then, and its error ends the transaction.
func (s *postgresSession) queue(scan func(row) error, query string, args ...any) {
	if s.scans == nil {
		s.scans = map[int]func(row) error{}
	}
	s.scans[s.queued.Len()] = scan
	s.queued.Queue(query, args...)
}

// require queues a statement that changes one row and returns one column of it. The
// server ends the transaction with missing when it finds none, also in the trip of the
// commit.
func (s *postgresSession) require(scan func(row) error, missing error, query string, args []any) {
	s.missing = missing
	s.queue(func(r row) error { return scan(firstColumn{r}) },
		s.texts.numbered("WITH changed (value) AS ("+query+") SELECT min(value), 1 / count(*) FROM changed"), args...)
}

// stateDivision is what the server says of a division by zero, which only require asks for.
const stateDivision = "22012"

// firstColumn is the first of two columns of a row.
type firstColumn struct{ row }

func (r firstColumn) Scan(into ...any) error {
	var count int64
	return r.row.Scan(into[0], &count)
}

// run sends what is queued and the query, and calls scan for each row of its
// result. It tells errors of scan from those of the database.
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
	last := s.scans[s.queued.Len()-1]
	return s.sendWith(func(results pgx.BatchResults) error { return take(results, last) })
}

// sendWith sends everything that is queued in one trip; last takes the result of the
// last statement. An error is remembered as the cause.
func (s *postgresSession) sendWith(last func(pgx.BatchResults) error) error {
	if s.cause != nil {
		return s.cause
	}
	if s.conn == nil {
		if s.cause = s.connect(); s.cause != nil {
			return s.cause
		}
	}
	batch, scans := s.queued, s.scans
	s.queued, s.scans = pgx.Batch{}, nil
	answered, err := s.sendBatch(&batch, scans, last)
	// A connection may have died while it waited in the pool.
	for tries := 0; err != nil && !answered && s.connect != nil && s.conn.IsClosed() && s.ctx.Err() == nil && tries < maxConnects; tries++ {
		if err = s.connect(); err != nil {
			break
		}
		answered, err = s.sendBatch(again(&batch), scans, last)
	}
	if answered {
		s.connect = nil
	}
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == stateDivision && s.missing != nil:
		err = s.missing
	case refused != nil || s.conn.IsClosed():
		err = outage(err) // else an argument or a result does not fit its column
	}
	s.cause = err
	return err
}

// maxConnects bounds the dead connections that a transaction gets over.
const maxConnects = 20

// sendBatch reports besides whether the server has answered anything.
func (s *postgresSession) sendBatch(batch *pgx.Batch, scans map[int]func(row) error, last func(pgx.BatchResults) error) (answered bool, err error) {
	began := time.Now()
	defer func() { s.trips, s.longest = s.trips+1, max(s.longest, time.Since(began)) }()
	results := s.conn.SendBatch(s.ctx, batch)
	for i := range batch.Len() - 1 {
		if err = take(results, scans[i]); err != nil {
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

// take reads the result of the next statement; a nil scan drops its rows.
func take(results pgx.BatchResults, scan func(row) error) error {
	if scan == nil {
		_, err := results.Exec()
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	for err == nil && rows.Next() {
		err = scan(rows)
	}
	rows.Close()
	if err == nil {
		err = rows.Err()
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

// statementTexts keeps the statements of a database as the server wants them. The nil
// value keeps none.
type statementTexts struct {
	mu   sync.RWMutex
	kept map[string]string
}

// maxTexts bounds what is kept: clients choose filters, and with them more texts.
const maxTexts = 1024

// numbered replaces the first "?" by $1, the second by $2, and so on. No
// statement of the store has one inside a text.
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
