package operator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

const dataURL, otherDataURL = "https://images/data.iso", "https://images/other.iso"

// dataImage creates the DataImage of a host.
func (b *bench) dataImage(name string) *v1alpha1.DataImage {
	b.Helper()
	d := &v1alpha1.DataImage{ObjectMeta: b.meta(name), Spec: v1alpha1.DataImageSpec{URL: dataURL}}
	b.create(d)
	return d
}

// showsImage waits until the condition of a DataImage has the reason, and returns the DataImage.
func (b *bench) showsImage(name, reason string) *v1alpha1.DataImage {
	b.Helper()
	d := &v1alpha1.DataImage{}
	b.eventually("DataImage "+name+" with the reason "+reason, func() string {
		if err := b.client.Get(context.Background(), client.ObjectKey{Namespace: b.namespace, Name: name}, d); err != nil {
			return err.Error()
		}
		for _, c := range d.Status.Conditions {
			if c.Type == v1alpha1.AttachedCondition && c.Reason == reason && c.ObservedGeneration == d.Generation {
				return ""
			}
		}
		return conditionText(d.Status.Conditions)
	})
	return d
}

// isGone waits until an object does not exist any more.
func (b *bench) isGone(obj client.Object) {
	b.Helper()
	b.eventually(fmt.Sprintf("%T %s gone", obj, obj.GetName()), func() string {
		err := b.client.Get(context.Background(), client.ObjectKeyFromObject(obj), obj)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("%v, finalizers %v", err, obj.GetFinalizers())
	})
}

// provisionedHost creates a host with a BMC and a deployment.
func (b *bench) provisionedHost(name string) *v1alpha1.BareMetalHost {
	b.Helper()
	b.bmcHost(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/os.qcow2") })
	return b.inState(name, v1alpha1.StateProvisioned)
}

// reboots asks for a power cycle and waits until exactly these verbs were asked of the machine.
func (b *bench) reboots(h *v1alpha1.BareMetalHost, want ...string) {
	b.Helper()
	before := len(b.asked(h.Name))
	b.update(h, func() { h.Annotations = map[string]string{v1alpha1.RebootAnnotation: ""} })
	b.askedSince(h.Name, before, want...)
}

func (b *bench) askedSince(name string, before int, want ...string) {
	b.Helper()
	b.eventually(fmt.Sprintf("the requests %q", want), func() string {
		got := b.without(b.asked(name)[before:], "claim", "update", "validate")
		if slices.Equal(got, want) {
			return ""
		}
		return fmt.Sprintf("asked: %q; error %q", got, b.host(name).Status.ErrorMessage)
	})
}

func TestDataImageIsAttachedReplacedAndDetachedBeforePowerOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.provisionedHost("web")
	d := b.dataImage("web")
	b.showsImage("web", v1alpha1.WaitingForPowerOnReason)
	if n := b.count("web", "attach image"); n != 0 {
		t.Errorf("%d images were attached to a machine that runs", n)
	}
	b.reboots(h, "soft power off", "attach image", "power on")
	got := b.showsImage("web", v1alpha1.AttachedReason)
	if got.Status.AttachedImage == nil || got.Status.AttachedImage.URL != dataURL || got.Status.LastReconciled == nil || len(got.OwnerReferences) != 1 {
		t.Errorf("DataImage = %+v, want the image, a time and the host as owner", got)
	}

	b.update(d, func() { d.Spec.URL = otherDataURL })
	b.showsImage("web", v1alpha1.WaitingForPowerOnReason)
	b.reboots(h, "soft power off", "detach image", "attach image", "power on")
	if got = b.showsImage("web", v1alpha1.AttachedReason); got.Status.AttachedImage.URL != otherDataURL {
		t.Errorf("attached image = %+v, want the other one", got.Status.AttachedImage)
	}

	b.remove(d)
	b.showsImage("web", v1alpha1.WaitingForPowerOnReason)
	b.reboots(h, "soft power off", "detach image", "power on")
	b.isGone(d)
	b.reboots(h, "soft power off", "power on")
}

func TestDataImageThatFailsKeepsTheMachineOffUntilItIsDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for name, verbs := range map[string][]string{
		"demo-media-error": {"soft power off"},                 // the engine refuses it
		"demo-media-fault": {"soft power off", "attach image"}, // the engine accepts it, and fails
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{TB: t, client: b.client, engine: b.engine, namespace: b.namespace}
			h := b.provisionedHost(name)
			d := b.dataImage(name)
			b.showsImage(name, v1alpha1.WaitingForPowerOnReason)
			b.reboots(h, verbs...)
			got := b.showsImage(name, v1alpha1.AttachFailedReason)
			if got.Status.Error == nil || got.Status.Error.Count != 1 || got.Status.AttachedImage != nil || got.Status.Request != nil {
				t.Errorf("status = %+v, want one failure and no image", got.Status)
			}
			if got := b.host(name); got.Status.ErrorType != "" {
				t.Errorf("host has the error %q: %s", got.Status.ErrorType, got.Status.ErrorMessage)
			}
			before := len(b.asked(name))
			b.remove(d)
			b.isGone(d)
			b.askedSince(name, before, "power on")
		})
	}
}

func TestDataImageOfAHostThatCannotBeReached(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.provisionedHost("web")
	d := b.dataImage("web")
	b.showsImage("web", v1alpha1.WaitingForPowerOnReason)
	b.reboots(h, "soft power off", "attach image", "power on")
	b.showsImage("web", v1alpha1.AttachedReason)

	b.update(h, func() { h.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""} })
	b.remove(d)
	b.showsImage("web", v1alpha1.HostPausedReason)
	b.update(h, func() { h.Annotations = map[string]string{v1alpha1.DetachedAnnotation: ""} })
	b.isGone(d)
	if n := b.count("web", "detach image"); n != 0 {
		t.Errorf("the image of a host without a node was detached %d times", n)
	}
}

func TestDataImageOutlivesItsHostOnlyUntilItIsDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	h := b.provisionedHost("web")
	d := b.dataImage("web")
	b.showsImage("web", v1alpha1.WaitingForPowerOnReason)
	b.reboots(h, "soft power off", "attach image", "power on")
	b.showsImage("web", v1alpha1.AttachedReason)
	b.remove(h)
	b.gone("web")
	b.showsImage("web", v1alpha1.HostNotFoundReason)
	b.remove(d)
	b.isGone(d)
}

// withoutMedia is an engine that is too old for images in virtual drives.
type withoutMedia struct{ provisioner.Engine }

func (withoutMedia) AttachImage(context.Context, string, string) error {
	return fmt.Errorf("%w: an image in a virtual drive needs API version 1.89", provisioner.ErrUnsupported)
}

func TestMachineIsPoweredOnWithoutTheImageThatItsEngineCannotAttach(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) { o.Engine = withoutMedia{o.Engine} })
	h := b.provisionedHost("web")
	d := b.dataImage("web")
	b.showsImage("web", v1alpha1.WaitingForPowerOnReason)
	b.reboots(h, "soft power off", "power on")
	got := b.showsImage("web", v1alpha1.AttachFailedReason)
	if e := got.Status.Error; e == nil || e.Count != 1 || !strings.Contains(e.Message, "1.89") {
		t.Errorf("error = %+v, want the version that is needed", e)
	}
	b.remove(d)
	b.isGone(d)
}

// losingAnswers is an engine whose first answer about an image gets lost.
type losingAnswers struct {
	provisioner.Engine
	lost *atomic.Bool
}

func (e losingAnswers) AttachImage(ctx context.Context, id, url string) error {
	err := e.Engine.AttachImage(ctx, id, url)
	if e.lost.CompareAndSwap(false, true) {
		return fmt.Errorf("%w: the answer was lost", provisioner.ErrUnreachable)
	}
	return err
}

func TestImageWhoseAnswerWasLostIsAskedForAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) { o.Engine = losingAnswers{o.Engine, &atomic.Bool{}} })
	h := b.provisionedHost("web")
	b.dataImage("web")
	b.showsImage("web", v1alpha1.WaitingForPowerOnReason)
	before := len(b.asked("web"))
	b.reboots(h, "soft power off", "attach image")
	b.update(h, func() { h.Annotations = map[string]string{"note": "the engine answers again"} })
	b.askedSince("web", before, "soft power off", "attach image", "attach image", "power on")
	b.showsImage("web", v1alpha1.AttachedReason)
}
