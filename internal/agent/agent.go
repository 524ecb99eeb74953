// Package agent implements the engine's side of the ramdisk agent's protocol: who may look up a
// node, when a token is issued, what a heartbeat changes and which callback URLs are accepted. Its
// functions only decide. The conductor reads and stores, and package agentclient calls agents.
//
// The engine keeps what it knows about an agent in the node's driver_internal_info, under the keys
// that clients of the Bare Metal API expect.
package agent

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Keys of driver_internal_info for the agent's protocol.
const (
	URLKey           = "agent_url"
	VersionKey       = "agent_version"
	LastHeartbeatKey = "agent_last_heartbeat" // RFC 3339, UTC
	// PEM certificate that the agent sent. In driver_info, the key names the authorities for an
	// agent that sent none.
	VerifyCAKey      = "agent_verify_ca"
	TokenKey         = "agent_secret_token" // never shown
	StatusKey        = "agent_status"
	StatusMessageKey = "agent_status_message"
	// RebootSeenKey is when the inspection of a node that has a token received its inventory. It
	// means that a restarted ramdisk without that token may be running. The next heartbeat removes
	// it. RFC 3339, UTC.
	RebootSeenKey = "agent_reboot_seen"
)

// tokenBytes is the length of the secret. It gives tokens of 43 characters; agents ignore tokens of
// less than 32.
const tokenBytes = 32

// NewToken returns a fresh random token of URL-safe characters.
func NewToken() string {
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // never fails, see crypto/rand
	return base64.RawURLEncoding.EncodeToString(secret)
}

// tokenMatches compares in constant time. An empty stored token matches nothing.
func tokenMatches(stored, sent string) bool {
	return stored != "" && subtle.ConstantTimeCompare([]byte(stored), []byte(sent)) == 1
}

// LastHeartbeat returns the time of the last heartbeat, or the zero time.
func LastHeartbeat(n *node.Node) time.Time { return timeAt(n, LastHeartbeatKey) }

// inBand is the inspect interface for which a ramdisk posts the inventory.
const inBand = "agent"

// Alive reports whether a ramdisk is running on the node's machine. That is so if its agent has
// sent a heartbeat, or its inspection has ended, within the window before now. The end of an
// inspection through the BMC does not count, because no ramdisk took part.
func Alive(n *node.Node, now time.Time, window time.Duration) bool {
	last := LastHeartbeat(n)
	if n.Interfaces[node.InspectInterface] == inBand && n.InspectionFinishedAt.After(last) {
		last = n.InspectionFinishedAt
	}
	return !last.IsZero() && now.Sub(last) <= window
}

// FastTrack reports whether the node's ramdisk keeps running between phases. The node's
// driver_info.fast_track decides. Without that setting, machines without a BMC always keep their
// ramdisk: the engine could not start it again, and could not manage the machine without its
// heartbeats. For other machines byDefault decides.
func FastTrack(n *node.Node, hardware node.HardwareAttributes, byDefault bool) bool {
	var own bool
	if n.DriverInfo.Get("fast_track", &own) {
		return own
	}
	return byDefault || hardware.NeedsRamdiskForPower || n.AutoDiscovered && !hardware.HasBMC
}

func timeAt(n *node.Node, key string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, n.DriverInternalInfo.Text(key))
	if err != nil {
		return time.Time{}
	}
	return t
}

// FormatTime formats a time for driver_internal_info.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
