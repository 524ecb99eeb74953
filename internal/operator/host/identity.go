package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/hardware"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// verdict is what a comparison of two machines says.
type verdict int

const (
	verdictUnknown verdict = iota // no fact is known of both
	verdictSame                   // of the facts that are known of both, none counts as different
	verdictOther                  // a fact differs
)

// takesOver reports whether the node is that of a machine which was inspected before the engine had
// access to its BMC through this host. Whether the BMC belongs to that machine has to be known
// before the node gets the BMC's address.
func takesOver(h *v1alpha1.BareMetalHost, n provisioner.Node) bool {
	return h.Status.GoodCredentials.Reference == nil && !n.InspectedAt.IsZero()
}

// changesBMC reports whether the host asks for another BMC than the one that it has had access to.
// Whether the new BMC belongs to the host's machine has to be known before the node gets its
// address. Otherwise a host in use would get another machine, and that one would be switched off
// and wiped in place of its own.
func changesBMC(h *v1alpha1.BareMetalHost, wanted provisioner.Registration) bool {
	return h.Status.GoodBMC != "" && h.Status.GoodBMC != wanted.Access.Endpoint.String()
}

// comparesLost reports whether a host without a node is compared with the machine behind its BMC
// before it gets a node. It is if the BMC is another one, or if it is not known which BMC the host
// had, as before its first one and after an upgrade.
func comparesLost(h *v1alpha1.BareMetalHost, wanted provisioner.Registration) bool {
	return changesBMC(h, wanted) || h.Status.GoodBMC == "" && factsOf(h) != nil
}

// reaches notes that the node of the host has the BMC of a registration. A BMC that replaces
// another is the host's from then on; the first BMC is the host's when its credentials work. The
// former BMC may have told that the machine was off: that proves nothing about the new one, so the
// records of holds are removed.
func (s *scope) reaches(wanted provisioner.Registration) {
	s.bmc = wanted.Access.Endpoint.String()
	if changesBMC(s.host, wanted) {
		s.host.Status.PowerOffHolds = nil
	}
	if s.host.Status.GoodCredentials.Reference != nil {
		s.host.Status.GoodBMC = s.bmc
	}
	refused := meta.IsStatusConditionFalse(s.host.Status.Conditions, v1alpha1.IdentityVerifiedCondition)
	if refused && s.identity == nil && s.host.Status.GoodBMC == s.bmc {
		s.unverified("The host has its former BMC again, which was not asked anew")
	}
}

// discovered returns the facts about a machine in an inventory.
func discovered(inv *provisioner.Inventory) node.MachineFacts {
	vendor := inv.Hardware.SystemVendor
	return node.MachineFacts{
		MachineIdentity: node.NewMachineIdentity(vendor.UUID, vendor.SerialNumber),
		MACAddresses:    hardware.UsableMACs(inv),
	}
}

// shown returns the facts about its machine that a host shows.
func shown(details *v1alpha1.HardwareDetails) node.MachineFacts {
	facts := node.MachineFacts{MachineIdentity: node.NewMachineIdentity("", details.SystemVendor.SerialNumber)}
	for _, nic := range details.NICs {
		if nic.MAC != "" {
			facts.MACAddresses = append(facts.MACAddresses, strings.ToLower(nic.MAC))
		}
	}
	return facts
}

// factsOf returns the facts that the operator found out about the machine of a host; nil for none.
// The details of a host without inspection are no such facts: a person wrote them.
func factsOf(h *v1alpha1.BareMetalHost) []node.MachineFacts {
	if h.Status.HardwareDetails == nil || inspectionDisabled(h) {
		return nil
	}
	return []node.MachineFacts{shown(h.Status.HardwareDetails)}
}

// isForeign reports whether an inventory is that of another machine than the host's.
func isForeign(h *v1alpha1.BareMetalHost, inv *provisioner.Inventory) bool {
	v, _ := decideAll(factsOf(h), discovered(inv))
	return v == verdictOther
}

// decideAll is decideIdentity for facts from several sources, none of which may differ.
func decideAll(expected []node.MachineFacts, told node.MachineFacts) (v verdict, difference string) {
	for _, facts := range expected {
		if one, differs := decideIdentity(facts, told); one > v {
			v, difference = one, differs
		}
	}
	return v, difference
}

// decideIdentity compares what is expected of a machine with what a BMC told about it. difference
// says for each fact that differs what the BMC told, and what was expected.
//
// Equal UUIDs outweigh different serial numbers, as they do for the engine
// (node.MachineIdentity.Compare): some BMCs give the number of a board as that of the system.
// Without two UUIDs, a common MAC address outweighs them if it was assigned and not chosen locally.
// If the addresses differ besides the serial numbers, equal UUIDs do not count: some vendors give
// many machines the same UUID.
func decideIdentity(expected, told node.MachineFacts) (v verdict, difference string) {
	a, b := node.MachineIdentity{UUID: expected.UUID}, node.MachineIdentity{UUID: told.UUID}
	uuid := comparison{"UUID", told.UUID, expected.UUID, a.Known() && b.Known(), a.Compare(b) == ""}
	number := comparison{
		"serial number", told.SerialNumber, expected.SerialNumber, expected.SerialNumber != "" && told.SerialNumber != "",
		strings.EqualFold(expected.SerialNumber, told.SerialNumber) || strings.EqualFold(expected.SerialNumber, told.SKU),
	}
	want, got := comparableMACs(expected.MACAddresses, told.MACAddresses)
	common := slices.DeleteFunc(slices.Clone(got), func(mac string) bool { return !slices.Contains(want, mac) })
	address := comparison{"MAC addresses", someOf(got), "one of " + someOf(want), len(want) > 0 && len(got) > 0, len(common) > 0}

	switch {
	case uuid.agrees() && (!number.differs() || !address.differs()),
		!uuid.known && address.agrees() && !node.MayBeShared(common[0]):
		return verdictSame, ""
	case !uuid.known && !number.known && !address.known:
		return verdictUnknown, ""
	}
	var differences []string
	for _, c := range []comparison{uuid, number, address} {
		if c.differs() {
			differences = append(differences, fmt.Sprintf("%s %s, expected %s", c.what, c.told, c.expected))
		}
	}
	if len(differences) == 0 {
		return verdictSame, ""
	}
	return verdictOther, strings.Join(differences, "; ")
}

// comparison is what a BMC told and what was expected of one fact; known is true when there is
// both.
type comparison struct {
	what, told, expected string
	known, same          bool
}

func (c comparison) agrees() bool  { return c.known && c.same }
func (c comparison) differs() bool { return c.known && !c.same }

// comparableMACs returns, from both lists, the addresses that tell machines apart. Addresses that
// other machines may have, too, do not prove that two machines are the same, nor that they differ
// where a BMC tells no other addresses. If neither list has an assigned address, as with virtual
// machines, the locally administered ones are compared.
func comparableMACs(expected, told []string) (want, got []string) {
	identifying := node.IdentifyingMACs(slices.Concat(expected, told), "")
	vague := func(mac string) bool { return node.IsShared(mac) || !slices.Contains(identifying, mac) }
	return slices.DeleteFunc(slices.Clone(expected), vague), slices.DeleteFunc(slices.Clone(told), vague)
}

// someOf names a few addresses.
func someOf(macs []string) string {
	const most = 4
	text := strings.Join(macs[:min(len(macs), most)], ", ")
	if len(macs) > most {
		text += fmt.Sprintf(" and %d more", len(macs)-most)
	}
	return text
}

// identity compares the machine behind a BMC with the machine of a node before the node gets the
// address and the credentials of that BMC. Until then nothing can be done through the BMC, even if
// this process ends in between.
type identity struct {
	engine  engine
	turns   *turns
	answers *answers
	// maxBackoff bounds the pause before a BMC is asked again.
	maxBackoff time.Duration
}

// identifyAll and identifyNamespace are the most calls for identities at the same time, of all
// hosts and of the hosts of one namespace. Each call holds a worker for as long as the BMC takes,
// and a user chooses the BMC.
const identifyAll, identifyNamespace = 4, 2

// turns bounds what runs at the same time. It is safe for concurrent use.
type turns struct {
	mu    sync.Mutex
	all   int
	taken map[string]int // by namespace
}

// take reports whether a namespace gets a turn. The caller ends it with give.
func (t *turns) take(namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all >= identifyAll || t.taken[namespace] >= identifyNamespace {
		return false
	}
	t.all++
	t.taken[namespace]++
	return true
}

func (t *turns) give(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.taken[namespace]--; t.taken[namespace] == 0 {
		delete(t.taken, namespace)
	}
}

// check returns nil when the node may get a BMC that is new to the host. Otherwise the host stays
// as it is. The machine behind the BMC has to be that of the host as well as that of the node.
// These two may differ: a discovered node is found by the address of the new BMC, and may be
// another machine's.
func (p identity) check(ctx context.Context, s *scope, n provisioner.Node, wanted provisioner.Registration) error {
	expected := factsOf(s.host)
	inv, err := p.engine.Inventory(ctx, n.ID)
	switch {
	case err == nil:
		found := discovered(inv)
		if v, _ := decideAll(expected, found); v == verdictSame {
			expected = nil // the host shows no UUID, and the inventory of the same machine has one
		}
		expected = append(expected, found)
	case !errors.Is(err, provisioner.ErrNoInventory) && !errors.Is(err, provisioner.ErrNotFound):
		return fmt.Errorf("read inventory of node %s: %w", n.ID, err)
	}
	return p.compare(ctx, s, wanted, expected)
}

// checkLost is check for a host whose node the engine has lost. It compares with what the host
// shows of its machine.
func (p identity) checkLost(ctx context.Context, s *scope, wanted provisioner.Registration) error {
	if !comparesLost(s.host, wanted) {
		return nil
	}
	return p.compare(ctx, s, wanted, factsOf(s.host))
}

// errNoTurn means that a BMC was not asked because others are being asked. The engine can be asked
// for anything else.
var errNoTurn = fmt.Errorf("%w: other BMCs are being asked which machines they belong to", provisioner.ErrBusy)

// judge asks the BMC which machine it belongs to, unless the BMC named another machine, or gave no
// usable answer, a short time ago. reason says what differs, or why nothing is known. If there is
// no turn, the host waits for one.
func (p identity) judge(ctx context.Context, s *scope, wanted provisioner.Registration, expected []node.MachineFacts) (v verdict, reason string, err error) {
	question := fingerprint(wanted.Access.Endpoint.String(), s.credentialsVersion, s.host.Generation)
	latest, remembered := p.answers.to(s, question, p.maxBackoff)
	if !remembered {
		if latest, err = p.ask(ctx, s, wanted); err != nil {
			return verdictUnknown, "", err
		}
		latest.question = question
	}
	switch {
	case errors.Is(latest.err, provisioner.ErrUnsupported):
		reason = fmt.Sprintf("Whether the BMC belongs to the machine of this host is not known: %v", latest.err)
	case latest.err != nil:
		err = fmt.Errorf("read which machine the BMC at %s belongs to: %w", wanted.Access.Endpoint, advised(s.host, latest.err))
	default:
		if v, reason = decideAll(expected, latest.told); v == verdictUnknown {
			reason = "The BMC tells nothing that was also found on the machine when it was inspected"
		}
	}
	if !remembered {
		p.answers.note(s, latest, v == verdictOther || err != nil && !isTemporary(err))
	}
	return v, reason, err
}

// ask asks the BMC if there is a turn.
func (p identity) ask(ctx context.Context, s *scope, wanted provisioner.Registration) (answer, error) {
	if !p.turns.take(s.host.Namespace) {
		s.waiting("Waiting until the BMCs of other hosts have told which machines they belong to")
		return answer{}, errNoTurn
	}
	defer p.turns.give(s.host.Namespace)
	told, err := p.engine.Identify(ctx, *wanted.Access, wanted.Credentials)
	return answer{told: told, err: err}, nil
}

// compare asks the BMC and records the outcome in the condition IdentityVerified.
func (p identity) compare(ctx context.Context, s *scope, wanted provisioner.Registration, expected []node.MachineFacts) error {
	if len(expected) == 0 {
		s.unverified("Nothing is known that the machine behind the BMC could be compared with")
		return nil
	}
	v, reason, err := p.judge(ctx, s, wanted, expected)
	if err != nil {
		return err
	}
	switch v {
	case verdictUnknown:
		s.unverified("%s", reason)
	case verdictSame:
		s.identity = identityCondition(metav1.ConditionTrue, v1alpha1.IdentityVerifiedReason, "The BMC belongs to the machine of this host")
	default:
		message := fmt.Sprintf("the BMC at %s belongs to another machine than this host: %s. Nothing was done to it; "+
			"correct spec.bmc, or delete this host and register the machine anew", wanted.Access.Endpoint, reason)
		s.identity = identityCondition(metav1.ConditionFalse, v1alpha1.IdentityMismatchReason, capitalized(message))
		return errors.New(message)
	}
	return nil
}

func identityCondition(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	c := condition(v1alpha1.IdentityVerifiedCondition, status, reason, message)
	return &c
}

// unverified records in that condition that the BMC is neither confirmed nor refuted.
func (s *scope) unverified(format string, args ...any) {
	s.identity = identityCondition(metav1.ConditionUnknown, v1alpha1.IdentityUnverifiedReason, fmt.Sprintf(format, args...))
}
