package main

import (
	"slices"
	"strings"
	"testing"
)

func TestMiddleIsTheMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 2, 100}, 3},
		{[]float64{5, 5, 1, 1, 2}, 2},
	} {
		before := slices.Clone(test.values)
		if got := middle(test.values); got != test.want {
			t.Errorf("median of %v is %v, want %v", test.values, got, test.want)
		}
		if !slices.Equal(before, test.values) {
			t.Errorf("%v was changed to %v", before, test.values)
		}
	}
}

func TestComparisonSaysHowManyTimesFasterThisTreeIs(t *testing.T) {
	tests := []struct {
		f          figure
		base, this []float64
		value      float64
		target     float64
		ok         bool
	}{
		{figure{name: figurePort, unit: "/s", best: most, target: 10_000}, []float64{100, 300, 200}, []float64{300, 340, 10}, 1.5, 1.6, false},
		{figure{name: figureManage, unit: "/s", best: most}, []float64{100}, []float64{150}, 1.5, 1.4, true},
		{figure{name: "list", unit: "ms", best: least, target: 25}, []float64{10}, []float64{20}, 0.5, slowest, false},
		{figure{name: "list", unit: "ms", best: least, target: 25}, []float64{20}, []float64{10}, 2, slowest, true},
		{figure{name: "start", unit: "s", best: least, target: 0.2}, []float64{4}, []float64{2}, 2, slowest, true},
		{figure{name: "memory", unit: "MB", best: least, target: 60}, []float64{50}, []float64{61}, 61, 60, false},
		{figure{name: "pages", unit: "x (2 ms to 1 ms)", best: least, target: 1.5}, []float64{2}, []float64{1}, 1, 1.5, true},
	}
	for _, test := range tests {
		var c comparison
		for side, values := range [2][]float64{test.base, test.this} {
			for _, value := range values {
				f := test.f
				f.value = value
				c.add(side, []figure{f})
			}
		}
		if len(c.lines) != 1 {
			t.Fatalf("%s: %d lines, want 1", test.f.name, len(c.lines))
		}
		got := c.lines[0].judge()
		if got.value != test.value || got.target != test.target || got.ok() != test.ok {
			t.Errorf("%s of %v to %v: %v, target %v, ok %t, want %v, %v, %t",
				test.f.name, test.base, test.this, got.value, got.target, got.ok(), test.value, test.target, test.ok)
		}
	}
}

func TestComparedDetailsKeepTheirOwners(t *testing.T) {
	var c comparison
	figures := []figure{{name: "memory with 1000"}, {name: "  at its peak"}, {name: "memory with 20000"}, {name: "  at its peak"}}
	c.add(0, figures)
	c.add(1, figures)
	var got []string
	for _, l := range c.lines {
		got = append(got, l.name)
	}
	want := []string{"memory with 1000", "memory with 1000, at its peak", "memory with 20000", "memory with 20000, at its peak"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestComparisonShowsOnlyWhatBothWereMeasuredBy(t *testing.T) {
	var c comparison
	c.add(0, []figure{{name: "both", unit: "/s", value: 100, cpu: 2}})
	c.add(1, []figure{{name: "both", unit: "/s", value: 200, cpu: 1}, {name: "this alone", unit: "/s", value: 1}})
	var out strings.Builder
	if err := c.print(&out, "abc"); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("got\n%s\nwant two lines", out.String())
	}
	got := strings.Join(strings.Fields(lines[1]), " ")
	if want := "both 100 /s 200 /s x 2.00 ≥ 0.950 x yes 2.000 ms each 1.000 ms each"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSectionsAreChosenByName(t *testing.T) {
	got, err := choose("write,read", sections)
	if err != nil || names(got) != "write,read" {
		t.Errorf("got %s, %v", names(got), err)
	}
	if got, err := choose("", comparables()); err != nil || names(got) != names(comparables()) {
		t.Errorf("got %s, %v, want all", names(got), err)
	}
	if _, err := choose("power", comparables()); err == nil {
		t.Error("a section that another commit cannot serve is compared")
	}
}
