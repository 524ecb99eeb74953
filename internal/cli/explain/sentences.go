package explain

import (
	"errors"
	"fmt"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// parts are the sections of the text in their order. Each may be empty.
var parts = []func(Facts) []string{
	nothingKnown, hostStanding, hostObstacles, hostWaiting,
	nodeStanding, nodeTrouble, ramdisk, withoutHost, unreachable, advice,
}

// Sentences explains the facts: the state of the host or node and since when it has it, then
// obstacles, what it waits for, and last what to do. Text from the engine and from Kubernetes is
// passed on unchanged; the caller escapes it for printing.
func Sentences(f Facts) []string {
	var text []string
	for _, part := range parts {
		text = append(text, part(f)...)
	}
	return text
}

func nothingKnown(f Facts) []string {
	if f.Known() {
		return nil
	}
	where := ""
	if f.Where != "" {
		where = " in namespace " + f.Where
	}
	var text []string
	if f.HostProblem == "" {
		text = append(text, fmt.Sprintf("Kubernetes has no host %q%s.", f.Asked, where))
	}
	if f.NodeProblem == "" {
		text = append(text, fmt.Sprintf("The engine has no node %q.", f.Asked))
	}
	return text
}

func unreachable(f Facts) []string {
	var text []string
	switch {
	case errors.Is(f.NodeError, ironic.ErrUnreachable):
		text = append(text, statement("The engine cannot be reached: "+f.NodeProblem, ""))
	case f.NodeProblem != "":
		text = append(text, statement("The engine does not show the node: "+f.NodeProblem, ""))
	}
	if f.HostProblem != "" {
		text = append(text, statement("Kubernetes cannot be reached: "+f.HostProblem, ""))
	}
	return text
}
