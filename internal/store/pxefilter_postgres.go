package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresViewer reads a PostgreSQL database on one connection.
type postgresViewer struct{ conn *pgx.Conn }

func viewPostgres(ctx context.Context, url string) (*BootView, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil { // the error's text may contain a part of the password
		return nil, fmt.Errorf("open database: %w: give the one that the engine has, like postgres://user:password@host:5432/name", ErrWrongURL)
	}
	if config.ConnectTimeout == 0 || config.ConnectTimeout > connectTimeout {
		config.ConnectTimeout = connectTimeout
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "ingot pxe-filter"
	}
	name := fmt.Sprintf("postgres://%s:%d/%s", config.Host, config.Port, config.Database)
	conn, err := connect(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", name, outage(err))
	}
	return &BootView{db: &postgresViewer{conn}, name: name}, nil
}

// token returns the set of transactions that the server's next query can see. Every commit changes
// it, in any database of the server (https://www.postgresql.org/docs/15/functions-info.html).
func (v *postgresViewer) token(ctx context.Context) (token string, err error) {
	bounded, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := v.conn.QueryRow(bounded, "SELECT pg_current_snapshot()::text").Scan(&token); err != nil {
		return "", outage(err)
	}
	return token, nil
}

func (v *postgresViewer) read(ctx context.Context, fn func(*Tx) error) error {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s := &postgresSession{ctx: bounded, caller: ctx, conn: v.conn}
	s.queue(nil, beginRead)
	err := fn(&Tx{now: time.Now(), db: s, lateCommit: longestWrite, takesLists: true})
	_, ended := control(bounded, v.conn, "ROLLBACK") // a read leaves nothing behind
	if err != nil {
		return err
	}
	return outage(ended)
}

func (v *postgresViewer) close(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
	defer cancel()
	return v.conn.Close(bounded)
}
