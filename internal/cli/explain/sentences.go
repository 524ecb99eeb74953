package explain

import "fmt"

// parts are the sections of the text in their order. Each says nothing when
// it has nothing to say.
var parts = []func(Facts) []string{
	nothingKnown, hostStanding, hostObstacles, hostWaiting,
	nodeStanding, nodeTrouble, ramdisk, withoutHost, unreachable, advice,
}

// Sentences explains the facts: where the host or node stands and since when,
// what is in its way, what it waits for, and last what to do. Text of others
// is passed on as it is; whoever prints it escapes it.
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
	if f.NodeProblem != "" {
		text = append(text, statement("The engine could not be asked: "+f.NodeProblem, ""))
	}
	if f.HostProblem != "" {
		text = append(text, statement("Kubernetes could not be asked: "+f.HostProblem, ""))
	}
	return text
}
