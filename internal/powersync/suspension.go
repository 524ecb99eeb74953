package powersync

import (
	"context"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// suspended is what this process knows of the suspension in the database. The database decides. The
// mutex of the Syncer guards it.
type suspended struct {
	suspension node.Suspension           // as it was last read
	differing  map[int64]node.PowerState // noted power states of machines, during a suspension
	// free is the time, by this process's clock, until which any number of machines may differ,
	// because a person has ended a suspension.
	free time.Time
}

// readSuspension reads the suspension from the database. When a person has ended a suspension, all
// machines that differ may be restored at their next reading. Differences that are found more than
// two intervals after that count again.
func (s *Syncer) readSuspension(tx *store.Tx) error {
	suspension, err := tx.Suspension()
	if err != nil {
		return err
	}
	var differing map[int64]node.PowerState
	if suspension.InForce() {
		if differing, err = tx.PowerDifferences(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if suspension.Ended != s.suspended.suspension.Ended {
		s.suspended.free = time.Now().Add(suspension.Ended.Add(2 * s.cfg.Interval).Sub(tx.Now()))
		for _, e := range s.nodes {
			e.differedAt = time.Time{}
		}
	}
	s.suspended.suspension, s.suspended.differing = suspension, differing
	return nil
}

// differs handles a machine whose power state differs from its node's: the power state is restored,
// or, during a suspension, the difference is noted.
func (s *Syncer) differs(ctx context.Context, e *entry, n *node.Node, observed node.PowerState) error {
	detail, known := s.countDifference(e, observed)
	if known {
		return nil
	}
	if detail != "" {
		if err := s.suspend(ctx, detail); err != nil {
			return err
		}
	}
	return s.restore(ctx, e, n, observed)
}

// suspend suspends work and the restoring of power states until a person resumes them.
func (s *Syncer) suspend(ctx context.Context, detail string) error {
	began := false
	err := s.db.Write(ctx, func(tx *store.Tx) (err error) {
		began, err = s.owner.Suspend(tx, detail)
		return err
	})
	if err != nil {
		return err
	}
	if began {
		s.log.Error("Power states are not restored and work is suspended, too many machines differ from what is stored: see ingot suspension", "detail", detail)
	}
	return s.db.Read(ctx, s.readSuspension)
}

// countDifference records that a machine differs from its node. Detail says why too many machines
// differ; it is "" when not too many do, or when a suspension is in force. Known reports whether
// the database has noted this difference already.
func (s *Syncer) countDifference(e *entry, observed node.PowerState) (detail string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e.differedAt = now
	if s.suspended.suspension.InForce() {
		return "", s.suspended.differing[e.id] == observed
	}
	if now.Before(s.suspended.free) {
		return "", false
	}
	read, differing := s.counted(now)
	if !tooMany(read, differing) {
		return "", false
	}
	return fmt.Sprintf("%d of the %d machines that were read last differ from what the engine has stored of them", differing, read), false
}

// noDifference removes the noted difference of a machine, if there is one.
func (s *Syncer) noDifference(ctx context.Context, e *entry) error {
	s.mu.Lock()
	_, noted := s.suspended.differing[e.id]
	s.mu.Unlock()
	if !noted {
		return nil
	}
	return s.db.Write(ctx, func(tx *store.Tx) error { return tx.DropPowerDifference(e.id) })
}

// counted returns how many machines were read in the last interval, and how many were found to
// differ in it.
func (s *Syncer) counted(now time.Time) (read, differing int) {
	since := now.Add(-s.cfg.Interval)
	for _, e := range s.nodes {
		if e.readAt.After(since) {
			read++
		}
		if e.differedAt.After(since) {
			differing++
		}
	}
	return read, differing
}
