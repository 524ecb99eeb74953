package node

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// ramdiskKeys are the keys of a node's properties, instance_info and driver_internal_info that
// ramdisks may read, because agents use them.
var ramdiskKeys = []string{
	"root_device", "skip_block_devices", "capabilities", "cpu_arch", "disk_erasure_concurrency",
	"boot_mode", "deploy_boot_mode", "boot_option", "secure_boot", "agent_*",
}

// RamdiskKeys returns the part of an open dictionary of a node that its ramdisk may read: the keys
// that agents use, and more. A key in more that ends with * stands for all keys with that prefix.
// The caller has yet to mask secrets below these keys, such as the agent's token.
func RamdiskKeys(o Object, more []string) Object {
	return OnlyKeys(o, slices.Concat(ramdiskKeys, more)...)
}

// OnlyKeys returns the object with only the given keys. A key that ends with * stands for all keys
// with that prefix.
func OnlyKeys(o Object, keys ...string) Object {
	kept := map[string]any{}
	for key, value := range o.Fields() {
		if matchesKey(key, keys) {
			kept[key] = value
		}
	}
	return ObjectOf(kept)
}

func matchesKey(key string, wanted []string) bool {
	return slices.ContainsFunc(wanted, func(want string) bool {
		prefix, many := strings.CutSuffix(want, "*")
		return key == want || many && strings.HasPrefix(key, prefix)
	})
}

// LookupRequest is the request of a ramdisk for the node that it runs on.
type LookupRequest struct {
	NodeUUID  string   // when set, it alone decides; Addresses are ignored
	Addresses []string // MAC addresses, lower case, colons; at least one when NodeUUID is empty
	// WantsToken says that the ramdisk supports agent tokens. If false, the answer has no token,
	// and the node's token does not change.
	WantsToken bool
	Source     netip.Addr // where the request came from; zero when unknown
}

// LookupAnswer is the answer to a ramdisk: its node and its settings.
type LookupAnswer struct {
	Node *Node
	// Token is the agent token in plain text when this answer issues one. Empty means that the
	// ramdisk has its token already or supports none; the API then shows "******".
	Token string
	// HeartbeatTimeout is the time after its last heartbeat when a ramdisk counts as lost. Agents
	// send heartbeats at a fraction of it.
	HeartbeatTimeout time.Duration
	// SkipBMCDetect says that the agent need not ask its BMC for addresses.
	SkipBMCDetect bool
}

// InspectionPost is what a ramdisk posts about its machine.
type InspectionPost struct {
	// Body is the document as sent. Its size and depth are bounded, but nothing else is checked.
	// The receiver may keep it.
	Body     []byte
	NodeUUID string // the node that the ramdisk was started for; may be empty
	// WantsToken says that the answer may contain an agent token. Without it the ramdisk gets its
	// token from a lookup.
	WantsToken bool
	Source     netip.Addr // address of the sender; the zero Addr when it is not known
}

// Heartbeat is one heartbeat of the agent in a ramdisk.
type Heartbeat struct {
	CallbackURL        string // http or https URL of the agent's own API; required
	AgentVersion       string
	AgentToken         string
	AgentVerifyCA      string // PEM certificate, the only trust root for CallbackURL
	AgentStatus        string // "", "start", "end" or "error"
	AgentStatusMessage string // for people
}
