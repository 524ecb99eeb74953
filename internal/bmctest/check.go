package bmctest

import (
	"context"
	"errors"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// need says whether a driver needs what a check tries.
type need int

const (
	optional    need = iota
	needed           // nothing works without it
	bootNeeded       // one such check is enough to boot a machine
	askedNeeded      // the user has asked for it
)

// check is one row of the table of checks.
type check struct {
	name string
	need need
	// gate says that the checks after this one cannot be tried without it.
	gate bool
	// unasked is why the check is not tried, empty if it is.
	unasked string
	run     func(ctx context.Context) (finding, error)
	// advice says what to do when run returns an error.
	advice string
}

// finding is what a check found out from answers of the BMC.
type finding struct {
	text   string
	fails  bool
	advice string
}

// machine has what the checks of all protocols share.
type machine struct {
	options Options
	node    *node.Node
	power   driver.Power
	media   driver.VirtualMedia
}

// run tries the checks of a table in their order. ready says whether everything works that the
// driver needs.
func (m *machine) run(ctx context.Context, checks []check) (results []Result, ready bool) {
	closed := ""
	for _, c := range checks {
		result := Result{Check: c.name, Outcome: NotTried}
		switch {
		case ctx.Err() != nil:
			result.Found = "interrupted"
		case closed != "":
			result.Found = "it needs: " + closed
		case c.unasked != "":
			result.Found = c.unasked
		default:
			result = m.try(ctx, c)
			if c.gate && result.Outcome != Works {
				closed = c.name
			}
		}
		results = append(results, result)
	}
	return results, isReady(checks, results)
}

// try runs one check. Checks that change the machine have their own limits.
func (m *machine) try(ctx context.Context, c check) Result {
	if c.need != askedNeeded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.options.Timeout)
		defer cancel()
	}
	found, err := c.run(ctx)
	switch {
	case err != nil:
		return Result{Check: c.name, Outcome: Fails, Found: describe(err), Advice: c.advice}
	case found.fails:
		return Result{Check: c.name, Outcome: Fails, Found: node.CutText(found.text), Advice: found.advice}
	}
	return Result{Check: c.name, Outcome: Works, Found: node.CutText(found.text), Advice: found.advice}
}

// describe returns why a check failed.
func describe(err error) string {
	var missing *node.NotSupportedError
	if errors.As(err, &missing) {
		return "the BMC does not have " + missing.What
	}
	return node.CutText(err.Error())
}

// isReady reports whether everything works that the driver needs.
func isReady(checks []check, results []Result) bool {
	boots := false
	for i, c := range checks {
		works := results[i].Outcome == Works
		switch {
		case c.need == needed && !works:
			return false
		case c.need == askedNeeded && c.unasked == "" && !works:
			return false
		case c.need == bootNeeded:
			boots = boots || works
		}
	}
	return boots || !slices.ContainsFunc(checks, func(c check) bool { return c.need == bootNeeded })
}
