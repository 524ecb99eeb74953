package agent

import (
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Rules say which callback URLs the engine accepts.
type Rules struct {
	RequireTLS      bool           // refuse plain http
	AllowedNetworks []netip.Prefix // networks of agents; empty means any
	// VerifyAddress requires that the URL's host is an address in the machine's inventory. So a
	// stolen token cannot direct the engine elsewhere.
	VerifyAddress bool
}

// recordStates are the states in which a heartbeat is recorded.
var recordStates = []node.State{
	node.DeployWait, node.CleanWait, node.RescueWait, node.ServiceWait, node.InspectWait,
	node.Deploying, node.Cleaning, node.Rescuing, node.Servicing, node.Inspecting,
	node.CleanHold, node.DeployHold, node.ServiceHold, node.Rescue,
	node.Enroll, node.Manageable, node.Available,
}

// Records reports whether a heartbeat is recorded in this state. In other states it is accepted and
// ignored.
func Records(s node.State) bool { return slices.Contains(recordStates, s) }

// ErrToken refuses a heartbeat without the token of its node, and a heartbeat for a node that does
// not exist. Somebody without the token does not learn which nodes exist.
var ErrToken = node.Invalid("The node does not exist, or the agent token is missing or does not match.")

// CheckHeartbeat returns a *RefusedError, which wraps a *node.ValidationError, unless the heartbeat
// has the node's token and an acceptable callback URL. addresses returns the addresses in the
// machine's inventory. If there are none, only rules.AllowedNetworks decides.
func CheckHeartbeat(n *node.Node, beat node.Heartbeat, rules Rules, addresses func() ([]netip.Addr, error)) error {
	switch {
	case beat.AgentToken == "":
		return &RefusedError{node.RefusedNoToken, ErrToken}
	case !tokenMatches(n.DriverInternalInfo.Text(TokenKey), beat.AgentToken):
		return &RefusedError{node.RefusedToken, ErrToken}
	}
	known := n.DriverInternalInfo.Text(URLKey)
	switch {
	case known == "":
		return checkURL(n, beat.CallbackURL, rules, addresses)
	case known != beat.CallbackURL:
		return refused(node.RefusedChangedURL, "Agent of node %s may not change its callback URL.", n.UUID)
	}
	return checkCA(n, beat)
}

func checkCA(n *node.Node, beat node.Heartbeat) error {
	if known := n.DriverInternalInfo.Text(VerifyCAKey); known != "" && beat.AgentVerifyCA != "" && known != beat.AgentVerifyCA {
		return refused(node.RefusedChangedCert, "Agent of node %s may not change its certificate.", n.UUID)
	}
	return nil
}

func checkURL(n *node.Node, raw string, rules Rules, addresses func() ([]netip.Addr, error)) error {
	_, address, err := rules.Permit(n.UUID, raw)
	if err != nil || !rules.VerifyAddress {
		return err
	}
	known, err := addresses()
	if err != nil {
		return err
	}
	if len(known) > 0 && !slices.Contains(known, address) {
		return refused(node.RefusedInventory, "Callback URL of node %s is not an address of its inventory.", n.UUID)
	}
	return nil
}

// Permit returns the callback URL of a node and its address. It returns a *RefusedError if raw is
// no URL of an agent, or breaks the rules that need no inventory.
func (r Rules) Permit(uuid, raw string) (*url.URL, netip.Addr, error) {
	parsed, err := url.Parse(raw)
	if err != nil || parsed.Host == "" || parsed.User != nil || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return nil, netip.Addr{}, refused(node.RefusedURL, "Callback URL of node %s must be http(s)://address[:port].", uuid)
	}
	if r.RequireTLS && parsed.Scheme != "https" {
		return nil, netip.Addr{}, refused(node.RefusedPlainHTTP, "Callback URL of node %s must be https: set agent.require_tls to false to accept http.", uuid)
	}
	address, err := netip.ParseAddr(parsed.Hostname())
	if err != nil {
		return nil, netip.Addr{}, refused(node.RefusedHostName, "Callback URL of node %s must name an IP address.", uuid)
	}
	address = address.Unmap().WithZone("")
	inNetwork := func(p netip.Prefix) bool { return p.Contains(address) }
	if len(r.AllowedNetworks) > 0 && !slices.ContainsFunc(r.AllowedNetworks, inNetwork) {
		return nil, netip.Addr{}, refused(node.RefusedNetwork, "Callback URL of node %s is outside agent.allowed_networks.", uuid)
	}
	return parsed, address, nil
}

// WithHeartbeat returns driver_internal_info with the values of an accepted heartbeat.
func WithHeartbeat(info node.Object, beat node.Heartbeat, now time.Time) node.Object {
	changes := map[string]any{URLKey: beat.CallbackURL, LastHeartbeatKey: FormatTime(now), RebootSeenKey: nil, node.HeartbeatRefusalsKey: nil}
	for key, value := range map[string]string{
		VersionKey: beat.AgentVersion, VerifyCAKey: beat.AgentVerifyCA,
		StatusKey: beat.AgentStatus, StatusMessageKey: node.CutText(beat.AgentStatusMessage),
	} {
		if value != "" {
			changes[key] = value
		}
	}
	return info.With(changes)
}
