package node

// Responsible returns the living conductor that looks after a node of a
// conductor group: one of that group, and the same one until one of them comes
// or goes. It returns "" when the group has no living conductor.
func Responsible(uuid, group string, conductors []Conductor) string {
	var chosen string
	var highest uint64
	for i := range conductors {
		c := &conductors[i]
		switch {
		case !c.Alive || c.Group != group:
			continue
		case chosen == "":
			chosen = c.Hostname // often the only one, which needs no weight
			continue
		case highest == 0:
			highest = weight(uuid, chosen)
		}
		if w := weight(uuid, c.Hostname); w > highest {
			chosen, highest = c.Hostname, w
		}
	}
	return chosen
}

// weight is how well a conductor suits a node beside others: FNV-1a (64 bits) over
// both names. Replicas of different versions must agree on it.
func weight(uuid, hostname string) uint64 {
	const prime = 1099511628211
	hash := uint64(14695981039346656037)
	for i := range len(uuid) {
		hash = (hash ^ uint64(uuid[i])) * prime
	}
	hash *= prime // a zero byte between them
	for i := range len(hostname) {
		hash = (hash ^ uint64(hostname[i])) * prime
	}
	return hash
}
