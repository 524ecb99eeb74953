package remediation

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// action is the one thing that a pass does.
type action int

// Actions. Each of those that write makes one write.
const (
	rest                action = iota // nothing
	addFinalizer                      // before anything is set
	begin                             // record that the next attempt runs
	fail                              // record that the host cannot be remediated
	reopen                            // forget that record, because only the host was missing
	setHold                           // have the host powered off
	recordTaint                       // record that the Node may be out of service
	taintNode                         // put the Node out of service
	backUpNode                        // record labels and annotations of the Node
	deleteNode                        // delete the Node
	release                           // record that the host may be powered on
	untaintNode                       // put the Node in service
	forgetTaint                       // remove the record of the taint
	removeHold                        // let the host be powered on
	restoreNode                       // give the Node that came back its labels and annotations
	dropBackup                        // remove the backup of them
	releaseAnew                       // record the release again: the time since it says nothing
	awaitHealth                       // record that the machine has time to become healthy
	extend                            // the Node is Ready: give the health check as much time again
	request                           // set the annotation of the Machine
	withdraw                          // remove that annotation
	markHost                          // mark the host as unhealthy
	unmarkHost                        // remove the mark
	tellOwner                         // tell the owner of the Machine to replace it
	handOver                          // record that the owner replaces the Machine
	forgetRequest                     // remove the condition by which the health check asks
	removeFinalizer                   // everything that was set is removed
	waitForStart                      // the machine has not had its time to become a Node
	waitForControlPlane               // the control plane needs the machine
	waitForPowerOff                   // the host is not proven to be off
	waitForPods                       // pods or volumes are not gone from the Node
	waitForNode                       // the Node cannot be read, or is not back
	waitForPowerOn                    // the host is not on
	waitForRequest                    // somebody else has set the annotation of the Machine
	waitForRecovery                   // what the annotation asks for is not done
	waitForHealth                     // the health check has not taken the remediation back
	waitWhileSkipped                  // the Machine has the annotation against remediation
	numberOfActions     int    = iota
)

// actionRow is what belongs to an action: a write or the condition to show, and never both.
type actionRow struct {
	// do makes the write. Nil means that the action waits, or that nothing is left to do.
	do func(*Reconciler, context.Context, *scope) error
	// event returns the event of the write. Nil means that there is none.
	event func(*scope) (kind, reason, note string)
	// progress returns the condition to show meanwhile. It returns nil if the condition stays as it
	// is.
	progress func(*scope) *metav1.Condition
	// pause returns the time until the next pass; 0 means that the next pass comes with the next
	// change. Without it, a pass follows a write at once, and otherwise within poll.
	pause func(*scope) time.Duration
}

var actions = [numberOfActions]actionRow{
	rest: {progress: atTheEnd, pause: noPause},

	addFinalizer:    {do: (*Reconciler).addFinalizer},
	begin:           {do: (*Reconciler).begin, event: eventOfBegin},
	fail:            {do: (*Reconciler).fail, event: eventOfFail},
	reopen:          {do: (*Reconciler).reopen},
	setHold:         {do: (*Reconciler).setHold},
	recordTaint:     {do: (*Reconciler).recordTaint},
	taintNode:       {do: (*Reconciler).taintNode, event: eventOfTaint},
	backUpNode:      {do: (*Reconciler).backUpNode},
	deleteNode:      {do: (*Reconciler).deleteNode, event: eventOfDeletion},
	release:         {do: (*Reconciler).release, event: eventOfRelease},
	untaintNode:     {do: (*Reconciler).untaintNode, event: eventOfUntaint},
	forgetTaint:     {do: (*Reconciler).forgetTaint},
	removeHold:      {do: (*Reconciler).removeHold},
	restoreNode:     {do: (*Reconciler).restoreNode, event: eventOfRestoration},
	dropBackup:      {do: (*Reconciler).dropBackup},
	releaseAnew:     {do: (*Reconciler).release},
	awaitHealth:     {do: (*Reconciler).awaitHealth},
	extend:          {do: (*Reconciler).extend},
	request:         {do: (*Reconciler).request},
	withdraw:        {do: (*Reconciler).withdraw},
	markHost:        {do: (*Reconciler).markHost},
	unmarkHost:      {do: (*Reconciler).unmarkHost},
	tellOwner:       {do: (*Reconciler).tellOwner, event: eventOfHandOver},
	handOver:        {do: (*Reconciler).handOver},
	forgetRequest:   {do: (*Reconciler).forgetRequest},
	removeFinalizer: {do: (*Reconciler).removeFinalizer, pause: noPause},

	waitForStart:        {progress: waitsForStart},
	waitForControlPlane: {progress: waitsForControlPlane},
	waitForPowerOff:     {progress: waitsForPowerOff},
	waitForPods:         {progress: waitsForPods, pause: workloadPause},
	waitForNode:         {progress: waitsForNode, pause: nodePause},
	waitForPowerOn:      {progress: waitsForPowerOn},
	waitForRequest:      {progress: waitsForRequest},
	waitForRecovery:     {progress: waitsForRecovery},
	waitForHealth:       {progress: waitsForVerdict},
	waitWhileSkipped:    {progress: waitsWhileSkipped},
}
