package ramdisk

import (
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Live is the deploy interface ramdisk: the instance is an image that the machine boots at
// each start. The agent cleans and services the machine, and has no part in deployments.
type Live struct{ Deploy }

var (
	_ driver.LiveDeploy = Live{}
	_ driver.Deploy     = Live{}
)

// liveSteps are the steps of every deployment: the engine itself restarts the machine into
// its image.
var liveSteps = []node.Step{{Step: node.StepStartRamdisk, Priority: 100}}

// LiveDeploy says that instances are booted from images.
func (Live) LiveDeploy() {}

// CheckInstance accepts every node: the boot interface checks the image.
func (Live) CheckInstance(*node.Node) error { return nil }

// Steps lists the step of deployments, and the agent's steps for other kinds of work.
func (l Live) Steps(n *node.Node, kind driver.StepKind) []node.Step {
	if kind == driver.DeploySteps {
		return liveSteps
	}
	return l.Deploy.Steps(n, kind)
}
