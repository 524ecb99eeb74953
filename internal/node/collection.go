package node

import "context"

// Collection is all records of one kind that clients create, change and delete: chassis, port
// groups, allocations and so on. An ident is a UUID, or a name where the kind has names. An ident
// that no record has is a *NotFoundError. A write returns when it is on disk, and checks the rules
// between records inside its transaction. Every method is safe for concurrent use.
type Collection[T any] interface {
	List(ctx context.Context, query Query) ([]*T, error)
	Get(ctx context.Context, ident string) (*T, error)
	// Create stores a new record and returns it as stored. A value that must be unique but is taken
	// is a *ConflictError. A reference to a record that does not exist is a *ValidationError.
	Create(ctx context.Context, record *T) (*T, error)
	// Update runs change inside the write transaction on a fresh copy, possibly more than once. If
	// change fails, Update writes nothing and returns that error as it is.
	Update(ctx context.Context, ident string, change func(*T) error) (*T, error)
	Delete(ctx context.Context, ident string) error
}
