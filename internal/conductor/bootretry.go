package conductor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
)

// bootRetries is how often a machine is started again whose ramdisk was not heard. It is fixed:
// operations of work under way must not vanish with a setting.
const bootRetries = 2

// bootRetryKey is the key of driver_internal_info for the number of the retry, from 1, which
// starts the machine again.
const bootRetryKey = "ramdisk_boot_retry"

// retryBoot gives the ramdisk that a machine boots Limits.BootRetry to be heard, and then starts
// the machine again, as Ironic's boot_retry_timeout does: firmware that got no answer from the
// network may never ask again. It is not for starts between steps, which may write firmware.
func (c *Conductor) retryBoot(n *node.Node, item string, skip bool) (operations []runner.Operation) {
	skip = skip || kept(n) || !c.switches(n, node.PowerOn)
	for retry := range bootRetries {
		number := strconv.Itoa(retry + 1)
		wait := runner.Operation{
			Ref: runner.Ref{Name: "wait before boot retry"}, Change: c.awaitBoot(number), Harmless: true, Decides: true,
			Skip: seen(n) || c.cfg.Limits.BootRetry <= 0,
		}
		again := slices.Concat([]runner.Operation{c.offForRamdisk(n), c.bootRamdiskOperation(n)}, c.restart(n))
		again = labelled(again, "", n.DriverInternalInfo.Text(bootRetryKey) != number) // whatever the setting is now
		operations = append(operations, labelled(append([]runner.Operation{wait}, again...), item+" retry "+number, skip)...)
	}
	return operations
}

// awaitBoot waits until something is heard of the ramdisk, or it is time for that retry.
func (c *Conductor) awaitBoot(number string) runner.Change {
	return func(_ context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		limit := c.cfg.Limits.BootRetry
		if seen(n) || limit <= 0 {
			return driver.Outcome{}, nil
		}
		if left := c.leftToBeHeard(limit, turn.Elapsed); left > 0 {
			return driver.Outcome{Callback: true, Park: left}, nil
		}
		return driver.Outcome{
			Apply: func(n *node.Node) {
				n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{bootRetryKey: number})
			},
			Note: fmt.Sprintf("Nothing was heard of the ramdisk within %s (conductor.boot_retry_timeout): the machine is started again, retry %s of %d.",
				limit, number, bootRetries),
		}, nil
	}
}

// seen reports whether the ramdisk has made a lookup or sent a heartbeat, also one that was
// refused. A token that the machine's medium has says nothing of that.
func seen(n *node.Node) bool {
	return agent.EndpointOf(n).URL != "" || agent.Pregenerated(n) == "" && n.DriverInternalInfo.Text(agent.TokenKey) != "" ||
		slices.ContainsFunc(node.HeartbeatRefusals(n.DriverInternalInfo), func(r node.HeartbeatRefusal) bool { return r.Reason.HadToken() })
}

// maxHearingTimes bounds leftToBeHeard: an engine that starts again and again must go on, too.
const maxHearingTimes = 5

// leftToBeHeard returns how much longer a ramdisk may be silent that was awaited for the time
// elapsed: until the limit, and until HeartbeatTimeout after the engine began to listen.
func (c *Conductor) leftToBeHeard(limit, elapsed time.Duration) time.Duration {
	left, hearing := limit-elapsed, min(c.cfg.HeartbeatTimeout, limit)
	if elapsed < limit+maxHearingTimes*hearing {
		left = max(left, c.ListeningSince().Add(hearing).Sub(c.store.Now()))
	}
	return left
}
