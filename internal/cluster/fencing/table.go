package fencing

// action is what a pass does: one write, or nothing.
type action int

const (
	doNothing action = iota

	// Actions of the truth table.
	addHold       // the annotation that holds the host off
	deleteNode    // the Node of a machine that is proven to be off
	removeRequest // the request, because Node and machine are gone
	removeHold    // the hold, so that the host is powered on

	// Actions that accompany them.
	renewHold   // give the hold a new value, because it names another Machine or Node
	removeStray // a hold on a host that its Machine does not have any more
	markCycle   // suspend health checks of the Machine
	saveNode    // store what the Node has on the Machine
	restoreNode // give the new Node what it lacks
	noteOff     // since when the host is off without a hold
	noteRelease // since when the host may be powered on
	endSkip     // let health checks look at the Machine again
	closeCycle  // remove what is left of the cycle from the Machine
)

// actionNames are the actions in messages.
var actionNames = map[action]string{
	doNothing: "do nothing", addHold: "hold the host off", deleteNode: "delete the Node", removeRequest: "remove the request",
	removeHold: "remove the hold", renewHold: "renew the hold", removeStray: "remove an orphaned hold", markCycle: "suspend the health check",
	saveNode: "save the Node's labels", restoreNode: "restore the Node's labels", noteOff: "note that the host is off",
	noteRelease: "note that the host is released", endSkip: "resume the health check", closeCycle: "end the recovery",
}

func (a action) String() string { return actionNames[a] }

// situation is a row of the truth table.
type situation struct {
	// node is true when the Node exists.
	node bool
	// requested is true when the Machine has the request.
	requested bool
	// on is true when the machine is on. With a request and a hold it is false only when the
	// machine is proven to be off.
	on bool
	// held is true when the host has the hold of this Machine.
	held bool
}

// extra is what a row may do beyond the specification.
type extra int

const (
	noExtra        extra = iota
	expireHold           // remove a hold whose request was withdrawn and that has no effect
	finishRequest        // remove the request if the Node was deleted for it
	holdAfterGrace       // add a hold if the host stays off
	awaitBoot            // do not add a hold while the machine boots after an earlier one
)

// rule is what a row does.
type rule struct {
	do    action
	extra extra
}

// table has the rows of the specification, and as the first one the row that the specification
// lacks.
var table = map[situation]rule{
	{node: false, requested: false, on: false, held: false}: {doNothing, noExtra},
	{node: false, requested: false, on: false, held: true}:  {removeHold, noExtra},
	{node: false, requested: false, on: true, held: false}:  {doNothing, noExtra},
	{node: false, requested: false, on: true, held: true}:   {doNothing, expireHold},
	{node: false, requested: true, on: false, held: false}:  {doNothing, finishRequest},
	{node: false, requested: true, on: false, held: true}:   {removeRequest, noExtra},
	{node: false, requested: true, on: true, held: false}:   {addHold, awaitBoot},
	{node: false, requested: true, on: true, held: true}:    {doNothing, noExtra},
	{node: true, requested: false, on: false, held: false}:  {doNothing, noExtra},
	{node: true, requested: false, on: false, held: true}:   {removeHold, noExtra},
	{node: true, requested: false, on: true, held: false}:   {doNothing, noExtra},
	{node: true, requested: false, on: true, held: true}:    {doNothing, expireHold},
	{node: true, requested: true, on: false, held: false}:   {doNothing, holdAfterGrace},
	{node: true, requested: true, on: false, held: true}:    {deleteNode, noExtra},
	{node: true, requested: true, on: true, held: false}:    {addHold, awaitBoot},
	{node: true, requested: true, on: true, held: true}:     {doNothing, noExtra},
}
