package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ingot-metal/ingot/test/process"
)

// compareRounds is how often each section runs with each of the two programs.
const compareRounds = 5

// slowest is the part of the other commit's speed that every figure must reach at least.
const slowest = 0.95

// compareTargets says how many times faster than the other commit some figures must be.
var compareTargets = map[string]float64{
	figureEnrol: 1.2, figureManage: 1.4, figureDelete: 1.4, figurePort: 1.6,
}

// compare builds a commit. It lets the program of the commit and another program run the sections
// in turns, so that other load on the computer affects both alike.
func compare(ctx context.Context, folder, commit, program string, chosen []section) (err error) {
	base, remove, err := buildCommit(ctx, folder, commit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	programs := [2]string{base, program}
	var results comparison
	for round := range compareRounds {
		err := results.round(ctx, folder, programs, chosen)
		if err != nil { // what was measured so far is shown
			return errors.Join(results.print(os.Stdout, commit), err)
		}
		fmt.Fprintf(os.Stderr, "round %d of %d is done\n", round+1, compareRounds)
	}
	return results.print(os.Stdout, commit)
}

// round runs each section once with each program. It removes the data.
func (c *comparison) round(ctx context.Context, folder string, programs [2]string, chosen []section) (err error) {
	var sides [2]*bench
	for i, program := range programs {
		data, err := os.MkdirTemp(folder, "round-")
		if err != nil {
			return fmt.Errorf("create folder for data: %w", err)
		}
		defer func() { _ = os.RemoveAll(data) }() // at the latest, the folder above is removed
		sides[i] = &bench{program: program, folder: data}
	}
	for _, s := range chosen {
		for _, b := range sides {
			if err := b.measure(ctx, s); err != nil {
				return fmt.Errorf("with %s: %w", b.program, err)
			}
		}
	}
	for i, b := range sides {
		c.add(i, b.figures)
	}
	return nil
}

// buildCommit builds a commit in a work tree of its own below the folder. It returns the program,
// and a function that removes the work tree.
func buildCommit(ctx context.Context, folder, commit string) (program string, remove func() error, err error) {
	tree := filepath.Join(folder, "base")
	if program, err = filepath.Abs(filepath.Join(folder, "ingot-base")); err != nil {
		return "", nil, err
	}
	if err := git(ctx, "worktree", "add", "--quiet", "--detach", tree, commit); err != nil {
		return "", nil, err
	}
	remove = func() error {
		const grace = time.Minute // also when the run was interrupted
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		return git(ctx, "worktree", "remove", "--force", tree)
	}
	if err := process.Build(ctx, tree, program); err != nil {
		return "", nil, errors.Join(fmt.Errorf("build commit %s: %w", commit, err), remove())
	}
	return program, remove, nil
}

func git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // the commit is named by whoever runs this
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// comparison has the same figures of two programs, several times each.
type comparison struct{ lines []comparedFigure }

// comparedFigure is one figure of both programs. The first side is that of the other commit.
type comparedFigure struct {
	figure // as first measured, apart from its values
	values [2][]float64
	cpus   [2][]float64 // ms each
}

// add takes the figures of one run.
func (c *comparison) add(side int, figures []figure) {
	owner := "" // the last figure that is not a detail of another one
	for _, f := range figures {
		if strings.HasPrefix(f.name, " ") {
			f.name = owner + "," + strings.TrimPrefix(f.name, " ")
		} else {
			owner = f.name
		}
		line := c.line(f)
		line.values[side] = append(line.values[side], f.value)
		if f.cpu != 0 {
			line.cpus[side] = append(line.cpus[side], f.cpu)
		}
	}
}

func (c *comparison) line(f figure) *comparedFigure {
	i := slices.IndexFunc(c.lines, func(l comparedFigure) bool { return l.name == f.name })
	if i < 0 {
		i = len(c.lines)
		f.unit, _, _ = strings.Cut(f.unit, " (")
		c.lines = append(c.lines, comparedFigure{figure: f})
	}
	return &c.lines[i]
}

// judge makes one figure of the line: how many times faster this tree is, or the value of this tree
// if the figure is not about speed.
func (l comparedFigure) judge() figure {
	base, this := middle(l.values[0]), middle(l.values[1])
	f := l.figure
	f.value = this
	if f.isSpeed() {
		f.value = this / base
		if f.best == least {
			f.value = base / this
		}
		f.unit, f.target, f.best = "x", cmp.Or(compareTargets[f.name], slowest), most
	}
	return f
}

// print writes the medians, and how this tree compares.
func (c *comparison) print(w io.Writer, commit string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "FIGURE, MEDIANS OF %d\t%s\tTHIS TREE\tSPEED\tTARGET\tOK\tCPU %[2]s\tCPU THIS TREE\n", compareRounds, commit)
	for _, l := range c.lines {
		if len(l.values[0]) == 0 || len(l.values[1]) == 0 {
			continue
		}
		judged := l.judge()
		speed := ""
		if l.isSpeed() {
			speed = fmt.Sprintf("x %.2f", judged.value)
		}
		target, ok := judged.goal()
		fmt.Fprintf(table, "%s\t%s %s\t%s %s\t%s\t%s\t%s", l.name, amount(middle(l.values[0])), l.unit,
			amount(middle(l.values[1])), l.unit, speed, target, ok)
		for _, cpu := range l.cpus {
			each := ""
			if len(cpu) > 0 {
				each = fmt.Sprintf("%.3f ms each", middle(cpu))
			}
			fmt.Fprintf(table, "\t%s", each)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}
