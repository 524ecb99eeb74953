package classification

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestHostsWaitForTheLabelsOfTheirProfiles(t *testing.T) {
	t.Parallel()
	profile := func(name string, processors int) v1alpha1.HardwareClassification {
		return v1alpha1.HardwareClassification{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.HardwareClassificationSpec{
			HardwareCharacteristics: v1alpha1.HardwareCharacteristics{CPU: &v1alpha1.CPUCharacteristics{MinimumCount: processors}},
		}}
	}
	small, huge := profile("small", 1), profile("huge", 4096)
	data := &v1alpha1.HardwareData{Spec: v1alpha1.HardwareDataSpec{HardwareDetails: hardware()}}
	isSmall := map[string]string{v1alpha1.ClassificationLabelPrefix + "small": "matches", "rack": "a"}
	for name, tc := range map[string]struct {
		labels   map[string]string
		mode     v1alpha1.InspectionMode
		legacy   string
		profiles []v1alpha1.HardwareClassification
		data     *v1alpha1.HardwareData
		want     bool
	}{
		"no profiles":               {data: data},
		"no profiles, no hardware":  {},
		"label there":               {labels: isSmall, profiles: []v1alpha1.HardwareClassification{small, huge}, data: data},
		"label missing":             {profiles: []v1alpha1.HardwareClassification{small}, data: data, want: true},
		"label too much":            {labels: isSmall, profiles: []v1alpha1.HardwareClassification{huge}, data: data, want: true},
		"nothing matches":           {profiles: []v1alpha1.HardwareClassification{huge}, data: data},
		"hardware not known yet":    {profiles: []v1alpha1.HardwareClassification{huge}, want: true},
		"hardware never known":      {mode: v1alpha1.InspectionModeDisabled, profiles: []v1alpha1.HardwareClassification{small}},
		"never known, older marker": {legacy: "disabled", profiles: []v1alpha1.HardwareClassification{small}},
	} {
		h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}
		h.Spec.InspectionMode = tc.mode
		if tc.legacy != "" {
			h.Annotations = map[string]string{v1alpha1.InspectAnnotation: tc.legacy}
		}
		if got := Pending(h, tc.profiles, tc.data); got != tc.want {
			t.Errorf("%s: pending %v, want %v", name, got, tc.want)
		}
	}
}
