package redfish

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// noted adds to an outcome the node's record of this update. The record is stored before the BMC is
// asked for the update, and stays until the step has seen its end. Whatever becomes of the step,
// later operations learn from the record what the BMC may still write.
func (w updating) noted(out driver.Outcome) driver.Outcome {
	mine := node.FirmwareUpdate{Request: w.turn.Origin.Request, Component: w.file.component, Task: w.record.Update.Task}
	if mine.Task == "" {
		mine.EarlierTasks = w.record.Update.Tasks
	}
	stored := node.FirmwareUpdatesOf(w.node)
	i := slices.IndexFunc(stored, mine.Same)
	if i >= 0 {
		mine.AskedAt, mine.AwaitedSince = stored[i].AskedAt, stored[i].AwaitedSince
	}
	// In every other phase the update is about to be requested, or under way.
	over := out.Phase == "" || strings.HasPrefix(out.Phase, switchOffPhase)
	if !over && (i < 0 || out.Phase == sendPhase) {
		mine.AskedAt = w.bmc.clock().UTC()
	}
	if over && i < 0 || !over && i >= 0 && stored[i].Equal(mine) {
		return out
	}
	apply := out.Apply
	out.Apply = func(n *node.Node) {
		if apply != nil {
			apply(n)
		}
		updates := slices.DeleteFunc(node.FirmwareUpdatesOf(n), mine.Same)
		if !over {
			updates = append(updates, mine)
		}
		node.StoreFirmwareUpdates(n, updates)
	}
	return out
}

// noteDoubt returns the outcome of a turn that only notes an update that the BMC may have been asked
// for although nothing is stored of that. However the step ends, the machine then keeps its power
// while the BMC writes. The outcome is done if the update is noted.
func noteDoubt(n *node.Node, file firmwareFile, turn driver.Turn, r record) driver.Outcome {
	mine := node.FirmwareUpdate{Request: turn.Origin.Request, Component: file.component, EarlierTasks: r.Update.Tasks}
	if slices.ContainsFunc(node.FirmwareUpdatesOf(n), mine.Same) {
		return driver.Outcome{}
	}
	return r.outcome(driver.Outcome{Again: driver.NextTurn, Phase: turn.Phase, Apply: func(n *node.Node) {
		node.StoreFirmwareUpdates(n, append(node.FirmwareUpdatesOf(n), mine))
	}})
}

// otherComponent stands for the component of an update of which nothing is stored.
const otherComponent = "another component"

// unstored returns a record for an update of which nothing is stored. The BMC may have been asked
// for it after the one under way, if the database has gone back to an older state since.
func (w updating) unstored() node.FirmwareUpdate {
	earlier := slices.Clone(w.record.Update.Tasks)
	if w.record.Update.Task != "" {
		earlier = append(earlier, w.record.Update.Task)
	}
	return node.FirmwareUpdate{Component: otherComponent, EarlierTasks: earlier}
}

// guarded returns the node with records of all updates that must end before the machine loses its
// power. The records include one for an update of which nothing is stored, if such an update may be
// under way.
func (w updating) guarded() *node.Node {
	stored, more := node.FirmwareUpdatesOf(w.node), w.unstored()
	if !w.record.Update.Doubted || slices.ContainsFunc(stored, more.Same) {
		return w.node
	}
	guarded := *w.node
	node.StoreFirmwareUpdates(&guarded, append(stored, more))
	return &guarded
}

// awaitFirmware checks, before a machine loses its power, whether its BMC is writing firmware. The
// outcome is done when the power may be cut. Otherwise it waits for the end of the write, and
// requests nothing. A BMC that does not answer, or refuses the login, is an error. A BMC whose
// answer is an error, or cannot be read, counts as writing. The record of the operation's own
// update is kept. The record that stands for an update of which nothing is stored is kept only
// until the end of a wait. If it stayed, later operations would mistake every
// newer update by others for it.
func (c *call) awaitFirmware(n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	stored := node.FirmwareUpdatesOf(n)
	if len(stored) == 0 {
		return driver.Outcome{}, nil
	}
	var left []node.FirmwareUpdate
	var out driver.Outcome
	now := c.bmc.clock().UTC()
	for _, u := range stored {
		shown, err := c.updateProgress(u, now)
		var unasked *url.Error
		if err != nil && !errors.As(err, &unasked) && statusOf(err) != http.StatusUnauthorized {
			shown, err = working, nil
		}
		if err != nil {
			return driver.Outcome{}, fmt.Errorf("ask whether the firmware of %s is being written, which must not lose its power: %w", u.Component, err)
		}
		next := decideUpdate(u, shown, now)
		keep := next.keep || u.Request == turn.Origin.Request
		if u.Component == otherComponent {
			keep = next.wait || driver.IsWaitPhase(turn.Phase) // the turn after the wait must not begin another
		}
		if keep {
			left = append(left, next.update)
		}
		if next.wait {
			out.Park, out.Waits = parkFor(now.Sub(next.update.AwaitedSince)), true
			out.Phase, out.Handle = turn.Phase, turn.Handle
		}
		if next.note != "" {
			out.Note = next.note
		}
	}
	if !slices.EqualFunc(left, stored, node.FirmwareUpdate.Equal) {
		out.Apply = func(n *node.Node) { node.StoreFirmwareUpdates(n, left) }
	}
	return out, nil
}

// afterUpdate says what to do about an update before the machine loses its power.
type afterUpdate struct {
	update node.FirmwareUpdate
	keep   bool   // the record, because the BMC may still write
	wait   bool   // for the BMC, which writes now
	note   string // for the history
}

// decideUpdate decides what to do about an update before the machine loses its power. An update
// that waits for a start of the machine writes nothing before the start.
func decideUpdate(u node.FirmwareUpdate, shown progress, now time.Time) afterUpdate {
	asked := "which was asked for at " + u.AskedAt.Format(time.RFC3339)
	if u.AskedAt.IsZero() {
		asked = "of which the engine has stored nothing"
	}
	switch {
	case shown == waiting:
		u.AwaitedSince = time.Time{}
		return afterUpdate{update: u, keep: true}
	case shown != working:
		return afterUpdate{update: u}
	case u.AwaitedSince.IsZero():
		u.AwaitedSince = now
		return afterUpdate{update: u, keep: true, wait: true, note: "The machine keeps its power, for " + updateWithin.String() + " at most, until its BMC has written the firmware of " +
			u.Component + ", " + asked + "."}
	case now.Sub(u.AwaitedSince) < updateWithin:
		return afterUpdate{update: u, keep: true, wait: true}
	}
	return afterUpdate{update: u, note: "The power of the machine was changed although its BMC did not show within " + updateWithin.String() +
		" that it has written the firmware of " + u.Component + ": check that component."}
}

// maxAdded bounds how many tasks are read in search of one that has not ended. These are the last
// tasks of the list.
const maxAdded = 50

// updateProgress asks the BMC how far an update is. If the update has no known task, it reads the
// tasks that came after the request. Such an update counts as working while the BMC may not show it
// yet.
func (c *call) updateProgress(u node.FirmwareUpdate, now time.Time) (progress, error) {
	if u.Task != "" {
		shown, _, err := c.taskProgress(u.Task)
		return shown, err
	}
	service, _, err := c.serviceProgress(false)
	if err != nil || service == working {
		return service, err
	}
	tasks, err := c.taskPaths()
	if err != nil {
		return "", err
	}
	added := newTasks(u.EarlierTasks, tasks)
	waits := false
	for _, path := range added[max(0, len(added)-maxAdded):] {
		shown, _, err := c.taskProgress(path)
		if err != nil || shown == working {
			return shown, err
		}
		waits = waits || shown == waiting
	}
	unseen := unseenFor(service)
	if len(tasks) > 0 {
		unseen = searchFor
	}
	switch {
	case waits:
		return waiting, nil
	case now.Sub(u.AskedAt) < unseen:
		return working, nil
	}
	return ended, nil
}
