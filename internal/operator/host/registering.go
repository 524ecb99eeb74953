package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// registeredStates are the states in which a host with a BMC has a node. A missing node is created.
var registeredStates = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateRegistering:           true,
	v1alpha1.StateInspecting:            true,
	v1alpha1.StateMatchProfile:          true,
	v1alpha1.StatePreparing:             true,
	v1alpha1.StateReady:                 true,
	v1alpha1.StateAvailable:             true,
	v1alpha1.StateProvisioning:          true,
	v1alpha1.StateProvisioned:           true,
	v1alpha1.StateExternallyProvisioned: true,
	v1alpha1.StateDeprovisioning:        true,
}

// registration is the guard that keeps the node of a host with a BMC. It finds or creates the node,
// writes into it what the host asks of it, and hands it to the handler of the state. A change of
// the address or of the credentials is written in every state of the host.
type registration struct {
	engine  engine
	others  otherHosts
	inputs  deploymentInputs
	images  ramdiskImages
	nodes   nodeView
	owners  ownership
	applied *applied
	metrics *Metrics
	// identity compares machines; maxBackoff bounds the pause after a failure.
	identity   identity
	details    details
	maxBackoff time.Duration
}

// applied remembers which registration the node of each host was given last, so that a pass does
// not compare the two again.
type applied struct{ memo[appliedMark] }

// appliedMark is the registration that a node was given: its fingerprint, and the time of the
// node's last change afterwards, by the engine's clock.
type appliedMark struct {
	registration string
	at           time.Time
	// putOff is the state in which a part of the registration could not be written, "" if all of it
	// was.
	putOff node.State
}

// has reports whether a node was given a registration. A node whose last change is older than that
// comes from an older database. A part that could not be written in one state is tried again in
// another.
func (a *applied) has(host types.UID, registration string, n provisioner.Node) bool {
	mark, _ := a.get(host)
	return mark.registration == registration && !n.UpdatedAt.Before(mark.at) && (mark.putOff == "" || mark.putOff == n.State)
}

func (a *applied) note(host types.UID, registration string, n provisioner.Node) {
	mark := appliedMark{registration: registration, at: n.UpdatedAt}
	if n.PutOff {
		mark.putOff = n.State
	}
	a.put(host, mark)
}

func (p registration) reconcile(ctx context.Context, s *scope) (result, error) {
	if s.credentials == nil {
		return result{}, nil
	}
	wanted, err := p.registration(ctx, s)
	if err != nil {
		return stopped(), err
	}
	n, err := p.find(ctx, s, wanted)
	switch {
	case errors.Is(err, errWaits):
		return stoppedFor(s.wait(v1alpha1.OperationRegister, p.maxBackoff)), nil
	case errors.Is(err, provisioner.ErrNotFound):
		return p.create(ctx, s, wanted)
	case isConflict(err):
		return stopped(), registrationError("%w", err)
	case err != nil:
		return stopped(), err
	}
	if s.host.Status.Provisioning.ID != n.ID {
		// The link is written before the mark, so that a deletion in between finds the node.
		s.host.Status.Provisioning.ID = n.ID
		return stoppedFor(soon), nil
	}
	n, err = p.owners.ensureMark(ctx, s.host, n)
	if isConflict(err) {
		return stopped(), registrationError("%w", err)
	}
	if err != nil {
		return stopped(), err
	}
	if takesOver(s.host, n) || changesBMC(s.host, wanted) || untried(s, n) {
		if pause := s.wait(v1alpha1.OperationRegister, p.maxBackoff); pause > 0 {
			return stoppedFor(pause), nil
		}
	}
	if n, err = p.update(ctx, s, n, wanted); err != nil {
		return stopped(), refused(v1alpha1.OperationRegister, "update", n.ID, err)
	}
	if s.bmc != "" && untried(s, n) {
		if err := p.try(ctx, s, n); err != nil {
			return stopped(), err
		}
	}
	s.node = &n
	if s.state() != v1alpha1.StateRegistering && s.host.Status.ErrorType == v1alpha1.ErrorRegistration {
		s.clearError() // it was about what this guard has just done
		showFailed(s)
	}
	return result{}, nil
}

// find returns the node that a host is linked to, or else one that may become its node. It finds
// that one by its name, or by any MAC address or the address of the BMC, which a discovered machine
// has told. Another host of the same machine may take precedence; a node that is not the host's
// already is left to that one.
func (p registration) find(ctx context.Context, s *scope, wanted provisioner.Registration) (provisioner.Node, error) {
	if id := s.host.Status.Provisioning.ID; id != "" {
		n, err := p.owners.read(ctx, s, id, s.state())
		if !errors.Is(err, provisioner.ErrNotFound) {
			return n, err
		}
	}
	n, err := p.owners.find(ctx, s.host)
	if err == nil && n.Mark == wanted.Mark {
		return n, nil
	}
	if err == nil && changesBMC(s.host, wanted) {
		err = p.checkFound(ctx, s, n)
	}
	if err != nil && !errors.Is(err, provisioner.ErrNotFound) {
		return n, err
	}
	if err := p.checkOthers(ctx, s, wanted); err != nil {
		return provisioner.Node{}, err
	}
	if err != nil {
		n, err = p.recognise(ctx, s, wanted)
	}
	if err != nil {
		return n, err
	}
	return n, p.owners.check(ctx, s.host, n)
}

// checkFound returns provisioner.ErrNotFound for a node of another machine than the host's.
func (p registration) checkFound(ctx context.Context, s *scope, n provisioner.Node) error {
	inv, err := p.engine.Inventory(ctx, n.ID)
	switch {
	case errors.Is(err, provisioner.ErrNoInventory):
		return nil
	case err != nil:
		return fmt.Errorf("read inventory of node %s: %w", n.ID, err)
	case isForeign(s.host, inv):
		return provisioner.ErrNotFound
	}
	return nil
}

// create creates the node of a host that has none. The same pass uses the node of a new host before
// its ID is stored: the node has the name and the mark of the host, by which a deletion finds it.
func (p registration) create(ctx context.Context, s *scope, wanted provisioner.Registration) (result, error) {
	if pause := s.wait(v1alpha1.OperationRegister, p.maxBackoff); pause > 0 && comparesLost(s.host, wanted) {
		return stoppedFor(pause), nil
	}
	if err := p.identity.checkLost(ctx, s, wanted); err != nil {
		return stopped(), refused(v1alpha1.OperationRegister, "create", wanted.Name, err)
	}
	if s.host.Status.Provisioning.ID != "" {
		s.warn(eventRegistrationError, "The engine has lost node %s; it is created again", s.host.Status.Provisioning.ID)
	}
	wanted.NICs = nicsOf(s.host)
	n, err := p.engine.Create(ctx, wanted)
	if err != nil {
		return stopped(), refused(v1alpha1.OperationRegister, "create", wanted.Name, err)
	}
	s.host.Status.Provisioning.ID = n.ID
	s.reaches(wanted)
	count(p.metrics.registered, s.host)
	s.working(v1alpha1.RegisteringReason, "The engine has node %s for this host", n.ID)
	if s.state() == v1alpha1.StateRegistering && n.Mark == wanted.Mark {
		s.node = &n
		return result{}, nil
	}
	return stoppedFor(soon), nil
}

// fixedStates are the states of a node in which its settings may be changed.
var fixedStates = map[node.State]bool{
	node.Enroll: true, node.Manageable: true, node.Available: true, node.Active: true,
	node.InspectFailed: true, node.CleanFailed: true, node.DeployFailed: true, node.AdoptFailed: true,
	node.ServiceFailed: true, node.ErrorState: true,
}

// update writes the registration into the node if the two may differ. A node that the engine works
// on is updated afterwards.
func (p registration) update(ctx context.Context, s *scope, n provisioner.Node, wanted provisioner.Registration) (provisioner.Node, error) {
	switch {
	case n.Busy && fixedStates[n.State] && changesBMC(s.host, wanted):
		// No other work begins before it is known whether the BMC belongs to the machine.
		return n, fmt.Errorf("%w: node %s cannot be given another BMC now", provisioner.ErrBusy, n.ID)
	case n.Busy, !fixedStates[n.State]:
		return n, nil
	}
	changed := !sameCredentials(s.host.Status.GoodCredentials, s.credentials.status)
	version, err := p.engine.Version(ctx)
	if err != nil {
		return n, err
	}
	mark := fingerprint(n.ID, wanted, s.credentials.status.Version, version)
	if !changed && p.applied.has(s.host.UID, mark, n) && n.SkipsCleaning == wanted.SkipAutomatedCleaning && n.CredentialsVersion == wanted.CredentialsVersion {
		s.reaches(wanted)
		return n, nil
	}
	switch {
	case takesOver(s.host, n):
		if err := p.takeOver(ctx, s, n, wanted); err != nil {
			return n, err
		}
	case changesBMC(s.host, wanted):
		if err := p.others.check(ctx, s.host); err != nil {
			return n, err
		}
		if err := p.identity.check(ctx, s, n, wanted); err != nil {
			return n, err
		}
	}
	if n.State == node.Enroll && n.InspectedAt.IsZero() {
		wanted.NICs = nicsOf(s.host) // the request that created the node may have failed before it had its ports
	}
	updated, err := p.engine.Update(ctx, n.ID, wanted, provisioner.UpdateOptions{WithCredentials: changed})
	if err != nil {
		return n, err
	}
	p.applied.note(s.host.UID, mark, updated)
	s.reaches(wanted)
	if changed && updated.State != node.Enroll && !untried(s, updated) {
		p.accept(s)
	}
	return updated, nil
}

// untried reports whether nobody has tried the credentials of a host that is being registered,
// although its node is beyond the state in which engines do so. The credentials were tried if this
// operator had the engine do that with them. A node that somebody else has made manageable may have
// had other credentials then, such as a password that a person wrote into it.
func untried(s *scope, n provisioner.Node) bool {
	record := s.host.Status.Operation
	tried := record.Name == v1alpha1.OperationRegister && record.Request == askManage && record.Accepted && !s.isOutdated(record)
	return s.state() == v1alpha1.StateRegistering && s.credentials != nil && n.State != node.Enroll && n.State != node.Verifying &&
		!tried && !sameCredentials(s.host.Status.GoodCredentials, s.credentials.status)
}

// try has the engine try the credentials that the node has got, and accepts them if the BMC does.
// It accepts them untried if the engine's driver has nothing to ask the BMC for.
func (p registration) try(ctx context.Context, s *scope, n provisioner.Node) error {
	if !p.identity.turns.take(s.host.Namespace) {
		return errNoTurn
	}
	defer p.identity.turns.give(s.host.Namespace)
	if err := p.engine.CheckAccess(ctx, n.ID); err != nil && !errors.Is(err, provisioner.ErrUnsupported) {
		return refused(v1alpha1.OperationRegister, "verify", n.ID, advised(s.host, err))
	}
	p.accept(s)
	return nil
}

// nicsOf returns the NICs that an inspection found on the machine of a host. The NICs of a host
// without inspection do not count: a person wrote them.
func nicsOf(h *v1alpha1.BareMetalHost) []provisioner.NIC {
	if h.Status.HardwareDetails == nil || inspectionDisabled(h) {
		return nil
	}
	return hardware.NICs(h.Status.HardwareDetails)
}

// takeOver makes sure that the BMC belongs to the machine of the node, and copies the inventory of
// that machine to the host, so that it need not be inspected again.
func (p registration) takeOver(ctx context.Context, s *scope, n provisioner.Node, wanted provisioner.Registration) error {
	if err := p.others.check(ctx, s.host); err != nil {
		return err
	}
	if err := p.identity.check(ctx, s, n, wanted); err != nil || s.host.Status.HardwareDetails != nil {
		return err
	}
	s.node = &n
	_, err := p.details.collect(ctx, s, v1alpha1.OperationRegister)
	return err
}

// accept records that the node has the credentials, and which BMC they are for. It records nothing
// while the node does not have that BMC. Only a registration has tried the credentials.
func (p registration) accept(s *scope) {
	if s.bmc == "" {
		return
	}
	s.host.Status.GoodBMC = s.bmc
	if sameCredentials(s.host.Status.GoodCredentials, s.credentials.status) {
		return
	}
	s.host.Status.GoodCredentials = s.credentials.status
	if s.state() == v1alpha1.StateRegistering {
		s.note(eventBMCAccessValidated, "The engine has access to the BMC")
	} else {
		s.note(eventBMCAccessValidated, "The engine has other credentials for the BMC; its next call tries them")
	}
	count(p.metrics.newSecrets, s.host)
}

func sameCredentials(a, b v1alpha1.CredentialsStatus) bool {
	switch {
	case a.Reference == nil || b.Reference == nil:
		return a.Reference == b.Reference && a.Version == b.Version
	default:
		return *a.Reference == *b.Reference && a.Version == b.Version
	}
}

// registration returns what the host asks of its node.
func (p registration) registration(ctx context.Context, s *scope) (provisioner.Registration, error) {
	h := s.host
	access, err := bmc.Parse(h.Spec.BMC)
	if err != nil {
		return provisioner.Registration{}, registrationError("spec.bmc.address cannot be used: %w", err)
	}
	if access.Abilities.NeedsMAC && h.Spec.BootMACAddress == "" {
		return provisioner.Registration{}, registrationError("spec.bootMACAddress is empty; a BMC of the scheme %s needs it", access.Scheme)
	}
	r := provisioner.Registration{
		Name: provisioner.NodeName(h.Namespace, h.Name), Mark: p.owners.mark(h),
		Access: &access, Credentials: s.credentials.Credentials, CredentialsVersion: s.credentials.version,
		BootMAC: h.Spec.BootMACAddress, BootMode: h.Spec.BootMode, Architecture: h.Spec.Architecture,
		RootDevice: h.Spec.RootDeviceHints.DeepCopy(), InspectionMode: h.Spec.InspectionMode,
		SkipAutomatedCleaning: skipsCleaning(h), DisablePowerOff: h.Spec.DisablePowerOff,
	}
	if inUse[s.state()] {
		r.Deployed = deployedOf(h)
	}
	var noNetwork string
	if r.NetworkData, noNetwork, err = p.inputs.ramdiskNetwork(ctx, h); err != nil {
		return provisioner.Registration{}, err
	}
	if r.RamdiskImage, s.ramdiskMissing, err = p.images.find(ctx, h, access); err != nil {
		return provisioner.Registration{}, err
	}
	s.ramdiskMissing = cmp.Or(noNetwork, s.ramdiskMissing)
	if r.KeepRamdisk = s.ramdiskMissing != ""; r.KeepRamdisk {
		r.RamdiskImage, r.NetworkData = nil, nil
	}
	return r, nil
}

// inUse are the states of hosts whose machine runs a deployment.
var inUse = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateProvisioned:           true,
	v1alpha1.StateExternallyProvisioned: true,
	v1alpha1.StateDeprovisioning:        true,
}

// registering is the handler of the state registering.
type registering struct {
	work
	registration
}

func (p registering) reconcile(ctx context.Context, s *scope) (result, error) {
	if s.node == nil { // spec.bmc was removed
		return p.withoutBMC(ctx, s)
	}
	complete, res, err := p.advance(ctx, s, task{
		operation: v1alpha1.OperationRegister, workflow: registerWorkflow, reason: v1alpha1.RegisteringReason,
		message: "The engine checks the access to the BMC",
		failed:  "Registration failed and is tried again after a wait; change spec or the Secret to try at once",
		advice:  accessAdvice(s.host),
	})
	if !complete {
		return res, err
	}
	if s.bmc == "" && untried(s, *s.node) && (s.node.Busy || atWork(*s.node)) {
		s.waiting("Waiting for the end of other work on node %s, which gets the access to the BMC then", s.node.ID)
		return stoppedFor(workPoll), nil
	}
	p.accept(s)
	next := afterRegistration(s.host)
	if next == v1alpha1.StateInspecting {
		free, res, err := p.slots.take(ctx, s, v1alpha1.OperationRegister)
		if !free {
			return res, err
		}
	}
	s.note(eventRegistered, "The engine manages the host as node %s", s.node.ID)
	return s.moveTo(next), nil
}

// accessAdvice says where a person corrects the access to the BMC of a host. The engine knows no
// hosts and names the settings of the node, but those are replaced by what the host has. Engines
// tell only in words what has failed, so the advice mentions certificates in any case.
func accessAdvice(h *v1alpha1.BareMetalHost) string {
	text := fmt.Sprintf("Correct it in the host and not in its node, which gets the access to the BMC from spec.bmc and the Secret %s", h.Spec.BMC.CredentialsName)
	if access, err := bmc.Parse(h.Spec.BMC); err == nil && access.Driver != "ipmi" && !h.Spec.BMC.DisableCertificateVerification {
		text += "; spec.bmc.disableCertificateVerification trusts any certificate"
	}
	return text
}

// advised adds accessAdvice to a refusal of a BMC, and returns other errors as they are.
func advised(h *v1alpha1.BareMetalHost, err error) error {
	if errors.Is(err, provisioner.ErrFailed) || errors.Is(err, provisioner.ErrInvalid) {
		return fmt.Errorf("%w. %s", err, accessAdvice(h))
	}
	return err
}

// withoutBMC makes a host unmanaged whose spec.bmc was removed. It deletes a node that has never
// been inspected, because that knows nothing but the BMC: the host would be imported from it, and
// wait for an inventory that nobody writes.
func (p registering) withoutBMC(ctx context.Context, s *scope) (result, error) {
	if pause := s.wait(v1alpha1.OperationRegister, p.registration.maxBackoff); pause > 0 {
		return stoppedFor(pause), nil
	}
	n, err := p.owners.nodeOf(ctx, s.host)
	inspected := err == nil && !n.InspectedAt.IsZero()
	if err == nil && !inspected {
		err = deleteNodeOf(ctx, s, p.owners)
	}
	if err != nil && !errors.Is(err, provisioner.ErrNotFound) && !isConflict(err) {
		return stopped(), refused(v1alpha1.OperationRegister, "delete", s.host.Status.Provisioning.ID, err)
	}
	if !inspected {
		s.host.Status.Provisioning.ID = ""
	}
	return s.moveTo(v1alpha1.StateUnmanaged), nil
}

// afterRegistration returns the state that follows registration.
func afterRegistration(h *v1alpha1.BareMetalHost) v1alpha1.ProvisioningState {
	switch {
	case h.Spec.ExternallyProvisioned:
		return v1alpha1.StateExternallyProvisioned
	case runsDeployment(h):
		return v1alpha1.StateProvisioned
	case inspectionDisabled(h), h.Status.HardwareDetails != nil:
		return v1alpha1.StatePreparing
	default:
		return v1alpha1.StateInspecting
	}
}

// deployedOf returns what a node is told about the deployment on the machine of a host in use.
func deployedOf(h *v1alpha1.BareMetalHost) *provisioner.Deployment {
	d := &provisioner.Deployment{
		InstanceID: string(h.UID), RootDevice: h.Status.Provisioning.RootDeviceHints.DeepCopy(),
		BootMode: h.Status.Provisioning.BootMode,
	}
	if image := h.Status.Provisioning.Image; image.URL != "" {
		d.Image = &image
	}
	if deploy := h.Status.Provisioning.CustomDeploy; deploy != nil {
		d.Step = deploy.Method
	}
	return d
}
