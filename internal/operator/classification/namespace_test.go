package classification

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func profileWith(name string, processors int) v1alpha1.HardwareClassification {
	return v1alpha1.HardwareClassification{
		ObjectMeta: metav1.ObjectMeta{Namespace: "racks", Name: name, UID: types.UID(name), Generation: 1},
		Spec: v1alpha1.HardwareClassificationSpec{HardwareCharacteristics: v1alpha1.HardwareCharacteristics{
			CPU: &v1alpha1.CPUCharacteristics{MinimumCount: processors},
		}},
	}
}

func hostWith(name string, labels ...string) v1alpha1.BareMetalHost {
	h := v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "racks", Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		h.Labels[v1alpha1.ClassificationLabelPrefix+label] = v1alpha1.ClassificationLabelValue
	}
	return h
}

func TestOnlyAProfileThatChangedIsComparedWithAllHosts(t *testing.T) {
	var asked []string
	r := &namespaces{seen: map[string]map[types.UID]string{}, label: func(req ctrl.Request) { asked = append(asked, req.Name) }}
	big, small := profileWith("big", 16), profileWith("small", 1)
	all := contents{
		hosts:    []v1alpha1.BareMetalHost{hostWith("a"), hostWith("b", "big"), hostWith("c", "big", "small")},
		hardware: map[string]*v1alpha1.HardwareDetails{"a": hardware(), "c": hardware()},
	}
	compare := func(profiles ...v1alpha1.HardwareClassification) []string {
		asked = nil
		r.compare("racks", profiles, all)
		slices.Sort(asked)
		return slices.Compact(asked)
	}
	if diff := cmp.Diff([]string{"a", "b"}, compare(big, small)); diff != "" {
		t.Errorf("hosts with wrong labels differ (-want +got):\n%s", diff)
	}
	if got := compare(big, small); got != nil {
		t.Errorf("profiles that did not change: %q were compared again", got)
	}
	small.Generation, small.Spec.HardwareCharacteristics.CPU.MinimumCount = 2, 100
	if diff := cmp.Diff([]string{"c"}, compare(big, small)); diff != "" {
		t.Errorf("hosts with wrong labels of the changed profile differ (-want +got):\n%s", diff)
	}
	at := metav1.Now()
	big.DeletionTimestamp = &at
	if diff := cmp.Diff([]string{"b", "c"}, compare(big, small)); diff != "" {
		t.Errorf("hosts with the label of the deleted profile differ (-want +got):\n%s", diff)
	}
}

func TestStatusCountsHosts(t *testing.T) {
	broken, deleted := hostWith("broken", "big"), hostWith("deleted", "big")
	broken.Status.ErrorType = v1alpha1.ErrorInspection
	at := metav1.Now()
	deleted.DeletionTimestamp, deleted.Status.ErrorType = &at, v1alpha1.ErrorDetach
	hosts := []v1alpha1.BareMetalHost{broken, deleted, hostWith("other"), hostWith("unknown")}
	known := map[string]*v1alpha1.HardwareDetails{"broken": hardware(), "deleted": hardware(), "other": hardware()}
	big, empty := profileWith("big", 16), profileWith("empty", 1)
	empty.Spec = v1alpha1.HardwareClassificationSpec{}
	numbers := count(hosts, known)
	want := v1alpha1.HardwareClassificationStatus{
		ProfileMatchStatus: v1alpha1.ProfileMatched, MatchedCount: 1, UnmatchedCount: 1,
		ErrorHosts: 2, IntrospectionErrorHosts: 1, DetachErrorHosts: 1,
	}
	if diff := cmp.Diff(want, numbers.statusOf(&big, failure{})); diff != "" {
		t.Errorf("status differs (-want +got):\n%s", diff)
	}
	if got := numbers.statusOf(&empty, failure{}); got.ErrorType != v1alpha1.ClassificationErrorEmpty || got.ProfileMatchStatus != v1alpha1.ProfileUnmatched {
		t.Errorf("status of a profile that restricts nothing = %+v", got)
	}
	failed := failure{v1alpha1.ClassificationErrorLabelUpdate, "label host broken: refused"}
	if got := numbers.statusOf(&big, failed); got.ErrorType != failed.kind || got.ErrorMessage != failed.text {
		t.Errorf("status after a failure = %+v", got)
	}
	if got := count(nil, nil).statusOf(&big, failure{}); got.ProfileMatchStatus != v1alpha1.ProfileNoHosts {
		t.Errorf("status without hosts = %+v", got)
	}
}

func TestRelabelKeepsLabelsOfOthers(t *testing.T) {
	h := hostWith("a", "big", "gone")
	h.Labels["rack"] = "7"
	big, own := profileWith("big", 1), profileWith("own", 1)
	own.Labels = map[string]string{v1alpha1.ClassificationLabelPrefix + "own": "gold"}
	removed := relabel(&h, labelsOf([]v1alpha1.HardwareClassification{big, own}, hardware()))
	want := map[string]string{"rack": "7", v1alpha1.ClassificationLabelPrefix + "big": "matches", v1alpha1.ClassificationLabelPrefix + "own": "gold"}
	if diff := cmp.Diff(want, h.Labels); diff != "" || !removed {
		t.Errorf("labels differ (-want +got), removed %v:\n%s", removed, diff)
	}
}
