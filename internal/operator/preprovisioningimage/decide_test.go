package preprovisioningimage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestDecideServesTheConfiguredImages(t *testing.T) {
	all := Images{ISO: "http://h/ramdisk.iso", Kernel: "http://h/kernel", Ramdisk: "http://h/initrd"}
	both := []v1alpha1.ImageFormat{v1alpha1.ImageFormatISO, v1alpha1.ImageFormatInitrd}
	secret := &v1alpha1.SecretStatus{Name: "net", Version: "7"}
	for name, tt := range map[string]struct {
		accepts []v1alpha1.ImageFormat
		images  Images
		secret  *v1alpha1.SecretStatus
		want    v1alpha1.PreprovisioningImageStatus
		reason  string
	}{
		"an ISO image": {both, all, secret, v1alpha1.PreprovisioningImageStatus{
			ImageURL: all.ISO, Format: v1alpha1.ImageFormatISO, Architecture: "x86_64", NetworkData: *secret,
		}, v1alpha1.ImageSuccessReason},
		"a ramdisk where no ISO image is accepted": {both[1:], all, secret, v1alpha1.PreprovisioningImageStatus{
			ImageURL: all.Ramdisk, KernelURL: all.Kernel, Format: v1alpha1.ImageFormatInitrd, Architecture: "x86_64", NetworkData: *secret,
		}, v1alpha1.ImageSuccessReason},
		"a ramdisk where no ISO image is configured": {both, Images{Ramdisk: "http://h/initrd"}, &v1alpha1.SecretStatus{}, v1alpha1.PreprovisioningImageStatus{
			ImageURL: all.Ramdisk, Format: v1alpha1.ImageFormatInitrd, Architecture: "x86_64",
		}, v1alpha1.ImageSuccessReason},
		"no image of an accepted format": {both[1:], Images{ISO: all.ISO}, secret, v1alpha1.PreprovisioningImageStatus{}, v1alpha1.ImageConfigurationErrorReason},
		"no Secret":                      {both, all, nil, v1alpha1.PreprovisioningImageStatus{}, v1alpha1.ImageMissingNetworkDataReason},
	} {
		t.Run(name, func(t *testing.T) {
			image := &v1alpha1.PreprovisioningImage{
				ObjectMeta: metav1.ObjectMeta{Generation: 3},
				Spec:       v1alpha1.PreprovisioningImageSpec{NetworkDataName: "net", Architecture: "x86_64", AcceptFormats: tt.accepts},
				Status:     v1alpha1.PreprovisioningImageStatus{ImageURL: "http://h/before", Format: v1alpha1.ImageFormatISO},
			}
			got, _ := decide(image, tt.images, tt.secret, time.Unix(1000, 0))
			ready := meta.FindStatusCondition(got.Conditions, v1alpha1.ImageReadyCondition)
			failed := meta.FindStatusCondition(got.Conditions, v1alpha1.ImageErrorCondition)
			if ready == nil || failed == nil {
				t.Fatalf("conditions = %+v, want Ready and Error", got.Conditions)
			}
			success := tt.reason == v1alpha1.ImageSuccessReason
			if ready.Reason != tt.reason || failed.Reason != tt.reason || ready.ObservedGeneration != 3 ||
				(ready.Status == metav1.ConditionTrue) != success || (failed.Status == metav1.ConditionTrue) == success {
				t.Errorf("Ready = %+v, Error = %+v; want the reason %s", ready, failed, tt.reason)
			}
			got.Conditions = nil
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("status differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWaitForAMissingSecretGrowsFromTenSecondsToTenMinutes(t *testing.T) {
	start := time.Unix(1000, 0)
	image := &v1alpha1.PreprovisioningImage{Spec: v1alpha1.PreprovisioningImageSpec{
		NetworkDataName: "net", AcceptFormats: []v1alpha1.ImageFormat{v1alpha1.ImageFormatISO},
	}}
	now := start
	var waits []float64 // seconds
	for range 9 {
		status, wait := decide(image, Images{ISO: "http://h/ramdisk.iso"}, nil, now)
		image.Status = status
		waits = append(waits, wait.Seconds())
		now = now.Add(wait)
	}
	want := []float64{10, 10, 20, 40, 80, 160, 320, 600, 600}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("waits differ (-want +got):\n%s", diff)
	}
}
