package related_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

func TestConsumerIsTheMachineOfTheUIDOrOfTheNameWhereTheUIDMeansNothing(t *testing.T) {
	const machine = "infrastructure.cluster.x-k8s.io/v1beta2"
	m := &v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "m", UID: "uid-of-m"}}
	for name, tt := range map[string]struct {
		ref            *corev1.ObjectReference
		stamp          string
		owner          types.UID
		consumes, sure bool
	}{
		"none":                          {nil, "", "uid-of-m", false, false},
		"by UID":                        {&corev1.ObjectReference{APIVersion: machine, Kind: "Metal3Machine", Namespace: "metal", Name: "m", UID: "uid-of-m"}, "uid-of-h", "", true, true},
		"by UID, not stamped":           {&corev1.ObjectReference{APIVersion: machine, Kind: "Metal3Machine", Namespace: "metal", Name: "m", UID: "uid-of-m"}, "", "", true, true},
		"by name":                       {&corev1.ObjectReference{APIVersion: machine, Kind: "Metal3Machine", Name: "m"}, "", "", true, false},
		"by name and as owner":          {&corev1.ObjectReference{APIVersion: machine, Kind: "Metal3Machine", Name: "m"}, "", "uid-of-m", true, true},
		"by name, with another owner":   {&corev1.ObjectReference{APIVersion: machine, Kind: "Metal3Machine", Name: "m"}, "", "earlier", true, false},
		"of another UID, but as owner":  {&corev1.ObjectReference{APIVersion: machine, Kind: "Metal3Machine", Name: "m", UID: "earlier"}, "", "uid-of-m", false, false},
		"of another name, but as owner": {&corev1.ObjectReference{APIVersion: machine, Kind: "Metal3Machine", Name: "n"}, "", "uid-of-m", false, false},
		"by name in another version":    {&corev1.ObjectReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine", Name: "m"}, "", "", true, false},
		"of another UID":                {&corev1.ObjectReference{APIVersion: machine, Kind: "Metal3Machine", Name: "m", UID: "earlier"}, "uid-of-h", "", false, false},
		"of another UID, not stamped":   {&corev1.ObjectReference{APIVersion: machine, Kind: "Metal3Machine", Name: "m", UID: "earlier"}, "", "", false, false},
		"of another UID, from a move":   {&corev1.ObjectReference{APIVersion: machine, Kind: "Metal3Machine", Name: "m", UID: "earlier"}, "elsewhere", "", true, false},
		"of another name, from a move":  {&corev1.ObjectReference{APIVersion: machine, Kind: "Metal3Machine", Name: "n", UID: "uid-of-m"}, "elsewhere", "", false, false},
		"in another namespace":          {&corev1.ObjectReference{APIVersion: machine, Kind: "Metal3Machine", Namespace: "other", Name: "m"}, "", "", false, false},
		"of another kind":               {&corev1.ObjectReference{APIVersion: machine, Kind: "Metal3Cluster", Name: "m"}, "", "", false, false},
		"of another group":              {&corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "Metal3Machine", Name: "m"}, "", "", false, false},
		"of a version that is not such": {&corev1.ObjectReference{APIVersion: "a/b/c", Kind: "Metal3Machine", Name: "m"}, "", "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "h", UID: "uid-of-h"}}
			h.OwnerReferences = []metav1.OwnerReference{{APIVersion: machine, Kind: "Metal3Machine", Name: "m", UID: tt.owner}}
			h.Spec.ConsumerRef = tt.ref
			if tt.stamp != "" {
				h.Annotations = map[string]string{v1beta2.ConsumerHostUIDAnnotation: tt.stamp}
			}
			if got := related.Consumes(m, h); got != tt.consumes {
				t.Errorf("Consumes = %v, want %v", got, tt.consumes)
			}
			if got := related.ConsumesByUID(m, h); got != tt.sure {
				t.Errorf("ConsumesByUID = %v, want %v", got, tt.sure)
			}
		})
	}
}

func TestConsumerIsNoOwnerOfItsHost(t *testing.T) {
	pool := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Metal3Machine", Name: "m", UID: "uid-of-pool"}
	for name, change := range map[string]func(*v1alpha1.BareMetalHost){
		"set":     func(h *v1alpha1.BareMetalHost) { related.SetConsumer(h, &corev1.ObjectReference{Name: "m"}) },
		"cleared": related.ClearConsumer,
	} {
		h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "h", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine", Name: "m", UID: "uid-of-m", Controller: new(true)}, pool,
		}}}
		change(h)
		if len(h.OwnerReferences) != 1 || h.OwnerReferences[0] != pool {
			t.Errorf("%s: owners of the host are %+v, want only that of another group", name, h.OwnerReferences)
		}
	}
}
