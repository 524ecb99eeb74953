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

// bootRetries is how many times a machine is started again when nothing is heard of its ramdisk.
// It is no setting: a change of it would take operations away from work under way.
const bootRetries = 2

// bootRetryKey is the key of driver_internal_info for the number of the last retry that was
// begun, a string that counts from 1.
const bootRetryKey = "ramdisk_boot_retry"

// retryBoot returns the operations that start a machine again when its ramdisk was not heard
// within Limits.BootRetry, as Ironic's [pxe]boot_retry_timeout does: firmware that got no answer
// from the network may never ask again. It is not for starts between steps, because the machine
// may write firmware during such a start.
func (c *Conductor) retryBoot(n *node.Node, item string) (operations []runner.Operation) {
	for retry := range bootRetries {
		number := strconv.Itoa(retry + 1)
		wait := runner.Operation{
			Ref: runner.Ref{Name: "wait before boot retry"}, Change: c.awaitBoot(number), ReadsOnly: true, Decides: true,
			Skip: seen(n) || c.cfg.Limits.BootRetry <= 0,
		}
		// A retry that has begun goes on to its end, whatever the setting is now.
		begun := n.DriverInternalInfo.Text(bootRetryKey) == number
		again := skipIf(!begun, slices.Concat([]runner.Operation{c.offForRamdisk(n), c.bootRamdiskOperation(n)}, c.restart(n))...)
		operations = append(operations, labelled(append([]runner.Operation{wait}, again...), item+" retry "+number)...)
	}
	return skipIf(kept(n) || !c.switches(n, node.PowerOn), operations...)
}

// awaitBoot returns the change that waits until something is heard of the ramdisk, or until it
// is time for the retry of that number.
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

// seen reports whether the ramdisk has made a lookup or sent a heartbeat with its token, even one
// that was refused. That the node has a token shows a lookup, unless the token is on the machine's
// virtual medium.
func seen(n *node.Node) bool {
	return agent.EndpointOf(n).URL != "" || agent.Pregenerated(n) == "" && n.DriverInternalInfo.Text(agent.TokenKey) != "" ||
		slices.ContainsFunc(node.HeartbeatRefusals(n.DriverInternalInfo), func(r node.HeartbeatRefusal) bool { return r.Reason.HadToken() })
}

// maxHearingTimes bounds the time that leftToBeHeard adds to its limit, as a multiple of the time
// for which the engine must have listened. Without it, work of an engine that restarts again and
// again would wait forever.
const maxHearingTimes = 5

// leftToBeHeard returns how much longer a ramdisk may be silent that was awaited for the elapsed
// time; 0 or less when that time is over. The ramdisk may be silent until the limit. It may also
// be silent until the engine has listened for HeartbeatTimeout, or for the limit if that is
// shorter, because the engine did not hear what was sent before.
func (c *Conductor) leftToBeHeard(limit, elapsed time.Duration) time.Duration {
	left, hearing := limit-elapsed, min(c.cfg.HeartbeatTimeout, limit)
	if elapsed < limit+maxHearingTimes*hearing {
		left = max(left, c.ListeningSince().Add(hearing).Sub(c.store.Now()))
	}
	return left
}
