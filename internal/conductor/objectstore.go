package conductor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/objectstore"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// objectsError is a failure of the object store during an inspection.
type objectsError struct{ err error }

func (e *objectsError) Error() string { return e.err.Error() }
func (e *objectsError) Unwrap() error { return e.err }

// Pauses between the attempts of an inspection while the object store fails.
const (
	firstWait   = 2 * time.Second // doubles
	longestWait = 30 * time.Second
)

// waitIntent is the key of an objectsWait in the intent of inspection work.
const waitIntent = "waits_for_objects"

// objectsWait is stored with an inspection that waits for the object store.
type objectsWait struct {
	Since time.Time `json:"since"` // the first failure
	Times int       `json:"times"` // failures
}

// waitedForObjects reports whether an earlier attempt got as far as writing to the
// object store.
func waitedForObjects(w *store.Work) bool {
	// Rare, and a search is cheaper than parsing.
	return strings.Contains(string(w.Intent), waitIntent) && w.Intent.Get(waitIntent, new(objectsWait))
}

// awaitObjects handles a failure of an inspection. After a failure of the object store, it returns
// an error that makes the runner try the inspection again later and that writes this into the node.
// When the object store has failed for MaxWait, the inspection fails. awaitObjects returns other
// causes unchanged.
func (c *Conductor) awaitObjects(ctx context.Context, w *store.Work, cause error) error {
	var failure *objectsError
	if !errors.As(cause, &failure) || ctx.Err() != nil {
		return cause
	}
	now, maxWait := c.store.Now(), c.cfg.Inventories.MaxWait
	wait := objectsWait{Since: now}
	w.Intent.Get(waitIntent, &wait)
	wait.Times++
	if now.Sub(wait.Since) >= maxWait {
		return failedInspection(fmt.Errorf("the object store for inventories has failed for %s (repair it, then inspect the node again): %w", maxWait, cause))
	}
	c.log.Warn("Inspection waits for the object store", "node", w.NodeUUID, "attempt", wait.Times, "err", cause)
	return &runner.LaterError{
		After:  c.cfg.Jitter(min(firstWait<<min(wait.Times-1, 10), longestWait)),
		Intent: w.Intent.With(map[string]any{waitIntent: wait}),
		Write: func(_ *store.Tx, n *node.Node) error {
			n.LastError = node.StoreWait(wait.Since, maxWait, cause)
			return nil
		},
		Cause: cause,
	}
}

// Times of garbageLoop.
const (
	garbagePoll    = 30 * time.Second // longest pause of the loop: other conductors may leave objects
	garbageBatch   = 100              // objects claimed at once
	garbageClaim   = 2 * time.Minute  // how long a claim lasts, and first wait after a refusal
	garbageAway    = 10 * time.Second // wait when the store did not answer
	garbageLongest = time.Hour        // longest wait after a refusal
)

// garbageLoop removes objects that are no longer needed.
func (c *Conductor) garbageLoop(ctx context.Context) {
	for {
		wait := c.removeGarbage(ctx)
		select {
		case <-ctx.Done():
			return
		case <-c.garbage:
		case <-time.After(wait):
		}
	}
}

// wakeGarbage makes garbageLoop read the database now.
func (c *Conductor) wakeGarbage() {
	select {
	case c.garbage <- struct{}{}:
	default:
	}
}

// removeGarbage removes a batch of objects that are due for removal, and returns when
// to try again. An object store that does not answer ends the batch: the rest is
// tried again when the claim has expired.
func (c *Conductor) removeGarbage(ctx context.Context) (wait time.Duration) {
	batch, wait, err := c.claimGarbage(ctx)
	if err == nil && len(batch) > 0 {
		err = c.dropGarbage(ctx, batch)
	}
	if err != nil && ctx.Err() == nil {
		c.log.Error("Objects that are no longer needed could not be removed", "err", err)
	}
	return wait
}

// claimGarbage claims objects to remove and returns when to try again. When no object is due, it
// only reads. In a restored database it claims nothing until a person has decided to keep that
// database: the database that it replaced may need the objects.
func (c *Conductor) claimGarbage(ctx context.Context) (batch []store.Garbage, wait time.Duration, err error) {
	wait = garbagePoll
	err = c.store.Read(ctx, func(tx *store.Tx) error {
		if suspension, err := tx.Suspension(); err != nil || suspension.Reason == node.Restored {
			return err
		}
		at, ok, err := tx.NextGarbage()
		if ok {
			wait = min(garbagePoll, at.Sub(tx.Now()))
		}
		return err
	})
	if err != nil || wait > 0 {
		return nil, wait, err
	}
	err = c.store.Write(ctx, func(tx *store.Tx) (err error) {
		batch = nil
		if restored, err := tx.WasRestored(); restored || err != nil {
			return err
		}
		batch, err = tx.ClaimGarbage(garbageBatch, garbageClaim, c.cfg.Inventories.removalDelay())
		return err
	})
	if err != nil || len(batch) == 0 {
		return nil, garbagePoll, err
	}
	return batch, time.Millisecond, nil // there may be more; what is claimed is not due again soon
}

// dropGarbage removes objects and records their removal. If it cannot record that, the objects are
// removed again later.
func (c *Conductor) dropGarbage(ctx context.Context, batch []store.Garbage) error {
	removed, waits := c.deleteObjects(ctx, batch)
	return c.store.Write(ctx, func(tx *store.Tx) error {
		for _, g := range removed {
			if err := tx.DropGarbage(g.ID); err != nil {
				return err
			}
		}
		for g, wait := range waits {
			if err := tx.PostponeGarbage(g, wait); err != nil {
				return err
			}
		}
		return nil
	})
}

// deleteObjects removes objects until the store does not answer. It returns those
// that it removed, and how long the others have to wait.
func (c *Conductor) deleteObjects(ctx context.Context, batch []store.Garbage) (removed []store.Garbage, waits map[store.Garbage]time.Duration) {
	waits = map[store.Garbage]time.Duration{}
	for i, g := range batch {
		err := c.cfg.Inventories.Objects.Delete(ctx, g.Key)
		switch {
		case err == nil:
			removed = append(removed, g)
		case errors.Is(err, objectstore.ErrUnavailable), ctx.Err() != nil:
			c.log.Warn("Object store does not answer, inventories that are no longer needed are removed later", "objects", len(batch)-i, "err", err)
			for _, rest := range batch[i:] {
				waits[rest] = garbageAway
			}
			return removed, waits
		default:
			c.log.Warn("Inventory that is no longer needed could not be removed from the object store", "attempt", g.Attempts+1, "err", err)
			wait := min(garbageClaim<<min(g.Attempts, 10), garbageLongest)
			g.Attempts++
			waits[g] = wait
		}
	}
	return removed, waits
}
