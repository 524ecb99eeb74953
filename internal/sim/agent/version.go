package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DefaultVersion is the version of an agent whose config names none. It is that of the recorded
// agent.
const DefaultVersion = "9.11.0"

// behaviour is how a version of ironic-python-agent differs from others.
type behaviour struct {
	// readsNeedToken: once a request to read commands had a token, each such request needs the
	// right one.
	readsNeedToken bool
	// leavesNetwork: an agent switches its network off for good if an engine that requires a token
	// gives it none. Other versions send heartbeats without a token.
	leavesNetwork bool
	// inspectsImages: the agent determines the format of an image before it writes the image, and
	// refuses the image if that is not the announced format.
	inspectsImages bool
}

// behaviours has the versions that can be simulated, with their behaviour.
var behaviours = map[string]behaviour{
	DefaultVersion: {},
	"11.0.0":       {readsNeedToken: true, leavesNetwork: true, inspectsImages: true},
}

// CheckVersion returns an error for a version that cannot be simulated. It accepts "", which means
// the default.
func CheckVersion(version string) error {
	if _, known := behaviours[version]; !known && version != "" {
		return fmt.Errorf("agent version %q cannot be simulated; choose one of %s",
			version, strings.Join(slices.Sorted(maps.Keys(behaviours)), ", "))
	}
	return nil
}
