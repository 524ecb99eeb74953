//go:build !fault

package store

import "github.com/ingot-metal/ingot/internal/node"

// faultPoints are the places where a program that was built with the tag fault kills itself.
// Without the tag it does nothing.
type faultPoints struct{}

func newFaultPoints() *faultPoints { return nil }

// faultPoint is a commit; it is used only with the tag fault.
type faultPoint struct{}

func (*faultPoints) before(commitNote) (none faultPoint) { return none }
func (*faultPoints) after(faultPoint)                    {}

// commitNote collects what a commit stores; it is used only with the tag fault.
type commitNote struct{}

func (*commitNote) added(*Work)             {}
func (*commitNote) claimed(*Work)           {}
func (*commitNote) finished(*Work)          {}
func (*commitNote) reached(*Work)           {}
func (*commitNote) created(*node.Node)      {}
func (*commitNote) updated(_, _ *node.Node) {}
func (*commitNote) add(commitNote)          {}
