package autoscale

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

type hostEdit func(*v1alpha1.BareMetalHost)

// host is a free host of a rack, changed by edits.
func host(name, rack string, edits ...hostEdit) v1alpha1.BareMetalHost {
	h := v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "metal", Labels: map[string]string{"rack": rack}, Annotations: map[string]string{}}}
	h.Spec.BMC.Address = "redfish://192.0.2.1/1"
	h.Status.Provisioning.State = v1alpha1.StateAvailable
	for _, edit := range edits {
		edit(&h)
	}
	return h
}

// usedBy makes a Metal3Machine or an owner the consumer of a host.
func usedBy(group, kind, name string) hostEdit {
	return func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: group + "/v1beta2", Kind: kind, Name: name, Namespace: "metal"}
	}
}

func usedByMachine(name string) hostEdit {
	return func(h *v1alpha1.BareMetalHost) {
		usedBy(v1beta2.GroupVersion.Group, "Metal3Machine", name)(h)
		h.Status.Provisioning.State = v1alpha1.StateProvisioned
	}
}

func hostAnnotation(key string) hostEdit {
	return func(h *v1alpha1.BareMetalHost) { h.Annotations[key] = "" }
}

func hostLabel(key, value string) hostEdit {
	return func(h *v1alpha1.BareMetalHost) { h.Labels[key] = value }
}

// follower is a set that selects the hosts of a rack and was created some minutes ago.
func follower(name, rack string, age int, edits ...func(*clusterv1.MachineDeployment)) *set {
	d := deployment(name, edits...)
	d.CreationTimestamp = metav1.NewTime(now.Add(-time.Duration(age) * time.Minute))
	s := asSet(d)
	s.template = template(rack)
	return s
}

// machinesOf are Machines of an owner with their Metal3Machines, which have their names.
func machinesOf(owner types.UID, names ...string) ([]clusterv1.Machine, []v1beta2.Metal3Machine) {
	var machines []clusterv1.Machine
	var infrastructure []v1beta2.Metal3Machine
	controls := true
	for _, name := range names {
		m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "metal", UID: types.UID("machine-" + name),
			OwnerReferences: []metav1.OwnerReference{{Kind: machineSetKind, UID: owner, Controller: &controls}},
		}}
		m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Machine", Name: name}
		machines = append(machines, m)
		infrastructure = append(infrastructure, v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "metal", OwnerReferences: []metav1.OwnerReference{{Kind: "Machine", UID: m.UID}},
		}})
	}
	return machines, infrastructure
}

// counted is what is counted for each set.
func counted(s *snapshot) map[string][3]int32 {
	oldestFirst(s.sets)
	refused := map[*set]*refusal{}
	for _, one := range s.sets {
		refused[one] = one.check()
	}
	numbers := map[string][3]int32{}
	for one, f := range s.count(refused) {
		numbers[one.GetName()] = [3]int32{f.inUse, f.returning, f.free}
	}
	return numbers
}

func TestHostsAreCountedOnceAndOnlyIfMachinesCanUseThem(t *testing.T) {
	t.Parallel()
	profile := v1alpha1.HardwareClassification{ObjectMeta: metav1.ObjectMeta{Name: "big"}, Spec: v1alpha1.HardwareClassificationSpec{
		HardwareCharacteristics: v1alpha1.HardwareCharacteristics{CPU: &v1alpha1.CPUCharacteristics{MinimumCount: 8}},
	}}
	big := &v1alpha1.HardwareData{Spec: v1alpha1.HardwareDataSpec{HardwareDetails: &v1alpha1.HardwareDetails{CPU: v1alpha1.CPU{Count: 8}}}}
	allHosts := annotate(v1beta2.AutoscaleToHostsAnnotation, v1beta2.AutoscaleAllHosts)
	type numbers = map[string][3]int32
	for name, tc := range map[string]struct {
		sets     []*set
		hosts    []v1alpha1.BareMetalHost
		profiles []v1alpha1.HardwareClassification
		hardware map[string]*v1alpha1.HardwareData
		deleted  bool // the Machines
		want     numbers
	}{
		"free ones that match": {
			sets: []*set{follower("d", "a", 1)}, hosts: []v1alpha1.BareMetalHost{host("1", "a"), host("2", "a"), host("3", "b")},
			want: numbers{"d": {0, 0, 2}},
		},
		"all": {
			sets: []*set{follower("d", "", 1, allHosts)}, hosts: []v1alpha1.BareMetalHost{host("1", "a"), host("2", "b")},
			want: numbers{"d": {0, 0, 2}},
		},
		"not those that cannot be used": {
			sets: []*set{follower("d", "a", 1)},
			hosts: []v1alpha1.BareMetalHost{
				host("1", "a", hostAnnotation(v1alpha1.PausedAnnotation)), host("2", "a", hostAnnotation(v1alpha1.UnhealthyAnnotation)),
				host("3", "a", hostLabel(v1alpha1.UnreviewedLabel, "")), host("4", "a", hostLabel(v1beta2.NodeReuseLabel, "md-x")),
				host("5", "a", usedBy("example.com", "Thing", "x")), host("6", "a", func(h *v1alpha1.BareMetalHost) { h.Status.ErrorMessage = "x" }),
				host("7", "a", func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = v1alpha1.StateInspecting }),
				host("8", "a", hostAnnotation(v1alpha1.RebootAnnotationPrefix+"me")),
			},
			want: numbers{"d": {0, 0, 0}},
		},
		"for the oldest set": {
			sets: []*set{follower("young", "a", 1), follower("old", "a", 2), follower("other", "b", 3)}, hosts: []v1alpha1.BareMetalHost{host("1", "a"), host("2", "a"), host("3", "b")},
			want: numbers{"young": {}, "old": {0, 0, 2}, "other": {0, 0, 1}},
		},
		"of one age, by name": {
			sets: []*set{follower("y", "a", 1), follower("x", "a", 1)}, hosts: []v1alpha1.BareMetalHost{host("1", "a")},
			want: numbers{"x": {0, 0, 1}, "y": {}},
		},
		"not for a refused set": {
			sets:  []*set{follower("young", "a", 1), follower("old", "a", 2, annotate(clusterv1.AutoscalerMaxSizeAnnotation, "3"))},
			hosts: []v1alpha1.BareMetalHost{host("1", "a")},
			want:  numbers{"young": {0, 0, 1}},
		},
		"for a paused set": {
			sets:  []*set{follower("young", "a", 1), follower("old", "a", 2, annotate(clusterv1.PausedAnnotation, ""))},
			hosts: []v1alpha1.BareMetalHost{host("1", "a")},
			want:  numbers{"old": {0, 0, 1}, "young": {}},
		},
		"in use": {
			sets: []*set{follower("d", "a", 1)},
			hosts: []v1alpha1.BareMetalHost{
				host("1", "a", usedByMachine("m1")), host("2", "b", usedByMachine("m2"), hostAnnotation(v1alpha1.UnhealthyAnnotation)),
				host("3", "a", usedByMachine("of-another")),
			},
			want: numbers{"d": {2, 0, 0}},
		},
		"coming back": {
			sets: []*set{follower("d", "a", 1)}, deleted: true,
			hosts: []v1alpha1.BareMetalHost{
				host("1", "a", usedByMachine("m1")), host("2", "a", usedByMachine("m2"), hostAnnotation(v1alpha1.UnhealthyAnnotation)),
				host("3", "b", usedByMachine("m3")), host("4", "a", usedBy(clusterv1.GroupVersion.Group, deploymentKind, "d")),
				host("5", "a", usedBy(clusterv1.GroupVersion.Group, deploymentKind, "d"), hostAnnotation(v1alpha1.DetachedAnnotation)),
				host("6", "a", usedBy(clusterv1.GroupVersion.Group, deploymentKind, "e")),
			},
			want: numbers{"d": {0, 2, 0}},
		},
		"reserved as Metal3's provider does": {
			sets: []*set{follower("d", "a", 1), follower("e", "a", 2)},
			hosts: []v1alpha1.BareMetalHost{
				host("1", "a", hostLabel(v1beta2.NodeReuseLabel, "md-d"), usedBy(clusterv1.GroupVersion.Group, "Cluster", "edge")),
				host("2", "a", hostLabel(v1beta2.NodeReuseLabel, "md-d")),
				host("3", "a", hostLabel(v1beta2.NodeReuseLabel, "md-d"), hostAnnotation(v1alpha1.DetachedAnnotation)),
				host("4", "b", hostLabel(v1beta2.NodeReuseLabel, "md-d")),
				host("5", "a", hostLabel(v1beta2.NodeReuseLabel, "cp-d")),
				host("6", "a", hostLabel(v1beta2.NodeReuseLabel, "md-x"), usedBy(clusterv1.GroupVersion.Group, "Cluster", "edge")),
			},
			want: numbers{"d": {0, 2, 0}, "e": {}},
		},
		"reserved by another provider": {
			sets: []*set{follower("d", "a", 1)}, hosts: []v1alpha1.BareMetalHost{host("1", "a", hostLabel(v1beta2.NodeReuseLabel, "x"))},
			want: numbers{"d": {0, 0, 0}},
		},
		"reserved for an earlier owner of its name": {
			sets: []*set{follower("d", "a", 1)},
			hosts: []v1alpha1.BareMetalHost{
				host("1", "a", hostLabel(v1beta2.NodeReuseLabel, "md-d"), usedBy(clusterv1.GroupVersion.Group, deploymentKind, "d"), func(h *v1alpha1.BareMetalHost) {
					h.UID, h.Spec.ConsumerRef.UID = "h1", "earlier"
					h.Annotations[v1beta2.ConsumerHostUIDAnnotation] = "h1"
				}),
				// The host and its owner were moved here from another management cluster.
				host("2", "a", usedBy(clusterv1.GroupVersion.Group, deploymentKind, "d"), func(h *v1alpha1.BareMetalHost) {
					h.UID, h.Spec.ConsumerRef.UID = "h2", "elsewhere"
					h.Annotations[v1beta2.ConsumerHostUIDAnnotation] = "there"
				}),
			},
			want: numbers{"d": {0, 1, 0}},
		},
		"those that are classified": {
			sets: []*set{follower("d", "a", 1)}, profiles: []v1alpha1.HardwareClassification{profile},
			hosts: []v1alpha1.BareMetalHost{host("1", "a", hostLabel(v1alpha1.ClassificationLabelPrefix+"big", "matches")), host("2", "a"), host("3", "a")},
			hardware: map[string]*v1alpha1.HardwareData{
				"1": big, "2": big, "3": {Spec: v1alpha1.HardwareDataSpec{HardwareDetails: &v1alpha1.HardwareDetails{CPU: v1alpha1.CPU{Count: 1}}}},
			},
			want: numbers{"d": {0, 0, 2}},
		},
		"not before the hardware is known": {
			sets: []*set{follower("d", "a", 1)}, profiles: []v1alpha1.HardwareClassification{profile}, hosts: []v1alpha1.BareMetalHost{host("1", "a")},
			want: numbers{"d": {}},
		},
	} {
		s := &snapshot{sets: tc.sets, hosts: tc.hosts, profiles: tc.profiles, hardware: tc.hardware}
		machines, infrastructure := machinesOf("set-of-d", "m1", "m2", "m3")
		if tc.deleted {
			for i := range machines {
				machines[i].DeletionTimestamp = &metav1.Time{Time: now}
			}
		}
		s.assignMachines(machines, infrastructure, map[types.UID]types.UID{"set-of-d": "d"})
		if diff := cmp.Diff(tc.want, counted(s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
