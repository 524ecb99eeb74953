package node

// Responsible returns the conductor that manages a node of a conductor group. It is
// one of the group's conductors that are alive, and stays the same until one of them
// starts or ends. It returns "" when the group has none.
func Responsible(uuid, group string, conductors []Conductor) string {
	var chosen string
	var highest uint64
	for i := range conductors {
		c := &conductors[i]
		switch {
		case !c.Alive || c.Group != group:
			continue
		case chosen == "":
			chosen = c.Hostname // often there is only one, which needs no weight
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

// weight is the weight of a conductor for a node in rendezvous hashing: FNV-1a
// (64 bits) over both names. Conductors of different versions must agree on it.
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
