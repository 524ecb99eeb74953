package firmware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// components keeps the HostFirmwareComponents of a host. It never writes status.updates, which
// belongs to the host controller.
type components struct {
	objects  objects
	engine   provisioner.FirmwareReader
	recorder events.EventRecorder
}

// reconcile shows the firmware of the host's machine if the spec changed or the engine may have new
// versions. It returns how long to wait before the next pass; 0 means until the next change. It
// creates no object for a machine without components.
func (p components) reconcile(ctx context.Context, s pass, l *last) (time.Duration, error) {
	var cached v1alpha1.HostFirmwareComponents
	err := p.objects.client.Get(ctx, client.ObjectKeyFromObject(s.host), &cached, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return 0, err
	}
	exists := err == nil
	read, wait := decideReading(l.or(cached.Status.Reading), object{
		current: exists && isShown(&cached, s.host) || !exists && l.none,
		wanted:  len(cached.Spec.Updates) > 0, changing: isChanging(cached.Status.Conditions),
	}, s.node, s.now)
	if !read {
		return wait, nil
	}
	found, err := p.engine.Components(ctx, s.node.ID)
	if err != nil && !errors.Is(err, provisioner.ErrUnsupported) {
		return 0, err
	}
	next := last{reading: readingOf(s.node), known: true, at: s.now, none: len(found) == 0, worked: firmwareWork[s.node.State]}
	if next.none && !exists {
		*l = next
		return 0, nil
	}
	changing, err := p.write(ctx, s, exists, found)
	if err != nil {
		return 0, err
	}
	*l = next
	if changing {
		return changingInterval, nil
	}
	return 0, nil
}

// isShown reports whether the object needs no write unless new readings differ.
func isShown(c *v1alpha1.HostFirmwareComponents, host *v1alpha1.BareMetalHost) bool {
	return isOwned(c, host) && observed(c.Status.Conditions, c.Generation) &&
		isChanging(c.Status.Conditions) == isChange(c.Spec.Updates, c.Status.Updates)
}

// write creates the object if it does not exist yet, and shows in it what was found.
func (p components) write(ctx context.Context, s pass, exists bool, found []provisioner.Component) (changing bool, err error) {
	c := &v1alpha1.HostFirmwareComponents{Spec: v1alpha1.HostFirmwareComponentsSpec{Updates: []v1alpha1.FirmwareUpdate{}}}
	if err := p.objects.ensure(ctx, c, exists, s.host); err != nil {
		return false, err
	}
	before := c.DeepCopy()
	shown, leftOut := cutComponents(found)
	c.Status.Components = statusOf(shown)
	// found includes components that are not shown.
	v := decideComponents(c.Spec.Updates, c.Status.Updates, found)
	v.leftOut = leftOut
	setConditions(&c.Status.Conditions, v, c.Generation, s.now)
	if equality.Semantic.DeepEqual(before.Status, c.Status) && len(c.Spec.Updates) == 0 {
		return v.changing, nil
	}
	c.Status.Reading = readingOf(s.node).forStatus()
	if equality.Semantic.DeepEqual(before.Status, c.Status) {
		return v.changing, nil
	}
	now := metav1.NewTime(s.now)
	c.Status.LastUpdated = &now
	if err := p.objects.writeStatus(ctx, c, before); err != nil {
		return false, err
	}
	publishInvalid(p.recorder, c, before.Status.Conditions, c.Status.Conditions)
	return v.changing, nil
}

// isChange reports whether the spec asks for updates that were not begun. An empty spec asks for
// nothing.
func isChange(wanted, begun []v1alpha1.FirmwareUpdate) bool {
	return len(wanted) > 0 && !slices.Equal(wanted, begun)
}

// decideComponents judges the wanted updates for a machine whose components were found and whose
// updates were begun.
func decideComponents(wanted, begun []v1alpha1.FirmwareUpdate, found []provisioner.Component) verdict {
	v := verdict{
		changing: isChange(wanted, begun), changingMessage: "The updates of spec were begun",
		determined: v1alpha1.ComponentsOKReason, refused: v1alpha1.InvalidComponentReason,
	}
	switch {
	case len(wanted) == 0:
		v.changingMessage = "spec.updates is empty"
	case v.changing:
		v.changingMessage = "spec.updates differs from the updates that were begun last"
	}
	names := make([]string, len(found))
	for i, c := range found {
		names[i] = c.Name
	}
	slices.Sort(names)
	for _, update := range wanted {
		if !strings.HasPrefix(update.URL, "http://") && !strings.HasPrefix(update.URL, "https://") {
			scheme, _, _ := strings.Cut(update.URL, ":")
			v.invalid = append(v.invalid, fmt.Sprintf("the engine cannot read the firmware of component %q with %q: write a URL that begins with http:// or https://",
				node.CutTextTo(update.Component, maxComponent), node.CutTextTo(scheme, maxComponent)))
		}
		if slices.Contains(names, update.Component) {
			continue
		}
		remedy := "the engine reports no firmware of it; remove the component from spec.updates"
		if len(names) > 0 {
			remedy = "it has " + strings.Join(names, ", ")
		}
		v.invalid = append(v.invalid, fmt.Sprintf("component %q does not exist on this machine: %s", node.CutTextTo(update.Component, maxComponent), node.CutTextTo(remedy, maxNames)))
	}
	return v
}

// maxComponent and maxNames bound the names in a message, in bytes.
const maxComponent, maxNames = 100, 400

// statusOf returns the components as the status shows them, sorted by name.
func statusOf(found []provisioner.Component) []v1alpha1.FirmwareComponentStatus {
	shown := make([]v1alpha1.FirmwareComponentStatus, len(found))
	for i, c := range found {
		shown[i] = v1alpha1.FirmwareComponentStatus{
			Component: c.Name, InitialVersion: c.InitialVersion, CurrentVersion: c.CurrentVersion, LastVersionFlashed: c.LastFlashed,
		}
		if !c.UpdatedAt.IsZero() {
			shown[i].UpdatedAt = metav1.NewTime(c.UpdatedAt.UTC().Truncate(time.Second)) // as precise as it is stored
		}
	}
	slices.SortFunc(shown, func(a, b v1alpha1.FirmwareComponentStatus) int { return strings.Compare(a.Component, b.Component) })
	return shown
}
