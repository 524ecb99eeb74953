package conductor

import (
	"context"
	"errors"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// collection serves one kind of record. Kinds differ only in how they are stored and
// in their rules.
type collection[T any] struct {
	c     *Conductor
	kind  *store.Collection[T]
	rules rules[T]
}

// rules are the functions that a kind of record adds to the write transaction. Each
// may be nil.
type rules[T any] struct {
	// created completes and checks a new record.
	created func(tx *store.Tx, record *T) error
	// changed checks a change, and stores what follows from it.
	changed func(tx *store.Tx, before, after *T) error
	// deleted checks whether a record may be deleted, and stores what follows from it.
	deleted func(tx *store.Tx, record *T) error
	// stored is called after the commit of a new record.
	stored func(record *T)
}

// List returns a page of records.
func (l collection[T]) List(ctx context.Context, query node.Query) ([]*T, error) {
	var records []*T
	err := l.c.store.Read(ctx, func(tx *store.Tx) (err error) {
		records, err = l.kind.List(tx, query)
		return err
	})
	return records, err
}

// Get returns one record.
func (l collection[T]) Get(ctx context.Context, ident string) (*T, error) {
	var record *T
	err := l.c.store.Read(ctx, func(tx *store.Tx) (err error) {
		record, err = l.kind.Get(tx, ident)
		return err
	})
	return record, err
}

// Create stores a new record.
func (l collection[T]) Create(ctx context.Context, record *T) (*T, error) {
	var created T
	err := l.write(ctx, func(tx *store.Tx) error {
		created = *record
		if l.rules.created != nil {
			if err := l.rules.created(tx, &created); err != nil {
				return err
			}
		}
		return l.kind.Create(tx, &created)
	})
	if err != nil {
		return nil, err
	}
	if l.rules.stored != nil {
		l.rules.stored(&created)
	}
	return &created, nil
}

// Update changes a record. Requests for the same record run one after the other, and all
// of them take effect.
func (l collection[T]) Update(ctx context.Context, ident string, change func(*T) error) (*T, error) {
	var after T
	err := l.write(ctx, func(tx *store.Tx) error {
		before, err := l.kind.Get(tx, ident)
		if err != nil {
			return err
		}
		after = *before
		if err := change(&after); err != nil {
			return err
		}
		if l.rules.changed != nil {
			if err := l.rules.changed(tx, before, &after); err != nil {
				return err
			}
		}
		return l.kind.Update(tx, before, &after)
	})
	if err != nil {
		return nil, err
	}
	return &after, nil
}

// Delete removes a record.
func (l collection[T]) Delete(ctx context.Context, ident string) error {
	return l.write(ctx, func(tx *store.Tx) error {
		record, err := l.kind.Get(tx, ident)
		if err != nil {
			return err
		}
		if l.rules.deleted != nil {
			if err := l.rules.deleted(tx, record); err != nil {
				return err
			}
		}
		return l.kind.Delete(tx, record)
	})
}

// write runs fn in a transaction. While a node that fn needs is under work, it tries again,
// for at most LockWait.
func (l collection[T]) write(ctx context.Context, fn func(*store.Tx) error) error {
	return l.c.whenFree(ctx, func() error { return l.c.store.Write(ctx, fn) })
}

func isNotFound(err error) bool { return errors.Is(err, node.ErrNotFound) }

// ownerOf returns the node that a new record names. An unknown node is a
// *node.ValidationError.
func ownerOf(tx *store.Tx, ident string) (*node.Node, error) {
	n, err := tx.Node(ident)
	if isNotFound(err) {
		return nil, node.Invalid("Node %s could not be found.", ident)
	}
	return n, err
}
