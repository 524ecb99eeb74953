package redfish

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/login"
	"github.com/ingot-metal/ingot/internal/node"
)

// defaultSilence is how long a BMC may be silent in the middle of a change.
const defaultSilence = 5 * time.Minute

// silenceKey is the key of driver_info that replaces defaultSilence, in seconds.
const silenceKey = "firmware_update_unresponsive_bmc_wait"

// silence returns how long the BMC may be silent.
func silence(n *node.Node) time.Duration {
	var seconds float64
	if n.DriverInfo.Get(silenceKey, &seconds) && seconds > 0 {
		return time.Duration(seconds * float64(time.Second))
	}
	return defaultSilence
}

// outlastsSilence reports whether a turn in a phase is made again if the BMC does not answer: the
// change was requested, or the BMC may have been asked for it before, and may restart for it.
func (r record) outlastsSilence(phase string) bool {
	return follows(phase) || phase == servedPhase && r.Update != nil && r.Update.Doubted
}

// withRecord makes a turn of a change that takes several turns. If the turn follows a request, or
// what may have been one, and fails for a reason that may end, as when the BMC does not answer, the
// turn is made again, for as long as the BMC may be silent. It is also made again if refused
// credentials are soon to be tried again.
func (d Driver) withRecord(
	ctx context.Context, n *node.Node, op string, turn driver.Turn, r record, do func(*call, record) (driver.Outcome, error),
) (driver.Outcome, error) {
	if r.Doubt {
		turn.Attempt = driver.Unknown
	}
	r.Silent, r.Doubt = 0, false
	var out driver.Outcome
	changed, refused := false, false
	err := d.with(ctx, n, op, turn, func(c *call) (err error) {
		out, err = do(c, r)
		changed = c.trace.mayHaveChanged()
		refused = err != nil && c.bmc.tries.Refused()
		// A BMC that starts does not serve all resources.
		if statusOf(err) == http.StatusNotFound && r.outlastsSilence(turn.Phase) {
			err = &node.DriverError{Op: op, Retryable: true, Reason: node.CutText(c.cleaned(reason(err)))}
		}
		return err
	})
	var failure *node.DriverError
	if !errors.As(err, &failure) || !failure.Retryable || !r.outlastsSilence(turn.Phase) || errors.Is(ctx.Err(), context.Canceled) {
		return out, err
	}
	before, unread := recordOf(turn) // without what this turn has noted
	if unread != nil {
		return out, err
	}
	before.Doubt = changed || turn.Attempt == driver.Unknown
	if before.Silent == 0 {
		before.Silent = max(turn.Elapsed, time.Millisecond).Seconds()
	}
	silent := turn.Elapsed - time.Duration(before.Silent*float64(time.Second))
	wait := max(parkFor(silent), failure.RetryAfter)
	now := d.pool.options.Clock()
	var denied *login.RefusedError
	switch {
	case errors.As(err, &denied) && denied.Next.Sub(now) <= longestPause: // the next try tells more
		wait = max(denied.Next.Sub(now), time.Second)
	case silent < silence(n):
	case refused:
		// The caller counts failures anew after each wait for another try, and would never give up.
		failure.Retryable = false
		return out, err
	default:
		return out, err
	}
	return before.outcome(driver.Outcome{Park: wait, Phase: turn.Phase}), nil
}
