package node

// Keys of instance_info for the password of the rescue system. The engine writes them and
// shows them to nobody.
const (
	// RescueHashKey has the crypt(3) hash of the password, until the rescue system has it.
	RescueHashKey = "hashed_rescue_password"
	// RescuePasswordKey has the password itself, in nodes that earlier releases rescued.
	RescuePasswordKey = "rescue_password"
)

// RescueHashOf returns the hash of the password for the rescue system of a node; empty when it is
// unknown or already removed.
func RescueHashOf(n *Node) string { return n.InstanceInfo.Text(RescueHashKey) }

// ClearRescuePassword removes the password and its hash from a node.
func ClearRescuePassword(n *Node) {
	if n.InstanceInfo.Text(RescueHashKey)+n.InstanceInfo.Text(RescuePasswordKey) == "" {
		return
	}
	n.InstanceInfo = n.InstanceInfo.Without(RescueHashKey, RescuePasswordKey)
}
