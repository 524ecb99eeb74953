package host

import (
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

// Steps that several workflows have.
var (
	stepDone    = workStep{action: workDone}
	stepWaits   = workStep{action: workWait}
	stepFails   = workStep{action: workFailed}
	toManage    = workStep{workAsk, askManage}
	toProvide   = workStep{workAsk, askProvide}
	failsManage = workStep{workFailed, askManage}
)

// registerWorkflow has the engine check the access to the BMC. A node beyond that is registered,
// whatever its state.
var registerWorkflow = func() workflow {
	w := workflow{}
	for _, state := range node.States() {
		w[state] = stepDone
	}
	w[node.Enroll], w[node.Verifying] = toManage, stepWaits
	return w
}()

// inspectWorkflow reads the hardware. It begins and ends in the same state of the node, so the
// record of the operation and the node's time of inspection tell its end. The node leaves the state
// of a failed inspection before the next try: the inspect interface cannot be changed in that
// state, and another interface may be the way out.
var inspectWorkflow = workflow{
	node.Enroll:        toManage,
	node.Verifying:     stepWaits,
	node.Manageable:    {workAsk, askInspect},
	node.Available:     toManage,
	node.Inspecting:    stepWaits,
	node.InspectWait:   stepWaits,
	node.InspectFailed: failsManage,
	node.Cleaning:      stepWaits,
	node.CleanWait:     stepWaits,
	node.CleanFailed:   toManage,
	node.AdoptFailed:   toManage,
}

// prepareWorkflow makes the node available.
var prepareWorkflow = workflow{
	node.Enroll:        toManage,
	node.Verifying:     stepWaits,
	node.Inspecting:    stepWaits,
	node.InspectWait:   stepWaits,
	node.InspectFailed: toManage, // nobody asks for an inspection any more
	node.Manageable:    toProvide,
	node.Cleaning:      stepWaits,
	node.CleanWait:     stepWaits,
	node.CleanFailed:   failsManage,
	node.AdoptFailed:   failsManage,
	node.Available:     stepDone,
}

// configureWorkflow runs steps that configure the hardware, before prepareWorkflow. It begins and
// ends in the same state of the node, so the record of the operation tells its end.
var configureWorkflow = with(prepareWorkflow, workflow{
	node.Manageable: {workAsk, askClean},
	node.Available:  toManage,
})

// provisionWorkflow deploys. A deployment that failed is removed first, see deprovisionWorkflow.
var provisionWorkflow = workflow{
	node.Enroll:       toManage,
	node.Verifying:    stepWaits,
	node.Manageable:   toProvide,
	node.Cleaning:     stepWaits,
	node.CleanWait:    stepWaits,
	node.CleanFailed:  failsManage,
	node.Available:    {workAsk, askDeploy},
	node.Deploying:    stepWaits,
	node.DeployWait:   stepWaits,
	node.DeployHold:   stepWaits,
	node.DeployFailed: stepFails,
	node.Active:       stepDone,
}

// adoptWorkflow has the engine adopt the machine of a host in use. The engine may have lost the
// machine's node and have a new one.
var adoptWorkflow = workflow{
	node.Enroll:         toManage,
	node.Verifying:      stepWaits,
	node.Manageable:     {workAsk, askAdopt},
	node.Adopting:       stepWaits,
	node.AdoptFailed:    {workFailed, askAdopt},
	node.Active:         stepDone,
	node.Servicing:      stepDone,
	node.ServiceWait:    stepDone,
	node.ServiceHold:    stepDone,
	node.ServiceFailed:  stepDone,
	node.Rescue:         stepDone,
	node.Rescuing:       stepWaits,
	node.RescueWait:     stepWaits,
	node.RescueFailed:   stepDone,
	node.Unrescuing:     stepWaits,
	node.UnrescueFailed: stepDone,
}

// adoptFreeWorkflow is adoptWorkflow for a machine whose node may be free: a person says that
// somebody else has deployed it, or the engine has forgotten a deployment that has to be removed.
var adoptFreeWorkflow = with(adoptWorkflow, workflow{node.Available: toManage})

// adoption returns the workflow that adopts the machine of a host in use.
func adoption(state v1alpha1.ProvisioningState) workflow {
	if state == v1alpha1.StateExternallyProvisioned {
		return adoptFreeWorkflow
	}
	return adoptWorkflow
}

// deprovisionWorkflow removes a deployment and makes the node available.
var deprovisionWorkflow = workflow{
	node.Enroll:         toManage,
	node.Verifying:      stepWaits,
	node.Manageable:     toProvide,
	node.Active:         {workAsk, askUndeploy},
	node.DeployWait:     {workAsk, askUndeploy},
	node.DeployHold:     {workAsk, askAbort},
	node.DeployFailed:   {workAsk, askUndeploy},
	node.Deploying:      stepWaits,
	node.Deleting:       stepWaits,
	node.ErrorState:     {workFailed, askUndeploy},
	node.Cleaning:       stepWaits,
	node.CleanWait:      stepWaits,
	node.CleanHold:      stepWaits,
	node.CleanFailed:    failsManage,
	node.Inspecting:     stepWaits,
	node.InspectWait:    stepWaits,
	node.InspectFailed:  toManage,
	node.Adopting:       stepWaits,
	node.AdoptFailed:    {workAsk, askAdopt},
	node.Servicing:      stepWaits,
	node.ServiceWait:    {workAsk, askAbort},
	node.ServiceHold:    {workAsk, askAbort},
	node.ServiceFailed:  {workAsk, askUndeploy},
	node.Rescuing:       stepWaits,
	node.RescueWait:     {workAsk, askUndeploy},
	node.Rescue:         {workAsk, askUndeploy},
	node.RescueFailed:   {workAsk, askUndeploy},
	node.Unrescuing:     stepWaits,
	node.UnrescueFailed: {workAsk, askUndeploy},
	node.Available:      stepDone,
}

// overdueWorkflow is deprovisionWorkflow for an engine that has not aborted a live update for too
// long. The engine is asked to remove the deployment all the same.
var overdueWorkflow = with(deprovisionWorkflow, workflow{
	node.ServiceWait: {workAsk, askUndeploy},
})

// manualBootWorkflow is w for a machine that only a person can boot. An engine that has given up
// waiting for it is asked once more.
func manualBootWorkflow(w workflow) workflow { return with(w, workflow{node.CleanFailed: toManage}) }

// with returns a workflow in which the steps of other replace those of w.
func with(w, other workflow) workflow {
	merged := workflow{}
	for _, part := range []workflow{w, other} {
		for state, step := range part {
			merged[state] = step
		}
	}
	return merged
}
