//go:build fault

package fault_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
	"github.com/ingot-metal/ingot/internal/store/storetest"
	"github.com/ingot-metal/ingot/test/process"
)

// life is a machine on its way from its registration through an instance and back, an engine that
// is killed now and then, and the person who makes all requests.
type life struct {
	t       *testing.T
	shape   shape
	engine  *killableEngine
	api     api // of the engine
	boot    string
	machine *lifeMachine
	uuid    string

	image    lifeImage
	setting  biosSetting
	files    map[string]string // URL of the firmware file, by component
	attempts []*attempt
	unknown  []string  // sentences that said that the outcome is unknown
	byHand   bool      // only a person can start the machine
	waits    time.Time // since when the engine waits for a person
	began    time.Time
	notes    []string
}

// attempt is one accepted request, with what is compared with the machine's log.
type attempt struct {
	what         string
	since, until int64          // sequence numbers of effects
	most         map[string]int // how often effects of a kind may happen in it; never, if the kind is absent
	failed       string         // the sentence of the failure; empty if it went well
}

// Bounds of a life.
const (
	stateWithin  = 6 * time.Minute // how long a node may take to rest; looking for a lost update takes two
	mostAttempts = 8               // how often the same is asked for before the test gives up
)

// lifeSettings are the settings of every engine that is killed.
var lifeSettings = []string{
	"conductor.lease_duration=6s", "conductor.call_timeout=3s", "conductor.callback_timeout=75s", "conductor.automated_clean=true",
	"conductor.power_timeout=20s", "agent.verify_callback_address=false", "agent.heartbeat_timeout=30s",
	"inspector.require_managed_boot=false", "auto_discovery.driver=manual-management",
}

// startLife starts everything.
func startLife(t *testing.T, s shape, points []killPoint) *life {
	t.Helper()
	l := &life{t: t, shape: s, uuid: uuid.NewString(), began: time.Now(), files: map[string]string{}, image: serveLifeImage(t), byHand: s.discovered}
	network := newLifeNetwork()
	l.boot = "http://" + network.boot()
	settings := append(slices.Clone(lifeSettings), "api.public_url=http://"+network.api(),
		"boot.listen="+network.boot(), "boot.public_url="+l.boot, "boot.kernel="+redfishtest.Serve(t, "the kernel"),
		"boot.ramdisk="+redfishtest.Serve(t, "the ramdisk"), "boot.boot_loader="+redfishtest.Serve(t, strings.Repeat("an EFI system partition ", 100)))
	if s.discovered {
		settings = append(settings, "auto_discovery.enabled=true")
	}
	if s.vendor != "" {
		l.setting = changeableSettings(s.vendor)[0]
	}
	database := ""
	if s.postgres {
		database = storetest.Postgres(t)
	}
	settings = append(settings, "database.dir="+t.TempDir())
	l.api = newAPI(network.api(), waitTimeout)
	l.engine = startKillableEngine(t, network.api(), database, points, settings...)
	l.machine = startLifeMachine(t, s, network)
	if s.discovered && s.vendor != "" {
		l.machine.bootByHand()
	}
	for i, component := range s.updates {
		l.files[component] = redfishtest.Serve(t, fmt.Sprintf("ingot-firmware component=%s version=%s", component, wantedVersion(i)))
	}
	t.Cleanup(func() {
		if t.Failed() {
			effects, _ := l.machine.effects(0)
			t.Logf("what the person did:\n%s\nwhat was done to the machine:\n%s\nthe machine: %+v", strings.Join(l.notes, "\n"), describeEffects(effects), l.machine.observe())
		}
	})
	return l
}

func wantedVersion(i int) string { return fmt.Sprintf("99.%d", i) }

// note writes down what the person did.
func (l *life) note(format string, args ...any) {
	l.notes = append(l.notes, time.Now().Format(clockTime)+" "+fmt.Sprintf(format, args...))
}

// live leads the machine through everything.
func (l *life) live() {
	l.t.Helper()
	l.register()
	l.verb("enroll", "manage", "manageable", nil)
	if l.shape.vendor != "" { // the others were inspected when they were discovered
		l.verb("manageable", "inspect", "manageable", nil)
	}
	l.verb("manageable", "provide", "available", map[string]int{effect.Wipe: 1})
	l.patch(l.image.instance)
	l.verb("available", "active", "active", map[string]int{effect.Write: 1})
	l.runs()
	l.serve()
	l.runs()
	l.verb("active", "deleted", "available", map[string]int{effect.Wipe: 1})
	l.checkEnd()
}

// register creates the node, or waits until the engine has discovered the machine.
func (l *life) register() {
	l.t.Helper()
	seen := l.machine.observe()
	if l.shape.vendor == "" {
		process.Eventually(l.t, stateWithin, "the machine to be discovered", func() bool {
			l.engine.check()
			var list struct{ Nodes []shownNode }
			if l.api.read("/v1/nodes", &list) != nil || len(list.Nodes) != 1 {
				return false
			}
			l.uuid = list.Nodes[0].UUID
			return true
		})
		return
	}
	address, err := url.Parse(seen.URL)
	if err != nil {
		l.t.Fatal(err)
	}
	access := map[string]map[string]any{
		"redfish": {"redfish_address": seen.URL, "redfish_verify_ca": l.machine.authority, "redfish_username": bmcUser, "redfish_password": bmcPassword},
		"ipmi":    {"ipmi_address": address.Hostname(), "ipmi_port": 6230, "ipmi_username": bmcUser, "ipmi_password": bmcPassword},
	}[l.shape.driver]
	l.insist(http.MethodPost, "/v1/nodes", map[string]any{
		"uuid": l.uuid, "name": l.shape.name, "driver": l.shape.driver, "boot_interface": l.shape.boot, "inspect_interface": "agent", "driver_info": access,
	}, http.StatusCreated, http.StatusConflict)
	l.insist(http.MethodPost, "/v1/ports", map[string]any{"node_uuid": l.uuid, "address": seen.BootMAC}, http.StatusCreated, http.StatusConflict)
}

// insist repeats a request until its answer is one of those wanted. A status that is fine only
// after an answer was lost comes second.
func (l *life) insist(method, path string, body any, want ...int) {
	l.t.Helper()
	process.Eventually(l.t, stateWithin, method+" "+path, func() bool {
		l.engine.check()
		status, answer, err := l.api.ask(method, path, body)
		busy := status == http.StatusConflict && !slices.Contains(want, status) || status == http.StatusServiceUnavailable
		switch {
		case err != nil, busy:
			return false
		case !slices.Contains(want, status):
			l.t.Fatalf("%s %s: %d %s", method, path, status, answer)
		}
		return true
	})
}

func (l *life) patch(patch string) {
	l.t.Helper()
	l.insist(http.MethodPatch, "/v1/nodes/"+l.uuid, json.RawMessage(patch), http.StatusOK)
}

// lifeNode is the node as the person sees it.
type lifeNode struct {
	State       string         `json:"provision_state"`
	LastError   string         `json:"last_error"`
	Power       string         `json:"power_state"`
	Maintenance bool           `json:"maintenance"`
	Fault       string         `json:"fault"`
	Holder      *string        `json:"reservation"`
	Internal    map[string]any `json:"driver_internal_info"`
}

// show reads the node, for as long as it takes.
func (l *life) show() (n lifeNode) {
	l.t.Helper()
	process.Eventually(l.t, stateWithin, "the node to be shown", func() bool {
		l.engine.check()
		n = lifeNode{}
		return l.api.read("/v1/nodes/"+l.uuid, &n) == nil
	})
	return n
}

// verb asks for a verb until the node is where it should be. most is how often one request may have
// each effect.
func (l *life) verb(from, verb, to string, most map[string]int) {
	l.t.Helper()
	for range mostAttempts {
		if from = l.attempt(from, verb, to, nil, most); from == to {
			return
		}
	}
	l.t.Fatalf("%s: given up after %d requests", verb, mostAttempts)
}

// attempt asks for a verb once, and does what the sentence of a failure says. It returns the state
// of the node then.
func (l *life) attempt(from, verb, to string, more map[string]any, most map[string]int) (state string) {
	l.t.Helper()
	l.begin(from, verb, more, most)
	n, a := l.rest(to), l.attempts[len(l.attempts)-1]
	_, a.until = l.machine.effects(0)
	if n.State == to {
		return to
	}
	a.failed = n.LastError
	l.understand(verb, n)
	return l.recover(n)
}

// begin asks for a verb until it is accepted. If there is no answer, the state tells whether it
// was.
func (l *life) begin(from, verb string, more map[string]any, most map[string]int) {
	l.t.Helper()
	_, since := l.machine.effects(0)
	l.attempts = append(l.attempts, &attempt{what: verb, since: since, most: most})
	body := map[string]any{"target": verb}
	for key, value := range more {
		body[key] = value
	}
	lost := false
	process.Eventually(l.t, stateWithin, verb+" to be accepted", func() bool {
		if n := l.show(); lost && n.State != from {
			l.note("%s was accepted without an answer: the node is in %q", verb, n.State)
			return true
		}
		status, answer, err := l.api.ask(http.MethodPut, "/v1/nodes/"+l.uuid+"/states/provision", body)
		switch {
		case err != nil || status >= http.StatusInternalServerError:
			lost = true
			return false
		case status == http.StatusConflict:
			return false
		case status != http.StatusAccepted:
			l.t.Fatalf("%s in %q: %d %s", verb, from, status, answer)
		}
		l.note("%s is accepted", verb)
		return true
	})
}

// rest waits until the node rests. It starts a machine by hand that nobody else can start.
func (l *life) rest(to string) (n lifeNode) {
	l.t.Helper()
	last := ""
	process.Eventually(l.t, stateWithin, "the node to be "+to, func() bool {
		n = l.show()
		if n.State != last {
			last = n.State
			l.note("the node is in %q (%s)", n.State, n.LastError)
		}
		l.startByHand(n)
		return n.Holder == nil && (n.State == to || resting(n.State))
	})
	return n
}

// startByHand starts the machine when nobody else does.
func (l *life) startByHand(n lifeNode) {
	l.t.Helper()
	switch {
	case !l.needsAStart(n):
		l.waits = time.Time{}
	case l.waits.IsZero():
		l.waits = time.Now()
	case time.Since(l.waits) > time.Second:
		l.note("the machine is started by hand")
		l.machine.bootByHand()
		l.waits = time.Time{}
	}
}

// needsAStart reports whether the engine waits for a ramdisk that only a person can start.
func (l *life) needsAStart(n lifeNode) bool {
	return l.byHand && strings.HasSuffix(n.State, " wait") && n.Internal["agent_url"] == nil && !l.machine.observe().inRamdisk()
}

// resting reports whether nothing more happens in a state.
func resting(state string) bool {
	return state == "enroll" || state == "error" || strings.HasSuffix(state, "failed")
}

// understand fails the test if the sentence of a failure does not say that the outcome is unknown.
func (l *life) understand(verb string, n lifeNode) {
	l.t.Helper()
	l.note("%s has failed: %s", verb, n.LastError)
	if !strings.Contains(n.LastError, "unknown") {
		l.t.Fatalf("%s has led to %q: %s", verb, n.State, n.LastError)
	}
	l.unknown = append(l.unknown, n.LastError)
}

// recover does what the sentences of failures say: it looks at the machine, waits for what still
// happens there, and brings the node into a state in which the verb can be asked for again. It
// returns that state.
func (l *life) recover(n lifeNode) (state string) {
	l.t.Helper()
	process.Eventually(l.t, stateWithin, "the firmware to be written", func() bool { return len(l.machine.observe().Writing) == 0 })
	if n.Maintenance {
		l.insist(http.MethodDelete, "/v1/nodes/"+l.uuid+"/maintenance", nil, http.StatusAccepted)
	}
	if n.State != "clean failed" {
		return n.State
	}
	l.begin(n.State, "manage", nil, nil)
	l.rest("manageable")
	return "manageable"
}

// runs waits until the machine runs its image.
func (l *life) runs() {
	l.t.Helper()
	process.Eventually(l.t, stateWithin, "the machine to run its image", func() bool {
		now := l.machine.observe()
		return now.State == sim.OS && now.System.Image.Checksum == l.image.checksum
	})
	l.checkNothingServed()
}

// lifeImage is an image that a server has.
type lifeImage struct {
	url, checksum string
	instance      string // JSON patch of a node that is to get it
}

func serveLifeImage(t *testing.T) lifeImage {
	t.Helper()
	content := bytes.Repeat([]byte{0}, 1<<20)
	content[510], content[511] = 0x55, 0xaa
	sum := sha256.Sum256(content)
	image := lifeImage{url: redfishtest.Serve(t, string(content)), checksum: hex.EncodeToString(sum[:])}
	image.instance = fmt.Sprintf(`[{"op": "add", "path": "/instance_info", "value": {"image_source": %q, "image_disk_format": "raw",
		"image_os_hash_algo": "sha256", "image_os_hash_value": %q, "configdrive": {"meta_data": {"name": "server-7"}}}}]`, image.url, image.checksum)
	return image
}
