package host

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

// updateObjects are the objects that have the name of a host and say what its BIOS
// settings and firmware should be. Those that do not exist are nil.
type updateObjects struct {
	settings   *v1alpha1.HostFirmwareSettings
	components *v1alpha1.HostFirmwareComponents
	policy     *v1alpha1.HostUpdatePolicy
}

// read reads the objects from the shared cache and compares them with what the machine was given.
func (u updater) read(ctx context.Context, h *v1alpha1.BareMetalHost) (changes, error) {
	objects, err := u.objects(ctx, h)
	c := changesOf(objects, h)
	c.settings.keepRecord(&h.Status.Updates.Settings)
	c.components.keepRecord(&h.Status.Updates.Components)
	return c, err
}

func (u updater) objects(ctx context.Context, h *v1alpha1.BareMetalHost) (updateObjects, error) {
	settings, components, policy := &v1alpha1.HostFirmwareSettings{}, &v1alpha1.HostFirmwareComponents{}, &v1alpha1.HostUpdatePolicy{}
	var found updateObjects
	for _, o := range []struct {
		kind  string
		into  client.Object
		found func()
	}{
		{"HostFirmwareSettings", settings, func() { found.settings = settings }},
		{"HostFirmwareComponents", components, func() { found.components = components }},
		{"HostUpdatePolicy", policy, func() { found.policy = policy }},
	} {
		err := u.client.Get(ctx, client.ObjectKeyFromObject(h), o.into)
		switch {
		case err == nil:
			o.found()
		case !apierrors.IsNotFound(err):
			return updateObjects{}, fmt.Errorf("read %s %s: %w", o.kind, h.Name, err)
		}
	}
	return found, nil
}

// changeState is what an object asks for, compared with what the machine has.
type changeState int

const (
	changeNone    changeState = iota // nothing, or what the machine has
	changeUnseen                     // something that nobody has compared yet
	changeInvalid                    // something that the machine cannot have
	changeWanted                     // something that has to be applied
)

// change is what one object asks for.
type change struct {
	kind       string
	uid        types.UID
	generation int64
	// digest identifies what the object asks for.
	digest string
	state  changeState
	// problem says why the change is invalid.
	problem string
	// record says what the machine was given of this object; it is empty for another one.
	record v1alpha1.UpdateRecord
	// replaced is true when the engine was asked to apply an object that has been deleted since,
	// and another object has its name now.
	replaced bool
	// permitted is true when the policy allows to apply the change to a machine in use. withdrawn
	// is true when the change needs that permission and does not have it.
	permitted, withdrawn bool
}

// requested reports whether the engine was asked to apply some version of the object, and that has
// failed or its end is not known.
func (c change) requested() bool { return c.record.Requested != 0 }

// version returns the generation that has to be applied, 0 for none. A requested generation has to
// be applied until somebody has looked at a newer one: a machine that was given a part of a change
// does not show a difference in that part any more.
func (c change) version() int64 {
	switch {
	case c.withdrawn:
		return 0
	case c.requested() && (c.generation == c.record.Requested || c.state == changeUnseen):
		return c.record.Requested
	case c.state == changeWanted:
		return c.generation
	default:
		return 0
	}
}

// ready reports whether the newest version of the object has to be applied.
func (c change) ready() bool {
	return c.version() != 0 && c.version() == c.generation && c.state != changeUnseen
}

// kept reports whether what was requested is still what has to be applied.
func (c change) kept() bool {
	return !c.replaced && (!c.requested() || c.version() == c.record.Requested)
}

// settingsChange returns what HostFirmwareSettings asks for.
func settingsChange(u updateObjects, h *v1alpha1.BareMetalHost) change {
	c := change{kind: "HostFirmwareSettings", record: h.Status.Updates.Settings}
	if u.policy != nil {
		c.permitted = u.policy.Spec.FirmwareSettings == v1alpha1.UpdateOnReboot
	}
	if u.settings == nil {
		return c // what was requested of it is not wanted any more
	}
	c.digest = fingerprint(u.settings.Spec.Settings)
	return c.of(u.settings, u.settings.Status.Conditions, len(u.settings.Spec.Settings) == 0)
}

// componentsChange returns what HostFirmwareComponents asks for. The updates that were begun last
// do not count as new, even before somebody has compared them.
func componentsChange(u updateObjects, h *v1alpha1.BareMetalHost) change {
	c := change{kind: "HostFirmwareComponents", record: h.Status.Updates.Components}
	if u.policy != nil {
		c.permitted = u.policy.Spec.FirmwareUpdates == v1alpha1.UpdateOnReboot
	}
	if u.components == nil {
		return c // what was requested of it is not wanted any more
	}
	updates := u.components.Spec.Updates
	c.digest = fingerprint(updates)
	return c.of(u.components, u.components.Status.Conditions, len(updates) == 0 || slices.Equal(updates, u.components.Status.Updates))
}

// of completes a change from its object. clean reports that the object asks for nothing new,
// whatever its conditions say.
func (c change) of(obj client.Object, conditions []metav1.Condition, clean bool) change {
	c.uid, c.generation = obj.GetUID(), obj.GetGeneration()
	switch {
	case c.record.UID == c.uid:
	case c.movedApplied():
		c.record.UID, c.record.Applied = c.uid, c.generation
	default:
		c.replaced, c.record = c.requested(), v1alpha1.UpdateRecord{}
	}
	valid, changed := meta.FindStatusCondition(conditions, v1alpha1.ValidCondition), meta.FindStatusCondition(conditions, v1alpha1.ChangeDetectedCondition)
	switch {
	case clean:
		c.state = changeNone
	case !seen(valid, c.generation), !seen(changed, c.generation):
		c.state = changeUnseen
	case valid.Status != metav1.ConditionTrue:
		c.state, c.problem = changeInvalid, valid.Message
	case changed.Status == metav1.ConditionTrue && c.record.Applied != c.generation:
		c.state = changeWanted
	}
	return c
}

// movedApplied reports whether the object came with its host from another cluster, where the
// machine was given what it asks for.
func (c change) movedApplied() bool {
	return isMoved(c.record) && c.digest != "" && c.record.AppliedDigest == c.digest && !isOpen(c.record)
}

// keepRecord keeps in a host's record what a move of the host needs: that an object which came from
// another cluster is that of the record, so that its next generation is a new one, and that what an
// object asks for has to be applied, although the machine was given the same before.
func (c change) keepRecord(record *v1alpha1.UpdateRecord) {
	if isMoved(*record) && c.record.Applied != 0 {
		*record = c.record
	}
	if c.state == changeWanted {
		record.AppliedDigest = ""
	}
}

// isMoved reports whether a record is of an object in the cluster that the host came from.
func isMoved(record v1alpha1.UpdateRecord) bool { return record.UID == "" }

// isOpen reports whether the engine was asked to apply a version of an object, here or in the
// cluster that the host came from, and that has failed or its end is not known.
func isOpen(record v1alpha1.UpdateRecord) bool {
	return record.Requested != 0 || isMoved(record) && record.RequestedDigest != ""
}

func seen(c *metav1.Condition, generation int64) bool {
	return c != nil && c.ObservedGeneration == generation
}

// changes are what a host has to be given.
type changes struct {
	objects              updateObjects
	settings, components change
}

func changesOf(u updateObjects, h *v1alpha1.BareMetalHost) changes {
	return changes{objects: u, settings: settingsChange(u, h), components: componentsChange(u, h)}
}

func (c changes) both() []change { return []change{c.settings, c.components} }

// any reports whether one of the changes satisfies is.
func (c changes) any(is func(change) bool) bool { return slices.ContainsFunc(c.both(), is) }

// exist reports whether there is an object that can ask for something.
func (c changes) exist() bool { return c.objects.settings != nil || c.objects.components != nil }

// permitted returns the changes with those withdrawn that may not be applied to a machine in use.
func (c changes) permitted() changes {
	c.settings.withdrawn, c.components.withdrawn = !c.settings.permitted, !c.components.permitted
	return c
}

// wanted reports whether something has to be applied. ready reports whether all of that is known:
// it is of the newest versions, and these have been compared with the machine. unseen reports
// whether nobody has compared the newest version of one of the objects.
func (c changes) wanted() bool {
	return c.any(func(c change) bool { return c.version() != 0 })
}

func (c changes) ready() bool {
	return c.wanted() && !c.any(func(c change) bool { return c.version() != 0 && !c.ready() })
}

func (c changes) unseen() bool {
	return c.any(func(c change) bool { return c.state == changeUnseen })
}

// problem says which object is invalid, and why; it is "" if none is.
func (c changes) problem() string {
	for _, part := range c.both() {
		if part.state == changeInvalid {
			return fmt.Sprintf("the spec of %s is not valid: %s; correct it", part.kind, node.CutText(part.problem))
		}
	}
	return ""
}

// fingerprint identifies the versions of the objects. It is "" without objects.
func (c changes) fingerprint() string {
	if !c.exist() && c.objects.policy == nil {
		return ""
	}
	values := []any{c.settings.uid, c.settings.generation, c.components.uid, c.components.generation}
	if p := c.objects.policy; p != nil {
		_, explicit := p.Annotations[v1alpha1.RequireAnnotationAnnotation]
		values = append(values, p.Spec, explicit)
	}
	return fingerprint(values...)
}
