package invariant

import (
	"context"
	"errors"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/instance"
)

// Checker has the sources of the rules. It does not check a rule whose source is not set.
type Checker struct {
	Machines  *sim.Machines
	Instances *instance.Instances
	// AuditLogs are the paths of the audit logs of the workload API servers, with the deletions of
	// Nodes.
	AuditLogs []string
	Hosts     *Watch
}

// Violations are the events that broke a rule.
type Violations struct {
	Early  []Early
	Shared []Shared
	Taken  []Taken
}

// Strings returns a sentence for each violation.
func (v Violations) Strings() (all []string) {
	for _, e := range v.Early {
		all = append(all, e.String())
	}
	for _, s := range v.Shared {
		all = append(all, s.String())
	}
	for _, t := range v.Taken {
		all = append(all, t.String())
	}
	return all
}

// Violations returns what has broken a rule until now. The error means that a source cannot be
// read, not that a rule is broken.
func (c Checker) Violations(ctx context.Context) (v Violations, err error) {
	var deletions []Deletion
	for _, path := range c.AuditLogs {
		found, failure := ReadAuditLog(path)
		deletions, err = append(deletions, found...), errors.Join(err, failure)
	}
	if c.Machines != nil && c.Instances != nil {
		v.Early = EarlyDeletions(c.Machines.Runs(), c.Instances.Nodes(), deletions)
	}
	if c.Hosts != nil {
		var failure error
		v.Shared, failure = c.Hosts.SharedHosts(ctx)
		err = errors.Join(err, failure)
		v.Taken, failure = c.Hosts.TakenHosts(ctx, RunningOn(c.Machines))
		err = errors.Join(err, failure)
	}
	return v, err
}
