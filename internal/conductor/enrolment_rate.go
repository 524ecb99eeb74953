package conductor

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/ingot-metal/ingot/internal/fairqueue"
)

// maxEnrolmentWait bounds how long an unknown machine waits for its turn to be enrolled.
const maxEnrolmentWait = 3 * time.Second

// Bounds of the unknown machines that wait to be enrolled, see fairqueue.Queue.
const (
	enrolmentSlots      = 2
	maxEnrolmentWaiting = 256
)

// enrolmentRate bounds how many unknown machines are enrolled in a second, and shares that
// rate among the networks that they post from. It is safe for concurrent use.
type enrolmentRate struct {
	limit *rate.Limiter
	turns *fairqueue.Queue[fairqueue.Network]
}

func newEnrolmentRate(perSecond float64, burst int) *enrolmentRate {
	return &enrolmentRate{
		limit: rate.NewLimiter(rate.Limit(perSecond), burst),
		turns: fairqueue.New[fairqueue.Network](enrolmentSlots, maxEnrolmentWaiting),
	}
}

// take reports whether a machine may be enrolled at once, and counts it if so.
func (e *enrolmentRate) take(now time.Time) bool { return e.limit.AllowN(now, 1) }

// errEnrolmentRate says that more machines want to be enrolled than may be.
var errEnrolmentRate = errors.New("more unknown machines than auto_discovery.rate allows")

// wait waits until a machine of the source may be enrolled. It returns errEnrolmentRate when
// that takes longer than maxEnrolmentWait, or when too many machines wait already.
func (e *enrolmentRate) wait(ctx context.Context, now func() time.Time, source netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, maxEnrolmentWait)
	defer cancel()
	leave, err := e.turns.Enter(ctx, fairqueue.NetworkOf(source))
	if err != nil {
		return errEnrolmentRate
	}
	defer leave()
	turn := e.limit.ReserveN(now(), 1)
	delay := turn.DelayFrom(now())
	if !turn.OK() || delay > maxEnrolmentWait {
		turn.CancelAt(now())
		return errEnrolmentRate
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		turn.CancelAt(now())
		return errEnrolmentRate
	}
}
