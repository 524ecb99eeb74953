package host

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

func TestImageIsUsedOnlyIfItIsWhatTheHostNeeds(t *testing.T) {
	spec := v1alpha1.PreprovisioningImageSpec{NetworkDataName: "net", Architecture: "x86_64", AcceptFormats: []v1alpha1.ImageFormat{v1alpha1.ImageFormatISO}}
	secret := v1alpha1.SecretStatus{Name: "net", Version: "7"}
	condition := func(kind string, status metav1.ConditionStatus, generation int64) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, ObservedGeneration: generation, Reason: "Why", Message: "because"}
	}
	for name, tt := range map[string]struct {
		change func(*v1alpha1.PreprovisioningImage)
		want   string // "" for an image that is used
	}{
		"ready":   {func(*v1alpha1.PreprovisioningImage) {}, ""},
		"deleted": {func(i *v1alpha1.PreprovisioningImage) { at := metav1.Now(); i.DeletionTimestamp = &at }, "deleted"},
		"asked for with other properties": {func(i *v1alpha1.PreprovisioningImage) {
			i.Spec.Architecture, i.Status.Architecture = "aarch64", "aarch64"
		}, "other properties"},
		"an error": {func(i *v1alpha1.PreprovisioningImage) {
			i.Status.Conditions[1] = condition(v1alpha1.ImageErrorCondition, metav1.ConditionTrue, 2)
		}, "because"},
		"an error of an earlier generation, built since": {func(i *v1alpha1.PreprovisioningImage) {
			i.Status.Conditions[1] = condition(v1alpha1.ImageErrorCondition, metav1.ConditionTrue, 1)
		}, ""},
		"not built": {func(i *v1alpha1.PreprovisioningImage) { i.Status = v1alpha1.PreprovisioningImageStatus{} }, "not built"},
		"built for an earlier generation": {func(i *v1alpha1.PreprovisioningImage) {
			i.Status.Conditions[0].ObservedGeneration = 1
		}, "not built"},
		"another architecture":          {func(i *v1alpha1.PreprovisioningImage) { i.Status.Architecture = "aarch64" }, "architecture"},
		"a format that is not accepted": {func(i *v1alpha1.PreprovisioningImage) { i.Status.Format = v1alpha1.ImageFormatInitrd }, "format"},
		"an older Secret":               {func(i *v1alpha1.PreprovisioningImage) { i.Status.NetworkData.Version = "6" }, "Secret net"},
		"without the Secret":            {func(i *v1alpha1.PreprovisioningImage) { i.Status.NetworkData = v1alpha1.SecretStatus{} }, "Secret net"},
	} {
		t.Run(name, func(t *testing.T) {
			image := &v1alpha1.PreprovisioningImage{
				ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: *spec.DeepCopy(),
				Status: v1alpha1.PreprovisioningImageStatus{
					ImageURL: "http://h/i.iso", Format: v1alpha1.ImageFormatISO, Architecture: "x86_64", NetworkData: secret,
					Conditions: []metav1.Condition{
						condition(v1alpha1.ImageReadyCondition, metav1.ConditionTrue, 2), condition(v1alpha1.ImageErrorCondition, metav1.ConditionFalse, 2),
					},
				},
			}
			tt.change(image)
			if got := whyUnusable(image, spec, secret); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("whyUnusable = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestImageOfADeletedHostWaitsOnlyForAnImageControllerThatThereIs(t *testing.T) {
	for _, served := range []bool{true, false} {
		l := newLife(t, func(c *Config) { c.ImageController = served })
		l.add("web", nil)
		l.rests("web", v1alpha1.StateAvailable)
		image := &v1alpha1.PreprovisioningImage{ObjectMeta: metav1.ObjectMeta{
			Namespace: "metal", Name: "web", Finalizers: []string{v1alpha1.HostPreprovisioningImageFinalizer, v1alpha1.PreprovisioningImageFinalizer},
		}}
		if err := l.api.Create(t.Context(), image); err != nil {
			t.Fatal(err)
		}
		l.remove(l.host("web"))
		l.gone("web")
		err := l.api.Get(t.Context(), client.ObjectKeyFromObject(image), image)
		if client.IgnoreNotFound(err) != nil || (err == nil) != served {
			t.Errorf("with an image controller: %v; the image is left with finalizers %v, %v", served, image.Finalizers, err)
		}
	}
}

func TestRequestsThatBootTheRamdisk(t *testing.T) {
	for name, tt := range map[string]struct {
		spec    v1alpha1.BareMetalHostSpec
		request string
		want    bool
	}{
		"manage":                     {request: askManage},
		"adopt":                      {request: askAdopt},
		"abort":                      {request: askAbort},
		"inspect":                    {request: askInspect, want: true},
		"inspect through the BMC":    {spec: v1alpha1.BareMetalHostSpec{InspectionMode: v1alpha1.InspectionModeFast}, request: askInspect},
		"provide with cleaning":      {request: askProvide, want: true},
		"provide without cleaning":   {spec: v1alpha1.BareMetalHostSpec{AutomatedCleaningMode: v1alpha1.CleaningModeDisabled}, request: askProvide},
		"clean":                      {request: askClean, want: true},
		"deploy":                     {request: askDeploy, want: true},
		"undeploy":                   {request: askUndeploy, want: true},
		"undeploy, without cleaning": {spec: v1alpha1.BareMetalHostSpec{AutomatedCleaningMode: v1alpha1.CleaningModeDisabled}, request: askUndeploy},
	} {
		if got := bootsRamdisk(&v1alpha1.BareMetalHost{Spec: tt.spec}, tt.request); got != tt.want {
			t.Errorf("%s: boots the ramdisk = %v, want %v", name, got, tt.want)
		}
	}
}

func TestMachineThatIsInspectedThroughItsBMCNeedsNoRamdisk(t *testing.T) {
	for mode, inspected := range map[v1alpha1.InspectionMode]bool{v1alpha1.InspectionModeFast: true, v1alpha1.InspectionModeAgent: false} {
		t.Run(string(mode), func(t *testing.T) {
			l := newLife(t, func(c *Config) { c.PreprovisioningImages = true }) // which nobody builds
			l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = mode })
			for range 20 {
				l.now = l.now.Add(l.pass("web"))
			}
			h := l.host("web")
			if got := h.Status.HardwareDetails != nil; got != inspected || l.count("web", string(demo.VerbInspect)) > 1 {
				t.Errorf("in state %q the host has details: %v, want %v; asked of the machine: %q", h.Status.Provisioning.State, got, inspected, l.effects("web"))
			}
		})
	}
}
