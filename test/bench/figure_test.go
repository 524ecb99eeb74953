package main

import (
	"math"
	"testing"
)

func TestFigureKnowsItsGoodSide(t *testing.T) {
	tests := []struct {
		f    figure
		want bool
	}{
		{figure{value: 1500, target: 1500, best: most}, true},
		{figure{value: 1499, target: 1500, best: most}, false},
		{figure{value: 80, target: 80, best: least}, true},
		{figure{value: 81, target: 80, best: least}, false},
	}
	for _, test := range tests {
		if got := test.f.ok(); got != test.want {
			t.Errorf("%+v: ok is %t, want %t", test.f, got, test.want)
		}
	}
}

func TestPostgresIsHeldToHalfTheSpeedAndToAllElse(t *testing.T) {
	onSQLite := []figure{
		{name: "rate", value: 4000, unit: "/s", target: 3000, best: most},
		{name: "time", value: 10, unit: "ms", target: 25, best: least},
		{name: "memory", value: 50, unit: "MB", target: 60, best: least},
	}
	tests := []struct {
		f             figure
		target, share float64
	}{
		{figure{name: "rate", value: 3000, unit: "/s", target: 3000, best: most}, 1500, 0.75},
		{figure{name: "time", value: 20, unit: "ms", target: 25, best: least}, 50, 0.5},
		{figure{name: "memory", value: 55, unit: "MB", target: 60, best: least}, 60, 0},
		{figure{name: "rate", value: 3000, unit: "/s", target: 3000, onServer: 600, best: most}, 600, 0.75},
		{figure{name: "not on SQLite", value: 3000, unit: "/s", target: 3000, best: most}, 1500, 0},
	}
	for _, test := range tests {
		b := bench{postgres: "postgres://server", figures: onSQLite}
		b.add(test.f)
		got := b.figures[len(b.figures)-1]
		if got.target != test.target || math.Abs(got.share-test.share) > 0.001 {
			t.Errorf("%s: target %v, share %v, want %v, %v", test.f.name, got.target, got.share, test.target, test.share)
		}
	}
}
