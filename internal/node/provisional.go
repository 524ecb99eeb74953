package node

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A node is provisional from its discovery until a person accepts it. An import into Kubernetes
// happens without a person and accepts nothing, so both functions named Accepts leave out what an
// import does.

// Accepts reports whether a client's change of a provisional node shows that a person has accepted
// it. An import changes only automated_clean, extra, maintenance with its reason, and instance_uuid
// for a moment.
func Accepts(before, after *Node) bool {
	b, a := *before, *after
	for _, n := range []*Node{&b, &a} {
		n.AutomatedClean, n.Extra, n.InstanceUUID = nil, nil, ""
		n.Maintenance, n.MaintenanceReason, n.Fault = false, "", ""
	}
	return !reflect.DeepEqual(b, a)
}

// importVerbs are the verbs by which an import makes a node available.
var importVerbs = []Trigger{OnManage, OnProvide}

// Accepts reports whether a request for the verb shows that a person has accepted a provisional
// node.
func (v Verb) Accepts() bool { return !slices.Contains(importVerbs, v.On) }

// AddressesLeftOutKey is the key of driver_internal_info for the number of MAC addresses of its
// machine that a provisional node may not claim; absent when it claims all.
const AddressesLeftOutKey = "addresses_left_out"

// takenPrefix is the beginning of every text that AddressesTaken returns.
const takenPrefix = "A registered node has taken MAC addresses of this discovered node"

// maxTakenNamed is how many addresses AddressesTaken names.
const maxTakenNamed = 8

// AddressesTaken returns the last_error of a discovered node that lost addresses to the registered
// node with the UUID to. Left is the number of addresses that the discovered node keeps.
func AddressesTaken(to string, lost []string, left int) string {
	names := strings.Join(lost[:min(len(lost), maxTakenNamed)], ", ")
	if more := len(lost) - maxTakenNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	rest := "None is left: delete this node."
	if left > 0 {
		rest = fmt.Sprintf("It keeps %d: if they belong to the same machine, delete this node.", left)
	}
	return fmt.Sprintf("%s, because nobody has accepted it: node %s has %s now. %s", takenPrefix, to, names, rest)
}

// ClearError removes the last error. It keeps the text of AddressesTaken while the node is
// provisional, because losing addresses is not a failure.
func (n *Node) ClearError() {
	if !n.Provisional || !IsAddressesTaken(n.LastError) {
		n.LastError = ""
	}
}

// Failed reports whether last_error describes a failure.
func (n *Node) Failed() bool { return n.LastError != "" && !IsAddressesTaken(n.LastError) }

// IsAddressesTaken reports whether a last_error is a text of AddressesTaken, which is not a failure
// of work.
func IsAddressesTaken(lastError string) bool { return strings.HasPrefix(lastError, takenPrefix) }
