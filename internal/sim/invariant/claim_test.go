package invariant

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/internal/sim"
)

// changing changes a host from one event to the next.
type changing func(*Host)

// histories makes the events of a host and of its machines, with one resource version after the
// other.
type histories struct {
	host   Host
	events []Event
}

func begin() *histories {
	h := &histories{host: Host{Namespace: "ns", Name: "h", UID: "host", BootMAC: "aa", State: stateAvailable}}
	return h.is(func(*Host) {})
}

func (h *histories) add(e Event) *histories {
	e.Version = uint64(len(h.events)) + 1
	e.Since, e.At = at(int(e.Version)), at(int(e.Version))
	h.events = append(h.events, e)
	return h
}

// is adds an event in which the host has changed.
func (h *histories) is(change changing) *histories {
	change(&h.host)
	host := h.host
	return h.add(Event{Host: &host})
}

// machine adds a machine; over says that it is in deletion.
func (h *histories) machine(name string, over bool) *histories {
	return h.add(Event{Machine: &Machine{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Chosen: "ns/h", Over: over}})
}

func (h *histories) gone(name string) *histories {
	return h.add(Event{Machine: &Machine{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Over: true, Gone: true}})
}

// claim gives the host to a machine.
func (h *histories) claim(name string) *histories { return h.is(claimedBy(name)) }

func claimedBy(name string) changing {
	return func(h *Host) {
		h.Consumer, h.ConsumerUID, h.Carried = name, types.UID("uid-"+name), false
		if name == "" {
			h.ConsumerUID = ""
		}
	}
}

// state changes the state of the host.
func (h *histories) state(state string) *histories { return h.is(func(h *Host) { h.State = state }) }

// deploy lets the host be deployed.
func (h *histories) deploy() *histories {
	return h.is(func(h *Host) { h.Specified = true }).state("provisioning").state("provisioned")
}

// giveBack removes what is deployed and the consumer. The host stays reserved for an owner of
// machines.
func (h *histories) giveBack() *histories {
	return h.is(func(h *Host) { h.Specified = false; claimedBy("")(h) })
}

func TestHostIsTakenWhileItIsNotFree(t *testing.T) {
	first := func() *histories { return begin().machine("a", false).claim("a") }
	deployed := func() *histories { return first().deploy() }
	leaving := func() *histories { return deployed().machine("a", true) }
	returned := func() *histories { return leaving().giveBack().state("deprovisioning").state(stateAvailable) }
	off := sim.Run{Machine: 3, Name: "instance", Since: at(4), Until: at(6)}
	on := sim.Run{Machine: 3, Name: "instance", Since: at(4)}

	for name, test := range map[string]struct {
		history *histories
		run     sim.Run
		want    []string // parts of what is said; none when nothing is
	}{
		"free": {first(), off, nil},
		"reserved by a machine in deletion, deprovisioned and reused":      {returned().machine("b", false).claim("b"), off, nil},
		"reused after the machine before is gone":                          {returned().gone("a").machine("b", false).claim("b"), off, nil},
		"freed by its machine after it was deprovisioned":                  {leaving().is(func(h *Host) { h.Specified = false }).state(stateAvailable).claim("").machine("b", false).claim("b"), off, nil},
		"given up before anything was deployed":                            {first().machine("a", true).claim("").machine("b", false).claim("b"), off, nil},
		"named ready as older operators do":                                {returned().state(stateReady).machine("b", false).claim("b"), off, nil},
		"written again for the same machine":                               {deployed().claim("a"), on, nil},
		"named again after the reference was lost":                         {deployed().claim("").claim("a"), on, nil},
		"moved with its machine":                                           {(&histories{host: Host{Namespace: "ns", Name: "h", UID: "2", Consumer: "a", ConsumerUID: "uid-before", Carried: true, Specified: true}}).is(func(*Host) {}).machine("a", false).claim("a"), on, nil},
		"created again with its machine by a move back":                    {deployed().is(func(h *Host) { h.Gone = true }).is(func(h *Host) { h.UID, h.Gone, h.Consumer = "new", false, "b" }), on, nil},
		"recreated while nobody looked":                                    {deployed().is(func(h *Host) { h.UID, h.Consumer = "new", "b" }), on, nil},
		"taken while it is provisioned":                                    {deployed().machine("b", false).claim("b"), off, []string{`state "provisioned"`, "named what to deploy", "that of ns/a"}},
		"taken from a machine in deletion":                                 {leaving().machine("b", false).claim("b"), off, []string{`state "provisioned"`, "named what to deploy", "that of ns/a"}},
		"taken from a machine in deletion before anything was deployed":    {first().machine("a", true).machine("b", false).claim("b"), off, []string{"that of ns/a"}},
		"reserved and taken before its operator has seen it":               {leaving().giveBack().machine("b", false).claim("b"), off, []string{`state "provisioned"`}},
		"reserved and taken while it is deprovisioned":                     {leaving().giveBack().state("deprovisioning").machine("b", false).claim("b"), off, []string{`state "deprovisioning"`}},
		"freed and taken while the machine before is in deletion":          {leaving().claim("").machine("b", false).claim("b"), off, []string{`state "provisioned"`, "named what to deploy"}},
		"taken while the machine before is gone and the host deprovisions": {leaving().giveBack().gone("a").state("deprovisioning").machine("b", false).claim("b"), off, []string{`state "deprovisioning"`}},
		"taken while its machine still runs":                               {returned().machine("b", false).claim("b"), on, []string{`machine 3 still ran the instance "instance"`}},
		"by a later machine of the same name":                              {deployed().gone("a").is(func(h *Host) { h.ConsumerUID = "later" }), off, []string{`state "provisioned"`, "named what to deploy"}},
		"in the order of versions":                                         {returned().machine("b", false).claim("b").reversed(), off, nil},
	} {
		running := func(bootMAC string, from, until time.Time) (sim.Run, bool) {
			return test.run, bootMAC == "aa" && isOn(test.run, from) && isOn(test.run, until)
		}
		got := TakenHosts(test.history.events, running)
		if want := min(1, len(test.want)); len(got) != want {
			t.Errorf("%s: %v, want %d", name, got, want)
			continue
		}
		for _, taken := range got {
			if len(taken.Why) != len(test.want) {
				t.Errorf("%s: %s, want %q", name, taken, test.want)
			}
			for _, part := range test.want {
				if !strings.Contains(taken.String(), part) {
					t.Errorf("%s: %s, want %q", name, taken, part)
				}
			}
		}
	}
}

// reversed returns the events in the reverse order.
func (h *histories) reversed() *histories {
	slices.Reverse(h.events)
	return h
}
