package simulate

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// world is what one run simulates: a database, machines, the processes that work on them and the
// clients that make requests.
type world struct {
	seed     uint64
	sched    *scheduler
	db       *store.Store
	machines map[string]*machine // by UUID of the node
	nodes    []string            // UUIDs
	// computers are the machines of a run with BMCs and agents, in the order of the nodes.
	computers []*computer
	outage    int        // commits for which the database stays unavailable
	commitMu  sync.Mutex // held while a commit is made and compared with requests
	// attributed are the failures in the history that ended the work of a request, by UUID; guarded
	// by committing.
	attributed  map[string]bool
	stepCount   int
	restoration restoration

	mu         sync.Mutex
	replicas   []*replica // that run or end; slot by slot
	replaced   []*replica // that have ended and were replaced
	requests   []*request
	violations []string
	log        []string
}

// agentToken is the token with which the simulated ramdisks authenticate.
const agentToken = "token-of-the-simulated-ramdisk-0123456789"

func newWorld(seed uint64, dir string) (*world, error) {
	w := &world{seed: seed, sched: newScheduler(seed), machines: map[string]*machine{}, attributed: map[string]bool{}}
	w.planRestoration(dir)
	var err error
	if err := os.CopyFS(dir, os.DirFS(template())); err != nil {
		return nil, err
	}
	if w.db, err = store.Open(context.Background(), store.Options{Dir: dir}); err != nil {
		return nil, err
	}
	w.replicas = make([]*replica, 1+w.sched.rng.IntN(3))
	add := w.addNode
	if seed%computersEvery == 0 {
		add = w.addComputer
	}
	for i := range 3 {
		if err := add(i); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// childEvery says that one in this many runs with fake machines has a node whose steps may run on
// another node.
const childEvery = 3

// hasChild reports whether the second node is a child of the first.
func (w *world) hasChild() bool { return len(w.computers) == 0 && w.seed%childEvery == 0 }

// steps draws how many steps a run has. Work with computers takes more of them.
func (w *world) steps() int {
	steps := 250 + w.sched.rng.IntN(350)
	if len(w.computers) > 0 {
		steps *= 2
	}
	if w.makesVolumes() {
		steps *= 2
	}
	return steps
}

// template returns a folder with an empty database, which is made once.
var template = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp(tempDir(), "ingot-simulate-")
	if err == nil {
		var db *store.Store
		if db, err = store.Open(context.Background(), store.Options{Dir: dir}); err == nil {
			err = db.Close()
		}
	}
	if err != nil {
		panic(err)
	}
	return dir
})

// initialStates are those in which nodes of a run begin.
var initialStates = []node.State{node.Enroll, node.Manageable, node.Available, node.Active}

// addNode stores a node and its machine. The last one has no BMC.
func (w *world) addNode(i int) error {
	uuid := fmt.Sprintf("00000000-0000-4000-8000-%012d", i+1)
	yes := true
	n := &node.Node{
		UUID: uuid, Name: fmt.Sprintf("node-%d", i+1), Driver: "fake-hardware",
		DriverInfo:         node.ObjectOf(map[string]any{"fake_bmc": fmt.Sprintf("bmc-%d", i%2)}),
		DriverInternalInfo: node.ObjectOf(map[string]any{agent.TokenKey: agentToken}),
		ProvisionState:     pick(w.sched, initialStates), PowerState: node.PowerOff, AutomatedClean: &yes,
		Interfaces: fakeInterfaces,
	}
	switch i {
	case 1:
		n.Interfaces[node.InspectInterface] = "agent"
		if w.hasChild() {
			n.ParentNode = w.nodes[0]
		}
	case 2:
		n.Driver, n.ProvisionState, n.PowerState, n.Interfaces = "manual-management", node.Enroll, node.PowerOn, manualInterfaces
	}
	w.nodes = append(w.nodes, uuid)
	w.machines[uuid] = w.newMachine(n)
	w.machines[uuid].tasksIncomplete = w.sched.chance(20)
	return w.db.Write(context.Background(), func(tx *store.Tx) error { return tx.CreateNode(n) })
}

var fakeInterfaces = func() (chosen node.Interfaces) {
	for kind := range node.InterfaceCount {
		chosen[kind] = "fake"
	}
	chosen[node.NetworkInterface] = "noop"
	return chosen
}()

var manualInterfaces = func() (chosen node.Interfaces) {
	for kind, name := range map[node.InterfaceKind]string{
		node.BIOSInterface: "no-bios", node.BootInterface: "ipxe", node.ConsoleInterface: "no-console", node.DeployInterface: "direct",
		node.FirmwareInterface: "no-firmware", node.InspectInterface: "agent", node.ManagementInterface: "noop", node.NetworkInterface: "noop",
		node.PowerInterface: "agent", node.RAIDInterface: "no-raid", node.RescueInterface: "no-rescue", node.StorageInterface: "noop", node.VendorInterface: "no-vendor",
	} {
		chosen[kind] = name
	}
	return chosen
}()

// violated notes a violation of what must hold.
func (w *world) violated(format string, args ...any) {
	text := fmt.Sprintf("%9.3fs ", time.Since(w.sched.began).Seconds()) + fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, text)
}

func (w *world) drawn(request, purpose string) uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, w.seed, purpose, request)
	return h.Sum32()
}

// taskDuration is how long a machine needs for a request.
func (w *world) taskDuration(request string) time.Duration {
	return []time.Duration{0, 0, 300 * time.Millisecond, 5 * time.Second, 40 * time.Second}[w.drawn(request, "takes")%5]
}

// taskFails reports whether the task of a request fails.
func (w *world) taskFails(request string) bool { return w.drawn(request, "breaks")%12 == 0 }

// startReplica starts the process of a slot. It does not wait for the start, which may block.
func (w *world) startReplica(slot int) *replica {
	r := w.newReplica(fmt.Sprintf("conductor-%d", slot+1))
	go func() {
		ctx := runner.WithInfo(context.Background(), &runner.Info{Task: "start"})
		if err := r.Start(ctx); err != nil {
			r.die()
		} else {
			r.setStarted()
		}
	}()
	return r
}

// restartReplicas starts new processes where the old ones have ended.
func (w *world) restartReplicas() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for slot, r := range w.replicas {
		if r != nil {
			select {
			case <-r.stopped:
				w.replaced = append(w.replaced, r)
			default:
				continue
			}
		}
		w.replicas[slot] = w.startReplica(slot)
	}
}

// allReplicas returns those that run and those that have ended.
func (w *world) allReplicas() []*replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Concat(w.replaced, w.replicas)
	return slices.DeleteFunc(all, func(r *replica) bool { return r == nil })
}

// drawReplica returns a process that takes requests, drawn; nil when there is none.
func (w *world) drawReplica() *replica {
	running := slices.DeleteFunc(w.allReplicas(), func(r *replica) bool { return !r.isRunning() })
	if len(running) == 0 {
		return nil
	}
	return pick(w.sched, running)
}

// timeSteps are how long the scheduler lets time pass at once.
var timeSteps = []time.Duration{
	time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond, time.Second, time.Second, 3 * time.Second,
	7 * time.Second, 12 * time.Second, 25 * time.Second, time.Minute, 6 * time.Minute,
}

// step does the next thing.
func (w *world) step() {
	s := w.sched
	s.waiting()
	w.restoreOrResume()
	points := s.waiting()
	drawn := s.rng.IntN(100)
	if w.makesVolumes() && drawn >= 72 && drawn < 89 && s.chance(60) {
		drawn = 99 // a change of volumes takes many steps
	}
	if len(w.computers) > 0 && (len(points) == 0 || drawn >= 84 && drawn < 88) && s.chance(60) {
		drawn = 99 // machines need time to boot and work, and processes that do not die
	}
	switch {
	case len(points) > 0 && drawn < 72:
		w.decide(w.next(points))
	case drawn < 84:
		w.drawRequest()
	case drawn < 86:
		w.kill()
	case drawn < 88:
		w.stop()
	case drawn < 89:
		w.outage = 1 + s.rng.IntN(12)
	default:
		timeStep := pick(s, timeSteps)
		s.note("time passes: %s", timeStep)
		// The odd nanoseconds keep timers of the engine from ending in the same moment, in random
		// order.
		time.Sleep(timeStep + 17*time.Nanosecond) //nolint:forbidigo // time of a bubble, which passes by itself
	}
	s.waiting()
	if s.chance(30) {
		w.restartReplicas()
	}
	if len(w.computers) > 0 && s.chance(2) {
		c, requests := pick(s, w.computers), 1+s.rng.IntN(25)
		c.ignoreRequests(requests)
		s.note("the BMC of %s answers none of %d requests", c.name, requests)
	}
}

// next picks a point. Points of work and of agents are more likely than those of loops and
// requests.
func (w *world) next(points []*point) *point {
	work := slices.DeleteFunc(slices.Clone(points), func(p *point) bool { return p.info.Work == "" && p.replica != nil })
	if len(work) > 0 && w.sched.chance(60) {
		points = work
	}
	return pick(w.sched, points)
}

// decide gives a point its verdict.
func (w *world) decide(p *point) {
	v := w.sched.drawVerdict(p)
	if p.kind == atCommit && w.outage > 0 {
		w.outage--
		v = databaseUnavailable
	}
	switch {
	case v == crashBefore || v == crashAfter:
		w.noteUnknownCalls(p.replica)
	case p.info.Node != "" && (v == databaseUnavailable || v == rolledBack || v == answerLost && p.kind == atCommit):
		w.machines[p.info.Node].noteUnknown()
	case p.kind == atEffect && v != proceed && v != refused:
		w.machineOf(p).noteUnknown()
	}
	w.sched.release(p, v)
}

// noteUnknownCalls notes that a process dies that may be about to call machines.
func (w *world) noteUnknownCalls(r *replica) {
	for _, uuid := range w.nodes {
		if n, err := w.node(uuid); err != nil || n.Lease.Holder == r.name {
			w.machines[uuid].noteUnknown()
		}
	}
}

func (w *world) kill() {
	if r := w.drawReplica(); r != nil {
		w.sched.note("%s is killed", r.name)
		w.noteUnknownCalls(r)
		w.sched.noteFailure()
		r.die()
		w.sched.releaseAll(r)
	}
}

// stop ends a process in order.
func (w *world) stop() {
	if r := w.drawReplica(); r != nil {
		w.sched.note("%s is stopped", r.name)
		r.setStopping()
		go r.shutDown(time.Minute)
	}
}

// close ends everything and returns when no goroutine is left.
func (w *world) close() {
	w.sched.end()
	for _, r := range w.allReplicas() {
		r.die()
		<-r.stopped
	}
	time.Sleep(time.Hour) //nolint:forbidigo // time of a bubble, which passes by itself
	for _, c := range w.computers {
		c.close()
	}
	_ = w.db.Close()
}

// tempDir is the folder of the simulations' databases. It is in memory where possible, because
// power cuts are not simulated.
func tempDir() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}
