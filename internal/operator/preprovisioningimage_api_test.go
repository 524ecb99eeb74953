package operator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// withImages lets hosts ask for PreprovisioningImages. served says whether the operator serves
// them.
func withImages(served bool) func(*operator.Options) {
	return func(o *operator.Options) {
		o.PreprovisioningImages, o.ExternalImageController = true, !served
		o.Ramdisk.ISO, o.Ramdisk.Kernel = "http://images/ramdisk.iso", "http://images/kernel"
	}
}

// preprovisioningImage waits until a host's PreprovisioningImage is as wanted.
func (b *bench) preprovisioningImage(name, what string, is func(*v1alpha1.PreprovisioningImage) bool) *v1alpha1.PreprovisioningImage {
	b.Helper()
	image := &v1alpha1.PreprovisioningImage{}
	b.eventually("PreprovisioningImage "+name+" "+what, func() string {
		if err := b.client.Get(context.Background(), client.ObjectKey{Namespace: b.namespace, Name: name}, image); err != nil {
			return err.Error()
		}
		if is(image) {
			return ""
		}
		return fmt.Sprintf("spec %+v, status %+v", image.Spec, image.Status)
	})
	return image
}

// waits waits until the message of a host's condition Progressing contains a text.
func (b *bench) waits(name, text string) {
	b.Helper()
	b.eventually("host "+name+" waits: "+text, func() string {
		for _, c := range b.host(name).Status.Conditions {
			if c.Type == v1alpha1.ProgressingCondition && strings.Contains(c.Message, text) {
				return ""
			}
		}
		return conditionText(b.host(name).Status.Conditions)
	})
}

// ramdisks returns the ramdisk images that a node was given, without repetitions.
func (b *bench) ramdisks(name string) []string {
	var all []string
	for _, e := range b.engine.Effects(provisioner.NodeName(b.namespace, name)) {
		if r, ok := e.Request.(provisioner.Registration); ok && r.RamdiskImage != nil {
			all = append(all, r.RamdiskImage.ISO+r.RamdiskImage.Ramdisk)
		}
	}
	return slices.Compact(all)
}

func TestHostBootsTheImageThatTheOperatorServes(t *testing.T) {
	t.Parallel()
	b := newBench(t, withImages(true))
	b.create(&corev1.Secret{ObjectMeta: b.meta("net"), StringData: map[string]string{"networkData": "links: []"}})
	h := b.bmcHost("web", func(h *v1alpha1.BareMetalHost) { h.Spec.PreprovisioningNetworkDataName = "net" })
	b.inState("web", v1alpha1.StateAvailable)
	ready := func(i *v1alpha1.PreprovisioningImage) bool {
		return len(i.Status.Conditions) == 2 && i.Status.Conditions[0].ObservedGeneration == i.Generation && i.Status.ImageURL != ""
	}
	got := b.preprovisioningImage("web", "ready", ready)
	if got.Spec.NetworkDataName != "net" || got.Spec.Architecture != "x86_64" || got.Status.Architecture != "x86_64" ||
		!slices.Equal(got.Spec.AcceptFormats, []v1alpha1.ImageFormat{v1alpha1.ImageFormatISO, v1alpha1.ImageFormatInitrd}) {
		t.Errorf("spec = %+v, status = %+v", got.Spec, got.Status)
	}
	if want := []string{v1alpha1.HostPreprovisioningImageFinalizer, v1alpha1.PreprovisioningImageFinalizer}; !slices.Equal(got.Finalizers, want) {
		t.Errorf("finalizers = %q, want %q", got.Finalizers, want)
	}
	if want := []string{"http://images/ramdisk.iso"}; !slices.Equal(b.ramdisks("web"), want) {
		t.Errorf("the node boots %q, want %q", b.ramdisks("web"), want)
	}

	secret := &corev1.Secret{ObjectMeta: b.meta("net")}
	b.update(secret, func() { secret.Data["networkData"] = []byte("links: [{id: eno1}]") })
	b.preprovisioningImage("web", "with the new version of the Secret", func(i *v1alpha1.PreprovisioningImage) bool {
		return ready(i) && i.Status.NetworkData == v1alpha1.SecretStatus{Name: "net", Version: secret.ResourceVersion}
	})

	before := got.UID
	b.remove(got)
	got = b.preprovisioningImage("web", "created again", func(i *v1alpha1.PreprovisioningImage) bool { return i.UID != before && ready(i) })
	b.remove(h)
	b.gone("web")
	b.isGone(got)
}

func TestHostWaitsForItsImageBeforeItBootsTheRamdisk(t *testing.T) {
	t.Parallel()
	b := newBench(t, withImages(false))
	h := b.bmcHost("web", nil)
	ramdisk := b.preprovisioningImage("web", "asked for", func(*v1alpha1.PreprovisioningImage) bool { return true })
	b.waits("web", "was not built yet")
	if n := b.count("web", "inspect"); n != 0 {
		t.Errorf("%d inspections began without the ramdisk", n)
	}
	serve := func(url string) {
		b.eventually("the image served", func() string {
			if err := b.client.Get(context.Background(), client.ObjectKeyFromObject(ramdisk), ramdisk); err != nil {
				return err.Error()
			}
			before := ramdisk.DeepCopy()
			now := metav1.Now()
			ramdisk.Status = v1alpha1.PreprovisioningImageStatus{
				ImageURL: url, Format: v1alpha1.ImageFormatInitrd, Architecture: ramdisk.Spec.Architecture, ExtraKernelParams: "quiet",
				Conditions: []metav1.Condition{
					{Type: v1alpha1.ImageReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ImageSuccessReason, ObservedGeneration: ramdisk.Generation, LastTransitionTime: now},
					{Type: v1alpha1.ImageErrorCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ImageSuccessReason, ObservedGeneration: ramdisk.Generation, LastTransitionTime: now},
				},
			}
			if err := b.client.Status().Patch(context.Background(), ramdisk, client.MergeFrom(before)); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	serve("http://images/built-1")
	b.inState("web", v1alpha1.StatePreparing) // the architecture is known now, so that another image is needed
	b.waits("web", "was not built yet")
	serve("http://images/built-2")
	b.inState("web", v1alpha1.StateAvailable)
	if want := []string{"http://images/built-1", "http://images/built-2"}; !slices.Equal(b.ramdisks("web"), want) {
		t.Errorf("the node boots %q, want %q", b.ramdisks("web"), want)
	}

	b.update(ramdisk, func() { ramdisk.Finalizers = append(ramdisk.Finalizers, "example.com/built") })
	b.remove(ramdisk)
	b.update(h, func() { h.Spec.Image = image("https://images/os.qcow2") })
	b.waits("web", "is being deleted")
	if n := b.count("web", "deploy"); n != 0 {
		t.Errorf("%d deployments began without the ramdisk", n)
	}
	b.remove(h) // does not wait
	b.gone("web")
	b.update(ramdisk, func() { ramdisk.Finalizers = nil })
}

func TestWithoutTheOptionNoImagesAreCreated(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *operator.Options) { o.Ramdisk.ISO = "http://images/ramdisk.iso" })
	b.bmcHost("web", nil)
	b.inState("web", v1alpha1.StateAvailable)
	err := b.client.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "web"}, &v1alpha1.PreprovisioningImage{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("reading the PreprovisioningImage: %v, want that there is none", err)
	}
}

func TestImageWaitsForItsSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t, withImages(true))
	i := &v1alpha1.PreprovisioningImage{ObjectMeta: b.meta("alone"), Spec: v1alpha1.PreprovisioningImageSpec{
		NetworkDataName: "net", AcceptFormats: []v1alpha1.ImageFormat{v1alpha1.ImageFormatISO},
	}}
	b.create(i)
	b.preprovisioningImage("alone", "without its Secret", func(i *v1alpha1.PreprovisioningImage) bool {
		return len(i.Status.Conditions) == 2 && i.Status.Conditions[1].Status == metav1.ConditionTrue &&
			i.Status.Conditions[1].Reason == v1alpha1.ImageMissingNetworkDataReason
	})
	secret := &corev1.Secret{ObjectMeta: b.meta("net")}
	b.create(secret)
	b.preprovisioningImage("alone", "ready", func(i *v1alpha1.PreprovisioningImage) bool {
		return i.Status.NetworkData.Name == "net" && i.Status.ImageURL != ""
	})
	b.remove(i)
	b.isGone(i)
}
