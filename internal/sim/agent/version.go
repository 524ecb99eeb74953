package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DefaultVersion is the version of an agent whose config names none: the recorded one.
const DefaultVersion = "9.11.0"

// behaviour is what differs between versions of ironic-python-agent.
type behaviour struct {
	// readsNeedToken: once a request to read commands had a token, each needs the right one.
	readsNeedToken bool
	// leavesNetwork: an agent that gets no token from an engine that requires one switches
	// its network off for good. Others go on and send heartbeats without a token.
	leavesNetwork bool
	// inspectsImages: images are looked into before they are written, and refused when their
	// format is not the one that was announced.
	inspectsImages bool
}

// behaviours has the versions that can be simulated.
var behaviours = map[string]behaviour{
	DefaultVersion: {},
	"11.0.0":       {readsNeedToken: true, leavesNetwork: true, inspectsImages: true},
}

// CheckVersion returns an error for a version that cannot be simulated; "" is the default.
func CheckVersion(version string) error {
	if _, known := behaviours[version]; !known && version != "" {
		return fmt.Errorf("agent version %q cannot be simulated; choose one of %s",
			version, strings.Join(slices.Sorted(maps.Keys(behaviours)), ", "))
	}
	return nil
}
