package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// direction says on which side of a target a value is good.
type direction int

const (
	most  direction = iota // at least the target
	least                  // at most the target
)

// Names of figures that other figures refer to.
const (
	figureEnrol   = "unknown machines enrolled"
	figureManage  = "manage, from asking to done"
	figureDelete  = "delete node"
	figurePort    = "port by MAC"
	figureInspect = "known nodes inspected, all hooks"
)

// figure is one line of the table.
type figure struct {
	name   string
	value  float64
	unit   string
	target float64 // zero means that there is none
	best   direction
	// onServer is the target on PostgreSQL; zero means half the speed that is the target on SQLite.
	onServer float64
	cpu      float64 // CPU time of the engine for one operation, ms; zero when not measured
	share    float64 // part of the speed on SQLite, if both were measured
}

// add adds a figure. On PostgreSQL, the target of a figure is half the speed that is the target on
// SQLite, unless the figure has a target of its own there.
func (b *bench) add(f figure) {
	if b.postgres != "" {
		f = f.onPostgres(b.figures)
	}
	b.figures = append(b.figures, f)
}

func (f figure) onPostgres(others []figure) figure {
	for _, other := range others {
		if other.name == f.name && f.isSpeed() {
			f.share = f.value / other.value
			if f.best == least {
				f.share = other.value / f.value
			}
		}
	}
	switch {
	case f.onServer != 0:
		f.target = f.onServer
	case f.isSpeed() && f.best == least:
		f.target *= 2
	case f.isSpeed():
		f.target /= 2
	}
	f.name += postgresSuffix
	return f
}

const postgresSuffix = " (PostgreSQL)"

// isSpeed reports whether the figure is about time, not about memory or a ratio.
func (f figure) isSpeed() bool { return slices.Contains([]string{"/s", "ms", "s"}, f.unit) }

// addStorm adds the rate of a storm, in requests per second.
func (b *bench) addStorm(name string, s storm, target float64) { b.add(s.figure(name, target)) }

func (s storm) figure(name string, target float64) figure {
	return figure{name: name, value: s.rate(), unit: "/s", target: target, cpu: milliseconds(s.cpu) / float64(s.requests)}
}

// ok reports whether the target is met.
func (f figure) ok() bool {
	if f.best == least {
		return f.value <= f.target
	}
	return f.value >= f.target
}

// goal returns the target, and whether it is met, as they are printed. Both are empty
// when there is no target.
func (f figure) goal() (target, ok string) {
	if f.target == 0 {
		return "", ""
	}
	sign := map[direction]string{most: "≥", least: "≤"}[f.best]
	unit, _, _ := strings.Cut(f.unit, " (")
	return sign + " " + amount(f.target) + " " + unit, map[bool]string{true: "yes", false: "NO"}[f.ok()]
}

// printFigures writes the table.
func printFigures(w io.Writer, figures []figure) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FIGURE\tVALUE\tTARGET\tOK\tENGINE CPU\tOF SQLITE")
	for _, f := range figures {
		target, ok := f.goal()
		cpu, share := "", ""
		if f.cpu != 0 {
			cpu = fmt.Sprintf("%.3f ms each", f.cpu)
		}
		if f.share != 0 {
			share = fmt.Sprintf("%.0f %%", 100*f.share)
		}
		fmt.Fprintf(table, "%s\t%s %s\t%s\t%s\t%s\t%s\n", f.name, amount(f.value), f.unit, target, ok, cpu, share)
	}
	return table.Flush()
}

// amount prints a value with three significant digits.
func amount(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
