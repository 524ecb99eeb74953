package node

import (
	"net/netip"
	"time"
)

// LookupRequest is how a ramdisk asks which node it runs on.
type LookupRequest struct {
	NodeUUID  string   // when set, it alone decides; Addresses are ignored
	Addresses []string // MAC addresses, lower case, colons; at least one when NodeUUID is empty
	Version   int      // microversion 1.N of the request; tokens exist since 1.62
}

// LookupAnswer tells a ramdisk who it is.
type LookupAnswer struct {
	Node *Node
	// Token is the agent token in clear when this answer issues it. Empty means
	// that the ramdisk got it before; it is shown as "******" then.
	Token string
	// HeartbeatTimeout is how long a ramdisk may stay silent before it counts
	// as lost; it beats at a fraction of this.
	HeartbeatTimeout time.Duration
}

// InspectionPost is what a ramdisk posts about its machine.
type InspectionPost struct {
	// Body is the document as sent. It is bounded in size and depth, and nothing
	// else about it is known. Whoever takes the post may keep it.
	Body     []byte
	NodeUUID string     // the node that the ramdisk was started for; may be empty
	Version  int        // microversion 1.N of the request
	Source   netip.Addr // where the request came from; the zero Addr when that is not known
}

// Heartbeat is one sign of life of a ramdisk.
type Heartbeat struct {
	CallbackURL        string // http or https URL of the agent's own API; required
	AgentVersion       string
	AgentToken         string
	AgentVerifyCA      string // PEM certificate, the only trust root for CallbackURL; since 1.68
	AgentStatus        string // "", "start", "end" or "error"; since 1.72
	AgentStatusMessage string // for people; since 1.72
	Version            int    // microversion 1.N of the request
}
