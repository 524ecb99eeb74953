package demo

import "slices"

// Verb is a kind of request.
type Verb string

// Requests that change something.
const (
	VerbCreate      Verb = "create"
	VerbUpdate      Verb = "update"
	VerbClaim       Verb = "claim"
	VerbRelease     Verb = "release"
	VerbManage      Verb = "manage"
	VerbInspect     Verb = "inspect"
	VerbProvide     Verb = "provide"
	VerbClean       Verb = "clean"
	VerbSetRAID     Verb = "set raid"
	VerbDeploy      Verb = "deploy"
	VerbUndeploy    Verb = "undeploy"
	VerbAdopt       Verb = "adopt"
	VerbService     Verb = "service"
	VerbAbort       Verb = "abort"
	VerbMaintenance Verb = "maintenance"
	VerbSetCleaning Verb = "set cleaning"
	VerbPower       Verb = "power"
	VerbAttach      Verb = "attach image"
	VerbDetach      Verb = "detach image"
	VerbSubscribe   Verb = "subscribe"
	VerbUnsubscribe Verb = "unsubscribe"
	VerbDelete      Verb = "delete"
)

// Effect is a request that was accepted and changed something.
type Effect struct {
	// Node and Name are the ID and the name of the node.
	Node, Name string
	// Verb is what was asked.
	Verb Verb
	// Request has the details, depending on the verb: the Registration of create and update, the
	// Mark of claim and delete, the value that release writes, the ProvideOptions of provide, the
	// Steps of clean and service, the RAIDConfig of set raid, the Deployment of deploy, the
	// PowerChange of power, the reason of maintenance, whether set cleaning turns it on, the URL of
	// attach image, the Subscription of subscribe, the ID of unsubscribe. It is nil for the other
	// verbs.
	Request any
}

// Effects returns what was asked of a host's machine, oldest first. name is the name of the node,
// as [provisioner.NodeName] makes it; empty means all machines.
func (e *Engine) Effects(name string) []Effect {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.effects), func(f Effect) bool { return name != "" && f.Name != name })
}

// Verbs returns the verbs of [Engine.Effects].
func (e *Engine) Verbs(name string) []Verb {
	var all []Verb
	for _, f := range e.Effects(name) {
		all = append(all, f.Verb)
	}
	return all
}

// recordRequest records an accepted request. The caller holds mu.
func (e *Engine) recordRequest(m *machine, verb Verb, request any) {
	m.node.UpdatedAt = e.opts.Now()
	e.effects = append(e.effects, Effect{Node: m.node.ID, Name: m.node.Name, Verb: verb, Request: request})
}
