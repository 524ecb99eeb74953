// Package agent holds the engine's half of the ramdisk agent's protocol: who may
// look a node up, when a token is issued, what a heartbeat does and which
// callback URLs are believed. It decides from values; the conductor acts.
//
// What is known of an agent lives in the node's driver_internal_info under the
// keys below, as clients of the Bare Metal API expect them.
package agent

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Keys of driver_internal_info that the agent's protocol owns.
const (
	URLKey           = "agent_url"
	VersionKey       = "agent_version"
	LastHeartbeatKey = "agent_last_heartbeat" // RFC 3339, UTC
	VerifyCAKey      = "agent_verify_ca"      // PEM that the agent sent
	TokenKey         = "agent_secret_token"   // never shown
	StatusKey        = "agent_status"
	StatusMessageKey = "agent_status_message"
	// RebootSeenKey is when a machine posted an inventory although it is known,
	// as a ramdisk does when it has started anew. RFC 3339, UTC.
	RebootSeenKey = "agent_reboot_seen"
)

// tokenBytes gives tokens of 43 characters; agents ignore one below 32.
const tokenBytes = 32

// NewToken returns a fresh random token of URL-safe characters.
func NewToken() string {
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // never fails, see crypto/rand
	return base64.RawURLEncoding.EncodeToString(secret)
}

// TokenMatches compares in constant time. An empty stored token matches nothing.
func TokenMatches(stored, sent string) bool {
	return stored != "" && subtle.ConstantTimeCompare([]byte(stored), []byte(sent)) == 1
}

// LastHeartbeat returns when the node's agent was last heard, or the zero time.
func LastHeartbeat(n *node.Node) time.Time { return timeAt(n, LastHeartbeatKey) }

// Alive reports whether a ramdisk is running on the node's machine: its agent
// was heard, or its inspection ended, within the window before now.
func Alive(n *node.Node, now time.Time, window time.Duration) bool {
	heard := LastHeartbeat(n)
	if n.InspectionFinishedAt.After(heard) {
		heard = n.InspectionFinishedAt
	}
	return !heard.IsZero() && now.Sub(heard) <= window
}

// FastTrack reports whether the node's ramdisk is kept between phases. The
// node's own driver_info.fast_track wins; machines without a BMC always keep it,
// because the engine could not start it again, and because without its heartbeats
// such a machine cannot even be managed.
func FastTrack(n *node.Node, byDefault bool) bool {
	var own bool
	if n.DriverInfo.Get("fast_track", &own) {
		return own
	}
	return byDefault || n.Driver == withoutPower || n.AutoDiscovered && !HasBMC(n)
}

// HasBMC reports whether the node can be powered without its agent's help.
func HasBMC(n *node.Node) bool {
	return n.Driver != withoutPower && n.Driver != "fake-hardware"
}

// withoutPower is the hardware type of machines that only their ramdisk reboots.
const withoutPower = "manual-management"

func timeAt(n *node.Node, key string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, n.DriverInternalInfo.Text(key))
	if err != nil {
		return time.Time{}
	}
	return t
}

// FormatTime is how times are written into driver_internal_info.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
