package node

import "hash/fnv"

// Responsible returns the living conductor that looks after a node of a
// conductor group: one of that group, and the same one until one of them comes
// or goes. It returns "" when the group has no living conductor.
func Responsible(uuid, group string, conductors []Conductor) string {
	var chosen string
	var highest uint64
	for i := range conductors {
		c := &conductors[i]
		if !c.Alive || c.Group != group {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(uuid + "\x00" + c.Hostname)) // never fails
		if weight := h.Sum64(); chosen == "" || weight > highest {
			chosen, highest = c.Hostname, weight
		}
	}
	return chosen
}
