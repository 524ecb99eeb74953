//go:build !fault

package store

import "github.com/ingot-metal/ingot/internal/node"

// faultPoints is where a program that was built with the tag fault kills itself. In all
// others it is nothing.
type faultPoints struct{}

func newFaultPoints() *faultPoints { return nil }

// faultPoint is a commit, for a program with fault points.
type faultPoint struct{}

func (*faultPoints) before(commitNote) (none faultPoint) { return none }
func (*faultPoints) after(faultPoint)                    {}

// commitNote collects what a commit stores, for a program with fault points.
type commitNote struct{}

func (*commitNote) added(*Work)             {}
func (*commitNote) claimed(*Work)           {}
func (*commitNote) finished(*Work)          {}
func (*commitNote) reached(*Work)           {}
func (*commitNote) created(*node.Node)      {}
func (*commitNote) updated(_, _ *node.Node) {}
func (*commitNote) add(commitNote)          {}
