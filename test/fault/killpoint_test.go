//go:build fault

package fault_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// commit is a line of an engine's log of commits.
type commit struct {
	Number int       `json:"commit"` // counted from the start of the process
	Name   string    `json:"name"`
	Time   time.Time `json:"time"`   // just before it
	Killed string    `json:"killed"` // "before" or "after" when the engine killed itself there
}

// readCommits reads such a log. The last line may be half written.
func readCommits(path string) ([]commit, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var commits []commit
	for line := range bytes.Lines(text) {
		var c commit
		if json.Unmarshal(line, &c) == nil {
			commits = append(commits, c)
		}
	}
	return commits, nil
}

// killPoint is a commit of a life, and when the engine kills itself there.
type killPoint struct {
	when   string // "before" or "after"
	number int    // of the commit, counted over all processes of the engine
	name   string
}

// killDistance is the least number of commits that a process makes before the next commit at which
// it is killed.
const killDistance = 3

// step is a commit of a life without faults.
type step struct {
	name string
	// kind is the same for similar steps. A commit that is repeated for the same request, as while
	// a BMC works, is of another kind than the first one.
	kind string
	// risky: something that does harm was done since the commit before, and this commit stores it.
	risky bool
}

// Marks in the kinds of steps.
const (
	againMark = " again"
	riskyMark = " after harm"
)

// stepsOf returns the steps of a life without faults. harm has the times at which harm was done.
func stepsOf(commits []commit, harm []time.Time) (steps []step) {
	seen := map[string]bool{}
	var last time.Time
	for _, c := range commits {
		s := step{name: c.Name, kind: c.Name}
		s.risky = slices.ContainsFunc(harm, func(at time.Time) bool { return at.After(last) && !at.After(c.Time) })
		if strings.Contains(c.Name+";", ": requested;") {
			clear(seen)
		}
		if seen[c.Name] {
			s.kind += againMark
		}
		if s.risky {
			s.kind += riskyMark
		}
		seen[c.Name], last = true, c.Time
		steps = append(steps, s)
	}
	return steps
}

// often is how much more often risky steps are chosen than others.
const often = 3

// chooseKillPoints chooses up to count points of a life with these steps. It prefers steps whose
// kind was chosen less often, and points just before risky steps. It counts in chosen what it
// chooses.
func chooseKillPoints(r *rand.Rand, steps []step, chosen map[string]int, count int) (points []killPoint) {
	left := r.Perm(len(steps))
	rank := func(i int) int {
		if steps[i].risky {
			return chosen[steps[i].kind] - often
		}
		return chosen[steps[i].kind]
	}
	for len(points) < count && len(left) > 0 {
		least := slices.MinFunc(left, func(a, b int) int { return rank(a) - rank(b) })
		p := killPoint{[]string{"before", "after"}[r.IntN(2)], least + 1, steps[least].name}
		if steps[least].risky {
			p.when = "before"
		}
		chosen[steps[least].kind]++
		points = append(points, p)
		left = slices.DeleteFunc(left, func(i int) bool { return max(i, least)-min(i, least) < killDistance })
	}
	slices.SortFunc(points, func(a, b killPoint) int { return a.number - b.number })
	return points
}

// faultsAt tells an engine where to kill itself, after its earlier processes have made before
// commits. A life with a death has more commits than one without. So the engine finds the commit by
// its name, from the number on that the commit has in a life without faults.
func faultsAt(points []killPoint, before int) string {
	var lines []string
	for _, p := range points {
		lines = append(lines, fmt.Sprintf("%s %d %s", p.when, max(1, p.number-before), p.name))
	}
	return strings.Join(lines, "\n")
}

// behind returns the points that are left after the engine was killed at a commit.
func behind(points []killPoint, at commit) []killPoint {
	i := slices.IndexFunc(points, func(p killPoint) bool { return p.when == at.Killed && p.name == at.Name })
	return points[i+1:]
}

func TestKillPointsAreThoseThatWereChosenLeast(t *testing.T) {
	var commits []commit
	began := time.Now()
	for i, name := range []string{"a", "b: requested", "b", "b", "c", "d", "d", "e", "f", "g"} {
		commits = append(commits, commit{Name: name, Time: began.Add(time.Duration(i) * time.Second)})
	}
	steps := stepsOf(commits, []time.Time{began.Add(1500 * time.Millisecond)})
	if steps[2].kind != "b after harm" || steps[3].kind != "b again" || steps[3].risky {
		t.Errorf("steps %+v, want the third one behind harm and the fourth one like it", steps)
	}
	for seed := range uint64(50) {
		chosen := map[string]int{"a": 1, "b: requested": 1, "b again": 1, "c": 1, "d": 1, "d again": 1, "e": 2, "f": 1}
		points := chooseKillPoints(rand.New(rand.NewPCG(seed, 1)), steps, chosen, 3)
		if len(points) < 2 || points[0] != (killPoint{"before", 3, "b"}) || points[len(points)-1].number != 10 || chosen["g"] != 1 {
			t.Errorf("seed %d: %v, counted %v, want the risky commit and the last one among several", seed, points, chosen)
		}
		for i := 1; i < len(points); i++ {
			if points[i].number-points[i-1].number < killDistance || steps[points[i].number-1].name != points[i].name {
				t.Errorf("seed %d: %v, want points of these names that are not next to each other", seed, points)
			}
		}
	}
}
