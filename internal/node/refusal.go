package node

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// HeartbeatRefusalsKey is the key of driver_internal_info for the list of [HeartbeatRefusal], which
// the next accepted heartbeat removes. Ramdisks do not get this list, because its name does not
// begin as the keys of the agent's protocol do.
const HeartbeatRefusalsKey = "heartbeat_refusals"

// HeartbeatRefusal is the last refusal of a node's heartbeat for one reason.
type HeartbeatRefusal struct {
	Reason RefusalReason `json:"reason"`
	URL    string        `json:"url"` // callback URL as sent, without credentials; may be empty
	At     time.Time     `json:"at"`  // UTC; up to a minute older than the last such heartbeat
}

// RefusalReason is why a heartbeat is refused.
type RefusalReason string

// Reasons for which heartbeats are refused.
const (
	RefusedNoToken     RefusalReason = "no-token"
	RefusedToken       RefusalReason = "wrong-token"
	RefusedMalformed   RefusalReason = "malformed"
	RefusedVersion     RefusalReason = "wrong-version"
	RefusedURL         RefusalReason = "bad-url"
	RefusedHostName    RefusalReason = "host-name"
	RefusedPlainHTTP   RefusalReason = "plain-http"
	RefusedNetwork     RefusalReason = "outside-networks"
	RefusedInventory   RefusalReason = "not-in-inventory"
	RefusedChangedURL  RefusalReason = "changed-url"
	RefusedChangedCert RefusalReason = "changed-certificate"
)

// anotherLookup says how an agent gets a new token.
const anotherLookup = "Restart the ramdisk, so that it looks itself up again. On a machine without a BMC it gets a new token " +
	"when the earlier agent has been silent for agent.heartbeat_timeout; a machine with a BMC has to be restarted by the engine"

// refusalReasons says for each reason what is wrong, what to do, and whether the heartbeat had the
// token of the node, which proves that the node's agent sent it.
var refusalReasons = map[RefusalReason]struct {
	cause, advice string
	hadToken      bool
}{
	RefusedNoToken:     {cause: "it has no agent token", advice: anotherLookup},
	RefusedToken:       {cause: "its agent token is not the one that the engine issued last", advice: anotherLookup},
	RefusedMalformed:   {cause: "one of its values is missing, too long or unknown", advice: "Boot a ramdisk with an unchanged ironic-python-agent"},
	RefusedVersion:     {cause: "it does not fit the API version that it selects", advice: "Boot a ramdisk whose agent selects API version 1.62 or newer"},
	RefusedURL:         {cause: "its callback URL is not http(s)://address[:port]", advice: "Correct the kernel arguments ipa-advertise-host, ipa-advertise-port and ipa-advertise-protocol of the ramdisk"},
	RefusedHostName:    {"its callback URL names a host instead of an IP address", "Remove the kernel argument ipa-advertise-host of the ramdisk, or give it an IP address", true},
	RefusedPlainHTTP:   {"its callback URL is plain http", "Have the ramdisk serve TLS, or set agent.require_tls to false", true},
	RefusedNetwork:     {"its callback URL is outside of the permitted networks", "Add the network of the machine to agent.allowed_networks", true},
	RefusedInventory:   {"its callback URL is no address of the node's inventory", "Inspect the node again, or set agent.verify_callback_address to false", true},
	RefusedChangedURL:  {"its callback URL is not the one of its first heartbeat", "Keep the address of the machine the same while its ramdisk runs, or restart the ramdisk", true},
	RefusedChangedCert: {"its certificate is not the one of its first heartbeat", "Restart the ramdisk; if the machine itself did not change it, find out who else has the agent token", true},
}

// HadToken reports whether heartbeats that are refused for this reason had the token of their node.
// Anybody can send heartbeats without it.
func (r RefusalReason) HadToken() bool { return refusalReasons[r].hadToken }

// Cause says what is wrong with the heartbeat, as a clause. It is empty for a reason that
// this version does not know.
func (r RefusalReason) Cause() string { return refusalReasons[r].cause }

// Advice says what to change, as a clause. It is empty for a reason that this version
// does not know.
func (r RefusalReason) Advice() string { return refusalReasons[r].advice }

// String returns the refusal in two sentences: what was refused and why, and what to change.
func (r HeartbeatRefusal) String() string {
	return fmt.Sprintf("The engine refused a heartbeat with the callback URL %q at %s (%s): %s. %s.",
		r.URL, r.At.UTC().Format(time.RFC3339), r.Reason, r.Reason.Cause(), r.Reason.Advice())
}

// HeartbeatRefusals returns the refusals since the last accepted heartbeat: first those that
// certainly come from the node's agent, and within both groups the newest first.
func HeartbeatRefusals(driverInternalInfo Object) []HeartbeatRefusal {
	var refusals []HeartbeatRefusal
	driverInternalInfo.Get(HeartbeatRefusalsKey, &refusals)
	slices.SortStableFunc(refusals, func(a, b HeartbeatRefusal) int {
		return cmp.Or(rank(a)-rank(b), b.At.Compare(a.At))
	})
	return refusals
}

func rank(r HeartbeatRefusal) int {
	if r.Reason.HadToken() {
		return 0
	}
	return 1
}

// FirstRefusal returns the first refusal that is not older than since; ok is false when
// there is none.
func FirstRefusal(refusals []HeartbeatRefusal, since time.Time) (refusal HeartbeatRefusal, ok bool) {
	i := slices.IndexFunc(refusals, func(r HeartbeatRefusal) bool { return !r.At.Before(since) })
	if i < 0 {
		return HeartbeatRefusal{}, false
	}
	return refusals[i], true
}
