package simulate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// raidEvery says that one in this many runs with computers is about their RAID volumes.
const raidEvery = 3

// Names of the RAID steps.
const (
	createVolumes = "create_configuration"
	deleteVolumes = "delete_configuration"
	applyVolumes  = "apply_configuration"
)

// raidController is what a run keeps of the volumes of a machine.
type raidController struct {
	enabled bool // the engine makes the volumes, through Redfish
	mu      sync.Mutex
	// unknown has, for requests whose answer never came, when that was. It has none of those after
	// which the BMC has shown its volumes.
	unknown map[string]time.Time
	targets []target // that clients have asked for
}

// target is a configuration that a client has asked for, and when.
type target struct {
	at     time.Time
	config node.Object
}

// targetsSince returns the configurations that clients have asked for since then.
func (c *raidController) targetsSince(begin time.Time) (configs []node.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.targets {
		if !t.at.Before(begin) {
			configs = append(configs, t.config)
		}
	}
	return configs
}

// makesVolumes reports whether the run is about RAID volumes.
func (w *world) makesVolumes() bool {
	return w.seed%computersEvery == 0 && w.drawn("run", "raid")%raidEvery == 0
}

// addRAID lets the engine make the volumes of a machine with a BMC in such a run. Some machines have
// a volume already, unless their controller makes none at once.
func (w *world) addRAID(c *computer, n *node.Node) {
	if !w.makesVolumes() {
		return
	}
	c.raid.enabled, c.raid.unknown = true, map[string]time.Time{}
	n.ProvisionState, n.Interfaces[node.RAIDInterface] = node.Manageable, "redfish"
	if c.drawn("state", 0)%5 == 0 {
		n.ProvisionState = node.Available
	}
	if c.drawn("volume", 0)%3 != 0 {
		old := bmc.Volume{Name: "old", RAIDType: "RAID0", Drives: []int{1}, Capacity: 50 << 30}
		_, _, _ = c.bmc.CreateVolume(&bmc.Call{}, old, bmc.Immediate)
		for _, e := range c.recorder.Effects(c.name, 0) {
			c.lastSequence = e.Sequence
		}
	}
}

// logicalDisks draws the volumes that a client wants. No two have the same name.
func (w *world) logicalDisks() node.Object {
	var disks []any
	for i := range 1 + w.sched.rng.IntN(2) {
		d := pick(w.sched, []map[string]any{
			{"size_gb": 20, "raid_level": "1"},
			{"size_gb": 30, "raid_level": "0", "number_of_physical_disks": 1},
			{"size_gb": "MAX", "raid_level": "0", "number_of_physical_disks": 1},
			{"size_gb": 40, "raid_level": "0", "number_of_physical_disks": 1, "share_physical_disks": true},
		})
		d["volume_name"] = fmt.Sprintf("volume-%d-%d", len(w.requests), i)
		d["is_root_volume"] = i == 0
		disks = append(disks, d)
	}
	return node.ObjectOf(map[string]any{"logical_disks": disks})
}

// raidSteps draws the RAID steps of a cleaning.
func (w *world) raidSteps() []node.Step {
	create, remove := node.Step{Interface: "raid", Step: createVolumes}, node.Step{Interface: "raid", Step: deleteVolumes}
	replace := node.Step{Interface: "raid", Step: createVolumes, Args: map[string]any{"delete_existing": true}}
	return slices.Clone(pick(w.sched, [][]node.Step{{create}, {create}, {replace}, {replace}, {remove}, {remove, create}}))
}

// raidDeployment draws the RAID steps of a deployment.
func (w *world) raidDeployment() []node.Step {
	return []node.Step{{Interface: "raid", Step: applyVolumes, Priority: 150, Args: map[string]any{
		"raid_config": w.logicalDisks().Values(), "create_nonroot_volumes": true, "delete_existing": w.sched.chance(70),
	}}}
}

// setVolumes has a client set the wanted volumes of a node, before it requests steps that make
// them.
func (w *world) setVolumes(ctx context.Context, r *replica, uuid string, config node.Object) error {
	c := w.computerOf(uuid)
	c.raid.mu.Lock()
	c.raid.targets = append(c.raid.targets, target{time.Now(), config})
	c.raid.mu.Unlock()
	return r.SetRAIDConfig(runner.WithInfo(ctx, &runner.Info{Task: "target_raid_config"}), uuid, config)
}

// volumeKinds are the effects of requests for volumes.
var volumeKinds = []fake.Kind{fake.Kind(bmc.CreateVolume), fake.Kind(bmc.DeleteVolume)}

// changesVolumesAgain reports whether an effect makes or deletes a volume a second time for the same
// request. The caller holds the lock.
func (m *machine) changesVolumesAgain(e effect) bool {
	return slices.Contains(volumeKinds, e.kind) && slices.ContainsFunc(m.log, func(o effect) bool {
		return o.kind == e.kind && o.detail == e.detail && o.origin.Request == e.origin.Request && !m.w.lostByRestore(m, o.at)
	})
}

// noteVolumes notes whether the engine can know the outcome of a request for a volume. No BMC got
// one whose connection was refused.
func (c *computer) noteVolumes(q *bmcRequest, answer *http.Response, err error) {
	if !c.raid.enabled || !strings.Contains(q.URL.Path, "/Volumes") || q.origin.Request == "" {
		return
	}
	c.raid.mu.Lock()
	defer c.raid.mu.Unlock()
	switch {
	case err == nil && (q.changes || answer.StatusCode < http.StatusBadRequest):
		delete(c.raid.unknown, q.origin.Request)
	case q.changes && !errors.Is(err, errConnRefused):
		c.raid.unknown[q.origin.Request] = time.Now()
	}
}

// volumesAfter returns the volumes that RAID steps are to leave when these are the target, and
// whether they can have left what a machine has.
func volumesAfter(steps []node.Step, target node.Object, has []string) (wanted []string, leaves bool) {
	exact := false
	for _, step := range steps {
		if step.Interface != "raid" {
			continue
		}
		if step.Step == deleteVolumes || step.Args["delete_existing"] == true {
			wanted, exact = nil, true
		}
		switch step.Step {
		case createVolumes:
			wanted = append(wanted, volumeNames(target)...)
		case applyVolumes:
			given, _ := step.Args["raid_config"].(map[string]any)
			wanted = append(wanted, volumeNames(node.ObjectOf(given))...)
		}
	}
	slices.Sort(wanted)
	missing := slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(has, name) })
	return wanted, !missing && (!exact || slices.Equal(wanted, has))
}

// checkVolumes checks RAID steps that went well: the machine must have the volumes that they were to
// leave, and the node must show these. A step plans its volumes when it begins, and clients may set
// others before it ends.
func (w *world) checkVolumes(n *node.Node, c *computer, q *request) {
	if !slices.ContainsFunc(q.steps, func(s node.Step) bool { return s.Interface == "raid" }) {
		return
	}
	var has []string
	for _, v := range c.bmc.Volumes() {
		has = append(has, v.Name)
	}
	slices.Sort(has)
	wanted, leaves := volumesAfter(q.steps, n.TargetRAIDConfig, has)
	for _, target := range c.raid.targetsSince(q.sentAt) {
		_, left := volumesAfter(q.steps, target, has)
		leaves = leaves || left
	}
	if !leaves {
		w.violated("%s: request %d (%s) is said to have gone well, and the machine has the volumes %q, not %q", n.Name, q.id, q.name, has, wanted)
	}
	shown := volumeNames(n.RAIDConfig)
	slices.Sort(shown)
	if !slices.Equal(shown, has) {
		w.violated("%s: request %d (%s) has gone well, and raid_config has the volumes %q, the machine %q", n.Name, q.id, q.name, shown, has)
	}
}

// volumeNames returns the names of the volumes of a configuration.
func volumeNames(config node.Object) (names []string) {
	var disks []struct {
		Name string `json:"volume_name"`
	}
	config.Get("logical_disks", &disks)
	for _, d := range disks {
		names = append(names, d.Name)
	}
	return names
}

// checkUnknownVolumes checks work that has failed: if the outcome of its last request for a volume
// is unknown, its error must say so.
func (w *world) checkUnknownVolumes(n *node.Node, q *request, events newEvents) {
	c := w.computerOf(n.UUID)
	if c == nil || !c.raid.enabled {
		return
	}
	c.raid.mu.Lock()
	defer c.raid.mu.Unlock()
	for request, at := range c.raid.unknown {
		lost := at.Before(w.restoration.restoredAt) // with the database that was replaced
		if !lost && strings.HasPrefix(request, q.work.key) && !events.contains(node.SeverityError, "outcome unknown") {
			w.violated("%s: request %d (%s) has failed, nobody can know what became of %s, and the error does not say so: %s", n.Name, q.id, q.name, request, n.LastError)
		}
	}
}

// contains reports whether one of the events contains a text.
func (s newEvents) contains(severity node.Severity, text string) bool {
	return slices.ContainsFunc(s, func(e *node.Event) bool { return e.Severity == severity && strings.Contains(e.Message, text) })
}
