package simulate

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/store"
)

// setting is a setting or a medium that a client asks for. It becomes work that does not change the
// provision state.
type setting struct {
	what string
	kind store.WorkKind
	ask  func(ctx context.Context, r *replica, uuid string) error
	// effect and detail are what a fake machine is asked to do. onBMC reports whether a BMC has the
	// setting.
	effect fake.Kind
	detail string
	onBMC  func(*bmc.BMC) bool
	// shown reports whether the machine has the setting in its present boot; nil means that onBMC
	// tells that, too.
	shown func(*bmc.BMC) bool
	// onNode reports whether the node has the setting.
	onNode func(*node.Node) bool
}

// Kinds of work of settings, as rows have them.
const (
	bootModeWork   store.WorkKind = "boot mode"
	secureBootWork store.WorkKind = "secure boot"
	mediaWork      store.WorkKind = "virtual media"
)

// settingOperation is the suffix of the requests that are made for a setting or a vendor method.
const settingOperation = " change setting"

// requestSetting has a client ask for a setting.
func (w *world) requestSetting(r *replica, uuid string) {
	if w.speaksIPMI(uuid) {
		w.requestIPMI(r, uuid)
		return
	}
	v := w.drawSetting(uuid)
	w.sendRequest(r, &request{node: uuid, what: v.what, setting: v}, func(ctx context.Context) error { return v.ask(ctx, r, uuid) })
}

func (w *world) drawSetting(uuid string) *setting {
	s := w.sched
	switch s.rng.IntN(8) {
	case 0, 1:
		return bootModeSetting(pick(s, []string{"bios", "uefi"}))
	case 2, 3:
		return secureBootSetting(s.chance(50))
	case 4, 5:
		device := pick(s, []string{"cdrom", "cdrom", "floppy", "disk", "disk"})
		suffix := ".img"
		if device == "cdrom" {
			suffix = ".iso"
		}
		return attachedMedium(node.Medium{DeviceType: device, ImageURL: fmt.Sprintf("http://images/%s/%d%s", device, len(w.requests), suffix)})
	}
	last := w.last(uuid, func(q *request) bool {
		return q.setting != nil && q.setting.effect == fake.AttachMedium
	})
	if last != nil && s.chance(80) {
		return detachedMedia([]string{last.setting.detail})
	}
	return detachedMedia(pick(s, [][]string{nil, nil, {"cdrom"}, {"floppy"}, {"disk"}, {"cdrom", "floppy"}}))
}

func bootModeSetting(mode string) *setting {
	shown := map[string]bmc.Mode{"uefi": bmc.UEFI, "bios": bmc.Legacy}[mode]
	return &setting{
		what: "boot mode " + mode, kind: bootModeWork, effect: fake.Configure, detail: "boot mode " + mode,
		ask:    func(ctx context.Context, r *replica, uuid string) error { return r.SetBootMode(ctx, uuid, mode) },
		onBMC:  func(b *bmc.BMC) bool { return b.Override().Mode == shown },
		onNode: func(n *node.Node) bool { return n.BootMode == mode },
	}
}

func secureBootSetting(on bool) *setting {
	what := "secure boot " + strconv.FormatBool(on)
	return &setting{
		what: what, kind: secureBootWork, effect: fake.Configure, detail: what,
		ask:    func(ctx context.Context, r *replica, uuid string) error { return r.SetSecureBoot(ctx, uuid, on) },
		onBMC:  func(b *bmc.BMC) bool { return b.SecureBoot().Wanted == on },
		shown:  func(b *bmc.BMC) bool { return b.SecureBoot().Current == on },
		onNode: func(n *node.Node) bool { return n.SecureBoot != nil && *n.SecureBoot == on },
	}
}

func attachedMedium(medium node.Medium) *setting {
	return &setting{
		what: "attach " + medium.DeviceType, kind: mediaWork, effect: fake.AttachMedium, detail: medium.DeviceType,
		ask: func(ctx context.Context, r *replica, uuid string) error { return r.AttachMedium(ctx, uuid, medium) },
		onBMC: func(b *bmc.BMC) bool {
			return slices.ContainsFunc(b.Media(), func(m bmc.Medium) bool { return m.Image == medium.ImageURL })
		},
		onNode: func(*node.Node) bool { return true },
	}
}

func detachedMedia(devices []string) *setting {
	return &setting{
		what: strings.TrimSpace("detach " + strings.Join(devices, " and ")), kind: mediaWork, effect: fake.DetachMedia, detail: strings.Join(devices, ", "),
		ask: func(ctx context.Context, r *replica, uuid string) error { return r.DetachMedia(ctx, uuid, devices) },
		onBMC: func(b *bmc.BMC) bool {
			return !slices.ContainsFunc(b.Media(), func(m bmc.Medium) bool {
				return m.Image != "" && (len(devices) == 0 || slices.Contains(devices, deviceTypeOf(m.Image)))
			})
		},
		onNode: func(*node.Node) bool { return true },
	}
}

// deviceTypeOf is the device type under which an image was attached. The engine's own boot
// media are CDs.
func deviceTypeOf(image string) string {
	if rest, ok := strings.CutPrefix(image, "http://images/"); ok {
		return path.Dir(rest)
	}
	return "cdrom"
}

// followsFailure reports whether other is an earlier request for the same setting of the node, and
// has failed.
func (q *request) followsFailure(other *request) bool {
	mine, its := q.work, other.work
	return other.node == q.node && other.setting != nil && other.setting.kind == q.setting.kind && its.row != 0 && its.row < mine.row && its.ended && !its.done
}

// checkSetting checks work that went well: the machine must have the setting, and no later request
// for the same setting may have been done before. all are the requests for settings.
func (w *world) checkSetting(n *node.Node, q *request, all []*request) {
	m, c, v := w.machines[n.UUID], w.computerOf(n.UUID), q.setting
	var brought bool
	switch {
	case n.Driver == "manual-management": // nothing can be done to it
	case c != nil:
		// If the outcome of an earlier change is unknown, an iDRAC does not show what the job of
		// that change will make of the setting: docs/redfish.md.
		brought = v.onBMC(c.bmc) || v.kind == bootModeWork && c.deceived(q.work.key) ||
			v.shown != nil && v.shown(c.bmc) && slices.ContainsFunc(all, q.followsFailure)
	default:
		brought = m.carriedOut(v.effect, v.detail, q.work.key)
	}
	if !brought {
		w.violated("%s: request %d (%s) is said to have gone well, and the machine knows of none", m.name, q.id, q.what)
	}
	if !v.onNode(n) {
		w.violated("%s: request %d (%s) is said to have gone well, and the node does not have it", m.name, q.id, q.what)
	}
	for _, later := range all {
		if later.node == q.node && later.setting != nil && later.setting.kind == v.kind && later.work.row > q.work.row && later.work.done {
			w.violated("%s: request %d (%s) is done after request %d (%s), which came later", m.name, q.id, q.what, later.id, later.what)
		}
	}
}

// carriedOut reports whether a machine has had an effect for a row of work, see requestedWork. An
// empty kind or detail fits all. A fake machine must also have come to its end.
func (m *machine) carriedOut(kind fake.Kind, detail, key string) bool {
	tells := m.w.computerOf(m.uuid) == nil
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.log, func(e effect) bool {
		return (kind == "" || e.kind == kind) && (detail == "" || e.detail == detail) && strings.HasPrefix(e.origin.Request, key) &&
			(!tells || m.taskOf(e.origin.Request).State == fake.Done)
	})
}

// deceive notes that the BMC lies about a request.
func (m *machine) deceive(request string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lies, m.lied = append(m.lies, request), append(m.lied, time.Now())
}

// deceived reports whether the BMC has lied about a request with this prefix. Then nobody can tell
// whether a machine that is off will boot in another mode.
func (m *machine) deceived(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.lies, func(request string) bool { return strings.HasPrefix(request, key) })
}

// repeats reports whether an effect of a setting or a vendor method begins again although the
// engine can know that it has begun. A fake machine can tell. With a BMC, the engine can know if
// nothing has left the outcome unknown. The caller holds the lock.
func (m *machine) repeats(e effect) bool {
	if !strings.HasSuffix(e.origin.Request, settingOperation) || slices.Contains(powerEffects, e.kind) {
		return false
	}
	tells := m.w.computerOf(m.uuid) == nil
	return slices.ContainsFunc(m.log, func(o effect) bool {
		return o.kind == e.kind && o.detail == e.detail && o.origin.Request == e.origin.Request && !m.w.forgotten(m, o.at) &&
			(tells || !anyWithin(m.unsure, o.at, e.at))
	})
}

// powerEffects are effects that may be needed several times until the machine has a setting.
var powerEffects = append([]fake.Kind{fake.PowerOn}, powerKinds...)
