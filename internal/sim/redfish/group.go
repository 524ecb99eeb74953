package redfish

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// Group is a BMC with one or more systems, as in a chassis with several nodes. Each system has a
// manager and a chassis of its own. The systems share an address, the account and the sessions. It
// is safe for concurrent use.
type Group struct {
	services []*Service // one per system
}

// NewGroup returns the service of one BMC. Each of the BMCs of the model, which must be of one
// vendor, is a system of it.
func NewGroup(bmcs []*bmc.BMC) *Group {
	g := &Group{}
	shared := &sessions{}
	for i, b := range bmcs {
		g.services = append(g.services, &Service{bmc: b, shape: shapes[b.Profile().Vendor].at(i), group: g, sessions: shared})
	}
	return g
}

// SystemPath returns the path of a system. Systems are numbered from 0.
func (g *Group) SystemPath(position int) string {
	s := g.services[position].shape
	return s.id(s.systemPath())
}

// ServeHTTP answers a request. The header X-Request-Id has the identity of the request.
func (g *Group) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, s := range g.services {
		if !s.bmc.Reachable() { // when one of them restarts, all do
			panic(http.ErrAbortHandler) // cuts the connection
		}
	}
	if path := strings.TrimRight(r.URL.Path, "/"); path != r.URL.Path {
		changed := *r.URL
		changed.Path = path
		r = r.Clone(r.Context())
		r.URL = &changed
	}
	g.of(strings.TrimPrefix(r.URL.Path, root)).ServeHTTP(w, r)
}

// of returns the system to which a path belongs. Shared paths belong to the first system.
func (g *Group) of(path string) *Service {
	for _, s := range g.services[1:] {
		if s.owns(path) {
			return s
		}
	}
	return g.services[0]
}

// owns reports whether a path below the service root belongs to the system.
func (s *Service) owns(path string) bool {
	x := s.shape
	for _, own := range []string{x.systemPath(), x.managerPath(), x.chassisPath()} {
		if path == own || strings.HasPrefix(path, own+"/") {
			return true
		}
	}
	for _, c := range s.bmc.Components() {
		if id, _ := x.inventory(c); path == "/UpdateService/FirmwareInventory/"+id {
			return true
		}
	}
	return slices.ContainsFunc(s.bmc.Tasks(), func(t bmc.Task) bool {
		return path == x.taskPath(t.Number) || path == x.monitorPath(t.Number)
	})
}

// targeted returns the system to which the first target of an update belongs.
func (g *Group) targeted(s *Service, body object) *Service {
	targets, _ := body["Targets"].([]any)
	if len(targets) == 0 {
		return s
	}
	uri, _ := targets[0].(string)
	return g.of(strings.TrimPrefix(strings.TrimRight(uri, "/"), root))
}

// restarts returns how often the BMC itself has restarted.
func (g *Group) restarts() int64 {
	var all int64
	for _, s := range g.services {
		all += s.bmc.Restarts()
	}
	return all
}

// allTasks returns the tasks of all systems, in the order in which they began.
func (s *Service) allTasks() []bmc.Task {
	var all []bmc.Task
	for _, one := range s.group.services {
		all = append(all, one.bmc.Tasks()...)
	}
	slices.SortStableFunc(all, func(a, b bmc.Task) int { return a.Begun.Compare(b.Begun) })
	return all
}

// listAll shows a collection with a member for each system.
func listAll(path, kind string, member func(*shape) string) handler {
	return handler{answer: func(s *Service, _ *request) answer {
		members := make([]string, len(s.group.services))
		for i, one := range s.group.services {
			members[i] = member(one.shape)
		}
		return resource(s.shape.collection(path, kind, "Collection", members))
	}}
}

// served is what all BMCs of a shape share.
type served struct {
	once sync.Once
	mux  *http.ServeMux // see mux

	mu     sync.Mutex
	others map[int]*shape // shapes of the systems after the first, by position
}

// tasksPerSystem is added to the task numbers of each further system of a BMC, so that no two tasks
// of the BMC have the same ID.
const tasksPerSystem = 1_000_000

// at returns the shape of a system of a BMC. Systems are numbered from 0. IDs that end with 1 for
// the first system end with another number for the others.
func (s *shape) at(position int) *shape {
	if position == 0 {
		return s
	}
	s.served.mu.Lock()
	defer s.served.mu.Unlock()
	if known, ok := s.served.others[position]; ok {
		return known
	}
	other := *s
	other.served = new(served)
	other.system, other.manager, other.chassis = renumbered(s.system, position), renumbered(s.manager, position), renumbered(s.chassis, position)
	moved := strings.NewReplacer(s.systemPath()+"/", other.systemPath()+"/", s.managerPath()+"/", other.managerPath()+"/")
	other.media = nil
	for _, list := range s.media {
		list.owner = strings.TrimSuffix(moved.Replace(list.owner+"/"), "/")
		other.media = append(other.media, list)
	}
	other.more = nil
	for _, r := range s.more {
		r.path = moved.Replace(r.path)
		other.more = append(other.more, r)
	}
	other.inventory = func(c bmc.Component) (id, name string) {
		id, name = s.inventory(c)
		return fmt.Sprintf("Node%d-%s", position+1, id), fmt.Sprintf("%s of node %d", name, position+1)
	}
	other.taskID = func(number int64) string { return s.taskID(number + int64(position)*tasksPerSystem) }
	if s.served.others == nil {
		s.served.others = map[int]*shape{}
	}
	s.served.others[position] = &other
	return &other
}

// renumbered returns the ID that a part of a system has at another position.
func renumbered(id string, position int) string {
	return strings.TrimSuffix(id, "1") + strconv.Itoa(position+1)
}
