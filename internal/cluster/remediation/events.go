package remediation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Reasons of events about a Metal3Remediation, besides those of obstacles and those that the
// condition Progressing has when it is False.
const (
	eventStarted            = "RemediationStarted"
	eventNodeOutOfService   = "NodeOutOfService"
	eventNodeDeleted        = "NodeDeleted"
	eventNodeInService      = "NodeInService"
	eventNodeRestored       = "NodeRestored"
	eventHostReleased       = "HostReleased"
	eventEvictionIncomplete = "EvictionIncomplete"
	eventHandedOver         = "MachineHandedOver"
)

// actionRemediate is the action of all events.
const actionRemediate = "Remediate"

// obstacles say what stands in the way.
var obstacles = map[obstacle]string{
	noMachine: "it has no Machine as its owner",
	noHost:    "its Metal3Machine or host is gone, or the host is being deleted or has another consumer, so that nothing can prove that it is off",
	noBMC:     "the host has no BMC, so that nothing can prove that it is off",
	neverOff:  "spec.disablePowerOff of the host is true, so that it cannot be powered off",
	offline:   "spec.online of the host is false, so that it is meant to be off",
}

// explain says what stands in the way and what to do.
func explain(o obstacle) string {
	do := "Solve that and delete the Metal3Remediation, and the MachineHealthCheck makes another"
	if o == noHost {
		do = "Delete the Machine when it is certain that nothing of it runs any more"
	}
	return fmt.Sprintf("The machine cannot be remediated: %s. %s", obstacles[o], do)
}

// publish publishes the event of an action, if it has one.
func (r *Reconciler) publish(s *scope, a action) {
	if eventOf := actions[a].event; eventOf != nil {
		kind, reason, note := eventOf(s)
		r.event(s, kind, reason, note)
	}
}

func (r *Reconciler) event(s *scope, kind, reason, note string) {
	var about runtime.Object
	if s.host != nil {
		about = s.host
	}
	r.Recorder.Eventf(s.remediation, about, kind, reason, actionRemediate, "%s", cut(note))
}

func eventOfBegin(s *scope) (kind, reason, note string) {
	return corev1.EventTypeNormal, eventStarted, fmt.Sprintf("Attempt %d of %d began with strategy %s", s.attempts(), s.retryLimit+1, s.strategy)
}

func eventOfFail(s *scope) (kind, reason, note string) {
	return corev1.EventTypeWarning, string(s.obstacle), explain(s.obstacle)
}

func eventOfTaint(s *scope) (kind, reason, note string) {
	return corev1.EventTypeNormal, eventNodeOutOfService, fmt.Sprintf("Node %s got the taint %s, because its host is off", s.workloadNode.Name, outOfService.ToString())
}

func eventOfUntaint(s *scope) (kind, reason, note string) {
	return corev1.EventTypeNormal, eventNodeInService, fmt.Sprintf("The taint %s was removed from Node %s", outOfService.Key, s.workloadNode.Name)
}

func eventOfDeletion(s *scope) (kind, reason, note string) {
	return corev1.EventTypeNormal, eventNodeDeleted, fmt.Sprintf("Node %s was deleted, because its host is off", s.workloadNode.Name)
}

func eventOfRestoration(s *scope) (kind, reason, note string) {
	return corev1.EventTypeNormal, eventNodeRestored, fmt.Sprintf("Node %s got back its labels and annotations", s.workloadNode.Name)
}

func eventOfRelease(s *scope) (kind, reason, note string) {
	if s.late && s.node != absentNode {
		return corev1.EventTypeWarning, eventEvictionIncomplete,
			fmt.Sprintf("The host was off for %s, and the attempt goes on although the Node is not known to be free of pods and volumes%s", s.timeout, because(s.why))
	}
	return corev1.EventTypeNormal, eventHostReleased, "The host may be powered on again"
}

func eventOfHandOver(s *scope) (kind, reason, note string) {
	return corev1.EventTypeWarning, eventHandedOver, s.replacementReason() + ": its host is marked as unhealthy, and its owner has to replace it"
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
