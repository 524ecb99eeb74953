package invariant

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/internal/sim"
)

// Taken is a host that was given to a machine although it was not free for the machine.
type Taken struct {
	Host, Machine string // NAMESPACE/NAME
	// Before is the machine to which the host belonged before, as NAMESPACE/NAME, if that still
	// existed.
	Before string
	// Version is the resource version of the write that gave the host to the machine.
	Version uint64
	// Why says what kept the host from being free.
	Why []string
}

// String says what was broken.
func (t Taken) String() string {
	return fmt.Sprintf("the host %s was given to the machine %s with resource version %d, but %s", t.Host, t.Machine, t.Version, strings.Join(t.Why, ", and "))
}

// Running returns the operating system that a simulated machine ran all the time between two times.
// The machine is named by the MAC address that it boots from.
type Running func(bootMAC string, from, until time.Time) (sim.Run, bool)

// RunningOn returns what the simulated machines run. If machines is nil, nothing is known to run.
func RunningOn(machines *sim.Machines) Running {
	if machines == nil {
		return func(string, time.Time, time.Time) (run sim.Run, ok bool) { return run, false }
	}
	numbers := map[string]int{}
	for i := range machines.Len() {
		numbers[strings.ToLower(machines.Machine(i).BootMAC())] = i
	}
	return func(bootMAC string, from, until time.Time) (sim.Run, bool) {
		number, known := numbers[strings.ToLower(bootMAC)]
		if !known {
			return sim.Run{}, false
		}
		for _, run := range machines.Runs() { // read now, to have all ends until now
			if run.Machine == number && isOn(run, from) && isOn(run, until) {
				return run, true
			}
		}
		return sim.Run{}, false
	}
}

// consumer is the Metal3Machine that a host names.
type consumer struct {
	name string // NAMESPACE/NAME; empty if there is none
	uid  types.UID
}

// consumerOf returns the consumer of a host. It leaves out a UID that was written for another
// object of the host, because a move to another management cluster gives machines new UIDs.
func consumerOf(h Host) (c consumer) {
	if h.Consumer == "" {
		return c
	}
	c.name = h.Namespace + "/" + h.Consumer
	if !h.Carried {
		c.uid = h.ConsumerUID
	}
	return c
}

// is reports whether both can be the same machine: they have the same name, and no different UIDs.
func (c consumer) is(other consumer) bool {
	return c.name == other.name && (c.uid == "" || other.uid == "" || c.uid == other.uid)
}

// given is a host with the last machine that was its consumer.
type given struct {
	now  Host
	last consumer
}

// TakenHosts returns the hosts that got a machine as their consumer although they were not free for
// it. A host is not free while it is not available or has something to be deployed, while it names
// another machine that still exists, in deletion or not, or while its simulated machine runs an
// operating system. A host that appears with its consumer, like one that was moved, was given to
// nobody. The same holds for a host on which its last machine is written again.
func TakenHosts(events []Event, running Running) (found []Taken) {
	hosts, machines := map[string]given{}, map[string]Machine{}
	for _, e := range inOrder(events) {
		if m := e.Machine; m != nil {
			machines[m.Namespace+"/"+m.Name] = *m
			continue
		}
		name := e.Host.Namespace + "/" + e.Host.Name
		if e.Host.Gone {
			delete(hosts, name)
			continue
		}
		was, known := hosts[name]
		if known && was.now.UID != e.Host.UID {
			was, known = given{}, false
		}
		next := given{now: *e.Host, last: was.last}
		if c := consumerOf(*e.Host); c.name != "" {
			next.last = c
		}
		hosts[name] = next
		if !known || next.last.is(was.last) {
			continue
		}
		taken := Taken{Host: name, Machine: next.last.name, Version: e.Version, Why: notFree(*e.Host)}
		if before := consumerOf(was.now); exists(before, machines) {
			taken.Before, taken.Why = before.name, append(taken.Why, fmt.Sprintf("it was that of %s, which still existed", before.name))
		}
		if run, runs := running(e.Host.BootMAC, e.Since, e.At); runs {
			taken.Why = append(taken.Why, fmt.Sprintf("its machine %d still ran the instance %q", run.Machine, run.Name))
		}
		if len(taken.Why) > 0 {
			found = append(found, taken)
		}
	}
	return found
}

// notFree says what shows that something is deployed on a host.
func notFree(h Host) (why []string) {
	if h.State != stateAvailable && h.State != stateReady {
		why = append(why, fmt.Sprintf("it was in state %q", h.State))
	}
	if h.Specified {
		why = append(why, "its spec named what to deploy")
	}
	return why
}

// exists reports whether the machine that a host names exists. A machine in deletion still exists.
func exists(c consumer, machines map[string]Machine) bool {
	m, known := machines[c.name]
	return known && !m.Gone && (c.uid == "" || c.uid == m.UID)
}
