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

// setting is a setting or a medium that a client requests. It becomes work that does not change the
// provision state.
type setting struct {
	name string
	kind store.WorkKind
	send func(ctx context.Context, r *replica, uuid string) error
	// effect and detail are the request to a fake machine. onBMC reports whether a BMC has the
	// setting.
	effect fake.Kind
	detail string
	onBMC  func(*bmc.BMC) bool
	// inBoot reports whether the machine has the setting in its present boot; nil means that onBMC
	// reports that, too.
	inBoot func(*bmc.BMC) bool
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

// requestSetting has a client request a setting.
func (w *world) requestSetting(r *replica, uuid string) {
	if w.usesIPMI(uuid) {
		w.requestIPMI(r, uuid)
		return
	}
	v := w.drawSetting(uuid)
	w.sendRequest(r, &request{node: uuid, name: v.name, setting: v}, func(ctx context.Context) error { return v.send(ctx, r, uuid) })
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
		name: "boot mode " + mode, kind: bootModeWork, effect: fake.Configure, detail: "boot mode " + mode,
		send:   func(ctx context.Context, r *replica, uuid string) error { return r.SetBootMode(ctx, uuid, mode) },
		onBMC:  func(b *bmc.BMC) bool { return b.Override().Mode == shown },
		onNode: func(n *node.Node) bool { return n.BootMode == mode },
	}
}

func secureBootSetting(on bool) *setting {
	name := "secure boot " + strconv.FormatBool(on)
	return &setting{
		name: name, kind: secureBootWork, effect: fake.Configure, detail: name,
		send:   func(ctx context.Context, r *replica, uuid string) error { return r.SetSecureBoot(ctx, uuid, on) },
		onBMC:  func(b *bmc.BMC) bool { return b.SecureBoot().Wanted == on },
		inBoot: func(b *bmc.BMC) bool { return b.SecureBoot().Current == on },
		onNode: func(n *node.Node) bool { return n.SecureBoot != nil && *n.SecureBoot == on },
	}
}

func attachedMedium(medium node.Medium) *setting {
	return &setting{
		name: "attach " + medium.DeviceType, kind: mediaWork, effect: fake.AttachMedium, detail: medium.DeviceType,
		send: func(ctx context.Context, r *replica, uuid string) error { return r.AttachMedium(ctx, uuid, medium) },
		onBMC: func(b *bmc.BMC) bool {
			return slices.ContainsFunc(b.Media(), func(m bmc.Medium) bool { return m.Image == medium.ImageURL })
		},
		onNode: func(*node.Node) bool { return true },
	}
}

func detachedMedia(devices []string) *setting {
	return &setting{
		name: strings.TrimSpace("detach " + strings.Join(devices, " and ")), kind: mediaWork, effect: fake.DetachMedia, detail: strings.Join(devices, ", "),
		send: func(ctx context.Context, r *replica, uuid string) error { return r.DetachMedia(ctx, uuid, devices) },
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
	return other.node == q.node && other.setting != nil && other.setting.kind == q.setting.kind && its.row != 0 && its.row < mine.row && its.ended && !its.succeeded
}

// checkSetting checks work that went well: the machine must have the setting, and no later request
// for the same setting may have been done before. all are the requests for settings.
func (w *world) checkSetting(n *node.Node, q *request, all []*request) {
	m, c, v := w.machines[n.UUID], w.computerOf(n.UUID), q.setting
	var applied bool
	switch {
	case n.Driver == "manual-management": // nothing can be done to it
	case c != nil:
		// If the outcome of an earlier change is unknown, an iDRAC does not show what the job of
		// that change will make of the setting: docs/redfish.md.
		applied = v.onBMC(c.bmc) || v.kind == bootModeWork && c.liedAbout(q.work.key) ||
			v.inBoot != nil && v.inBoot(c.bmc) && slices.ContainsFunc(all, q.followsFailure)
	default:
		applied = m.carriedOut(v.effect, v.detail, q.work.key)
	}
	if !applied {
		w.violated("%s: request %d (%s) is said to have gone well, and the machine knows of none", m.name, q.id, q.name)
	}
	if !v.onNode(n) {
		w.violated("%s: request %d (%s) is said to have gone well, and the node does not have it", m.name, q.id, q.name)
	}
	for _, later := range all {
		if later.node == q.node && later.setting != nil && later.setting.kind == v.kind && later.work.row > q.work.row && later.work.succeeded {
			w.violated("%s: request %d (%s) is done after request %d (%s), which came later", m.name, q.id, q.name, later.id, later.name)
		}
	}
}

// carriedOut reports whether a machine has had an effect for a row of work, see requestedWork. An
// empty kind or detail fits all. A fake machine must also have come to its end.
func (m *machine) carriedOut(kind fake.Kind, detail, key string) bool {
	isFake := m.w.computerOf(m.uuid) == nil
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.log, func(e effect) bool {
		return (kind == "" || e.kind == kind) && (detail == "" || e.detail == detail) && strings.HasPrefix(e.origin.Request, key) &&
			(!isFake || m.taskOf(e.origin.Request).State == fake.Done)
	})
}

// noteLie notes that the BMC lies about a request.
func (m *machine) noteLie(request string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lieRequests, m.lieTimes = append(m.lieRequests, request), append(m.lieTimes, time.Now())
}

// liedAbout reports whether the BMC has lied about a request with this prefix. Then nobody can know
// whether a machine that is off will boot in another mode.
func (m *machine) liedAbout(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.lieRequests, func(request string) bool { return strings.HasPrefix(request, key) })
}

// repeatsKnownEffect reports whether an effect of a setting or a vendor method begins again
// although the engine can know that it has begun. A fake machine reports all requests. With a BMC,
// the engine can know if nothing has left the outcome unknown. The caller holds the lock.
func (m *machine) repeatsKnownEffect(e effect) bool {
	if !strings.HasSuffix(e.origin.Request, settingOperation) || slices.Contains(powerEffects, e.kind) {
		return false
	}
	isFake := m.w.computerOf(m.uuid) == nil
	return slices.ContainsFunc(m.log, func(o effect) bool {
		return o.kind == e.kind && o.detail == e.detail && o.origin.Request == e.origin.Request && !m.w.lostByRestore(m, o.at) &&
			(isFake || !anyWithin(m.unknownAt, o.at, e.at))
	})
}

// powerEffects are effects that may be needed several times until the machine has a setting.
var powerEffects = append([]fake.Kind{fake.PowerOn}, powerKinds...)
