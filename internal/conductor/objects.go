package conductor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/objectstore"
	"github.com/ingot-metal/ingot/internal/store"
)

// objectsError is a failure of the object store in the course of an inspection.
type objectsError struct{ err error }

func (e *objectsError) Error() string { return e.err.Error() }
func (e *objectsError) Unwrap() error { return e.err }

// longestWait bounds the pause between attempts of an inspection whose object
// store fails.
const longestWait = 30 * time.Second

// waitIntent is the key of objectsWait in the intent of inspection work.
const waitIntent = "waits_for_objects"

// objectsWait is what an inspection remembers whose object store fails.
type objectsWait struct {
	Since time.Time `json:"since"` // the first failure
	Times int       `json:"times"` // failures
}

// waitedForObjects reports whether an earlier attempt came as far as the object
// store.
func waitedForObjects(j job) bool { return j.Intent.Get(waitIntent, new(objectsWait)) }

// awaitObjects tries an inspection again later whose object store fails, and says
// so in the node; when that has lasted too long, the inspection fails. Other causes
// are returned.
func (c *Conductor) awaitObjects(ctx context.Context, j job, cause error) error {
	var failure *objectsError
	if !errors.As(cause, &failure) || ctx.Err() != nil {
		return cause
	}
	now, patience := c.store.Now(), c.cfg.Inventories.Patience
	wait := objectsWait{Since: now}
	j.Intent.Get(waitIntent, &wait)
	wait.Times++
	if now.Sub(wait.Since) >= patience {
		return c.fail(ctx, j, fmt.Sprintf("Failed to finish inspection: the object store with the inventories has failed for %s: %v. "+
			"When it works, inspect the node again.", patience, cause))
	}
	j.end(WorkPostponed)
	c.log.Warn("Inspection waits for the object store", "node", j.NodeUUID, "attempt", wait.Times, "err", cause)
	err := c.postponeForObjects(ctx, j, wait, node.StoreWait(wait.Since, patience, cause))
	if err == nil {
		c.wakeClaim()
	}
	return err
}

// postponeForObjects stores since when and why the inspection waits, and gives its
// lease back.
func (c *Conductor) postponeForObjects(ctx context.Context, j job, wait objectsWait, reason string) error {
	pause := min(retryAfter<<min(wait.Times-1, 10), longestWait)
	pause -= rand.N(pause / 4) //nolint:gosec // keeps machines apart that began to wait together
	return c.store.Write(ctx, func(tx *store.Tx) error {
		before, err := leased(tx, j)
		if err != nil {
			return err
		}
		after := *before
		for _, write := range j.found {
			write(&after)
		}
		after.LastError = reason
		if err := tx.UpdateNode(before, &after); err != nil {
			return err
		}
		later := *j.Work // a commit that fails must not count
		later.Intent, later.NotBefore = later.Intent.With(map[string]any{waitIntent: wait}), tx.Now().Add(pause)
		if err := tx.CheckpointWork(&later); err != nil {
			return err
		}
		return tx.ReleaseLease(j.Lease)
	})
}

// How objects are removed that nobody needs any more.
const (
	garbagePoll    = 30 * time.Second // longest the loop sleeps: others may leave it objects
	garbageBatch   = 100              // objects claimed at once
	garbageHold    = 2 * time.Minute  // how long a claim lasts, and first wait after a refusal
	garbageAway    = 10 * time.Second // wait when the store did not answer
	garbageLongest = time.Hour        // longest wait after a refusal
)

// garbageLoop removes objects that nobody needs any more.
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

// wakeGarbage has garbageLoop look at the database now.
func (c *Conductor) wakeGarbage() {
	select {
	case c.garbage <- struct{}{}:
	default:
	}
}

// removeGarbage removes a batch of objects that nobody needs, if it is time for
// that, and returns when to come again. A store that does not answer ends the batch:
// the rest is tried again when the claim has passed.
func (c *Conductor) removeGarbage(ctx context.Context) (wait time.Duration) {
	batch, wait, err := c.claimGarbage(ctx)
	if err == nil && len(batch) > 0 {
		err = c.dropGarbage(ctx, batch)
	}
	if err != nil && ctx.Err() == nil {
		c.log.Error("Objects that nobody needs could not be removed", "err", err)
	}
	return wait
}

// claimGarbage takes objects to remove and returns when to come again. When none is
// due it only reads.
func (c *Conductor) claimGarbage(ctx context.Context) (batch []store.Garbage, wait time.Duration, err error) {
	wait = garbagePoll
	err = c.store.Read(ctx, func(tx *store.Tx) error {
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
		batch, err = tx.ClaimGarbage(garbageBatch, garbageHold, c.cfg.Inventories.settled())
		return err
	})
	if err != nil {
		return nil, garbagePoll, err
	}
	return batch, time.Millisecond, nil // there may be more; what is claimed is not due again soon
}

// dropGarbage removes objects and records that. When it fails to record, they are
// removed again.
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
// that are gone, and how long the others have to wait.
func (c *Conductor) deleteObjects(ctx context.Context, batch []store.Garbage) (removed []store.Garbage, waits map[store.Garbage]time.Duration) {
	waits = map[store.Garbage]time.Duration{}
	for i, g := range batch {
		err := c.cfg.Inventories.Objects.Delete(ctx, g.Key)
		switch {
		case err == nil:
			removed = append(removed, g)
		case errors.Is(err, objectstore.ErrUnavailable), ctx.Err() != nil:
			c.log.Warn("Object store does not answer, inventories without a node are removed later", "objects", len(batch)-i, "err", err)
			for _, rest := range batch[i:] {
				waits[rest] = garbageAway
			}
			return removed, waits
		default:
			c.log.Warn("Inventory without a node could not be removed from the object store", "attempt", g.Attempts+1, "err", err)
			wait := min(garbageHold<<min(g.Attempts, 10), garbageLongest)
			g.Attempts++
			waits[g] = wait
		}
	}
	return removed, waits
}
