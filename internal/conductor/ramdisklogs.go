package conductor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/ramdisklog"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// CollectLogs says when the logs of ramdisks are kept. The values are those of Ironic's
// configuration.
type CollectLogs string

// When logs are kept.
const (
	CollectNever     CollectLogs = "never"
	CollectOnFailure CollectLogs = "on_failure" // of cleaning, deployment, servicing, rescue or inspection by a ramdisk
	CollectAlways    CollectLogs = "always"     // also at their successful end, while the agent lives
)

// CollectPolicies are all values of CollectLogs.
var CollectPolicies = []CollectLogs{CollectNever, CollectOnFailure, CollectAlways}

// LogFolder keeps logs.
type LogFolder interface {
	// Keep keeps an archive, without the secrets, under a name of ramdisklog.Name. It waits at most
	// until ctx ends.
	Keep(ctx context.Context, name string, archive []byte, secrets []string) error
}

// RamdiskLogs says which logs of ramdisks are kept. The zero value keeps none.
type RamdiskLogs struct {
	Collect CollectLogs
	Folder  LogFolder // nil keeps none
}

// logsWithin bounds how long logs may delay what follows them.
const logsWithin = 45 * time.Second

// collectLogs returns the operation that keeps the logs of a ramdisk when its work has failed or is
// about to end, provided that its agent lives. Missing logs do not end the work. The agent of a
// machine that nothing else can switch on is asked for logs only after a failure: this agent has to
// restart the machine at the end, and that fails when the list of its command results, with the
// logs among them, is too long to be read.
//
// The machine stays as it is, but its agent runs a command, and can be asked for logs only once. So
// this is a Change: nobody asks the agent beside a process that has the lease of its node. When
// nobody knows whether the agent was asked, it is not asked again, and nothing else waits for it.
func (c *Conductor) collectLogs(t runner.Task, failed bool) runner.Operation {
	policy := c.cfg.Logs.Collect
	wanted := failed && policy == CollectOnFailure || policy == CollectAlways && (failed || c.switches(t.Node, node.PowerOn))
	return runner.Operation{
		Ref: runner.Ref{Name: "collect logs"}, Within: logsWithin,
		Skip:      !wanted || c.cfg.Logs.Folder == nil || !c.agentLives(t.Node),
		Change:    c.keepLogs,
		OnFailure: c.noteMissingLogs(t),
	}
}

// agentLives reports whether the agent of a node can be called, judging by its heartbeats.
func (c *Conductor) agentLives(n *node.Node) bool {
	ramdisk, ok := c.ramdiskOf(n)
	return ok && agent.EndpointOf(n).URL != "" && n.DriverInternalInfo.Text(agent.TokenKey) != "" && ramdisk.Running(n)
}

// keepLogs asks the agent for its logs and keeps them.
func (c *Conductor) keepLogs(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	if turn.Attempt == driver.Unknown {
		return driver.Outcome{}, driver.OutcomeUnknown("collect the logs of the ramdisk")
	}
	source, err := driver.Ability[driver.LogSource](c.drivers, n, node.DeployInterface, "logs of the ramdisk")
	if err != nil {
		return driver.Outcome{}, err
	}
	archive, err := source.Logs(ctx, n)
	if err != nil {
		return driver.Outcome{}, err
	}
	name := ramdisklog.Name(n.UUID, n.InstanceUUID, c.store.Now())
	if err := c.cfg.Logs.Folder.Keep(ctx, name, archive, node.Secrets(n)); err != nil {
		return driver.Outcome{}, err
	}
	return driver.Outcome{Note: c.keptLogs(name)}, nil
}

// keptLogs returns the text for the history about where the logs are.
func (c *Conductor) keptLogs(name string) string {
	return fmt.Sprintf("The logs of the ramdisk are in the file %s, in the folder agent.deploy_logs_local_path of the engine %s.", name, c.cfg.Hostname)
}

// missingLogs returns the text for the history about logs that could not be kept.
func missingLogs(cause error) string {
	return node.CutText(fmt.Sprintf("The logs of the ramdisk could not be kept: %v", cause))
}

// postedLogsWithin bounds how long logs may delay the end of a failed inspection, or the answer to
// a post. The post may have waited for its turn and its node before, and agents wait for half a
// minute by default (http_request_timeout).
const postedLogsWithin = 5 * time.Second

// keepPostedLogs keeps the logs that a ramdisk posted with its inventory, if the ramdisk reports an
// error of its own or all logs are kept. It does not keep the logs of unknown machines: anybody may
// invent such a machine, and its logs would take the place of others.
func (c *Conductor) keepPostedLogs(ctx context.Context, p *post) {
	policy := c.cfg.Logs.Collect
	if !p.enrolled && (policy == CollectAlways || policy == CollectOnFailure && inspect.ReportsError(p.document)) {
		c.keepLogsOf(ctx, p.answer.Node, p.document)
	}
}

// keepLogsOfFailedHooks keeps the logs of a ramdisk when the hooks fail its inspection, unless the
// logs were kept when the ramdisk posted them. Unknown machines are not under inspection, so their
// logs are not kept.
func (c *Conductor) keepLogsOfFailedHooks(ctx context.Context, n *node.Node, document *inventory.Document) {
	if c.cfg.Logs.Collect == CollectOnFailure && !inspect.ReportsError(document) && inspected(n.ProvisionState) {
		c.keepLogsOf(ctx, n, document)
	}
}

// keepLogsOf keeps the logs in a document. They are stored nowhere else, so they are lost if the
// engine ends meanwhile. The post that brings them gives its slot to other posts first.
func (c *Conductor) keepLogsOf(ctx context.Context, n *node.Node, document *inventory.Document) {
	if document.Logs == nil || c.cfg.Logs.Folder == nil {
		return
	}
	name := ramdisklog.Name(n.UUID, n.InstanceUUID, c.store.Now())
	text := c.keptLogs(name)
	var archive []byte
	err := json.Unmarshal(document.Logs, &archive) // from base64
	if err == nil && len(archive) == 0 {
		return
	}
	if err == nil && !fairqueue.Release(ctx) {
		err = errWaiters
	}
	if err == nil {
		within, cancel := context.WithTimeout(ctx, postedLogsWithin)
		defer cancel()
		err = c.cfg.Logs.Folder.Keep(within, name, archive, node.Secrets(n))
	}
	if err != nil {
		text = missingLogs(err)
	}
	if err := c.store.Write(ctx, func(tx *store.Tx) error {
		return c.recordHistory(tx, n, node.SeverityInfo, eventType(workHooks), text)
	}); err != nil {
		c.log.Warn("What became of the logs of a ramdisk could not be stored", "node", n.UUID, "outcome", text, "err", err)
	}
}

// noteMissingLogs writes into the history that the logs could not be kept.
func (c *Conductor) noteMissingLogs(t runner.Task) func(error) runner.Write {
	return func(cause error) runner.Write {
		return func(tx *store.Tx, n *node.Node) error {
			return c.recordHistory(tx, n, node.SeverityInfo, eventType(t.Work.Kind), missingLogs(cause))
		}
	}
}
