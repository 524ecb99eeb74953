package reuse

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// start is a time at which all objects of the tests have existed for long.
var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

var (
	deployment = Owner{Kind: "MachineDeployment", APIVersion: "cluster.x-k8s.io/v1beta2", Namespace: "edge", Name: "one", UID: "deployment"}
	kubeadm    = Owner{Kind: "KubeadmControlPlane", APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Namespace: "edge", Name: "one", UID: "control-plane"}
	foreign    = Owner{Kind: "OtherControlPlane", APIVersion: "example.com/v1", Namespace: "edge", Name: "one", UID: "foreign"}
)

// host is a host of the namespace that is years old, with changes.
func host(name string, changes ...func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: "edge", Name: name, UID: types.UID("host-" + name), CreationTimestamp: metav1.NewTime(start.AddDate(-2, 0, 0)),
		Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "one", "row": "a"}, Annotations: map[string]string{},
	}}
	h.Status.Provisioning.State = v1alpha1.StateAvailable
	for _, change := range changes {
		change(h)
	}
	return h
}

func reservedFor(owner Owner, at time.Time) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { reserve(h, owner, at) }
}

func consumedBy(apiVersion, kind, name string, uid types.UID) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: "edge", Name: name, UID: uid}
	}
}

func labelled(value string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Labels[v1beta2.NodeReuseLabel] = value }
}

func annotated(key, value string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Annotations[key] = value }
}

// moved makes a host look as if it was brought from another management cluster at a time.
func moved(at time.Time) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.UID, h.CreationTimestamp = "moved", metav1.NewTime(at) }
}

func inState(state v1alpha1.ProvisioningState) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = state }
}

func withUID(o Owner, uid types.UID) Owner {
	o.UID = uid
	return o
}

func inNamespace(o Owner, namespace string) Owner {
	o.Namespace = namespace
	return o
}

func TestHostTellsWhomItIsReservedFor(t *testing.T) {
	const machine, cluster, core = "infrastructure.cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/v1beta1"
	type changes []func(*v1alpha1.BareMetalHost)
	for name, tt := range map[string]struct {
		changes  changes
		reserved bool
		owners   []Owner // of deployment, kubeadm and foreign
	}{
		"free host":                             {changes{}, false, nil},
		"empty consumer":                        {changes{consumedBy("", "", "", "")}, false, nil},
		"machine's host":                        {changes{consumedBy(machine, "Metal3Machine", "one", "")}, false, nil},
		"machine's host with a label left over": {changes{consumedBy(machine, "Metal3Machine", "one", ""), labelled("md-one"), annotated(v1beta2.ReservedAtAnnotation, "")}, false, nil},
		"another program's host":                {changes{consumedBy("example.com/v1", "Robot", "one", "")}, false, nil},
		"Cluster's host without a label":        {changes{consumedBy(cluster, "Cluster", "one", "")}, false, nil},
		"label of another scheme":               {changes{labelled("one")}, false, nil},
		"MachineDeployment's host with a label of another scheme": {changes{reservedFor(deployment, start), labelled("one")}, true, []Owner{deployment}},

		"for a MachineDeployment":                  {changes{reservedFor(deployment, start)}, true, []Owner{deployment}},
		"for a control plane of the same name":     {changes{reservedFor(kubeadm, start)}, true, []Owner{kubeadm}},
		"for a control plane of another group":     {changes{reservedFor(foreign, start)}, true, []Owner{foreign}},
		"in another version":                       {changes{reservedFor(deployment, start), consumedBy(core, "MachineDeployment", "one", "deployment")}, true, []Owner{deployment}},
		"consumer only, MachineDeployment":         {changes{consumedBy(cluster, "MachineDeployment", "one", "")}, true, []Owner{deployment}},
		"consumer only, KubeadmControlPlane":       {changes{consumedBy(kubeadm.APIVersion, "KubeadmControlPlane", "one", "")}, true, []Owner{kubeadm}},
		"consumer of any kind with the label":      {changes{consumedBy("example.com/v1", "OtherControlPlane", "one", ""), labelled("cp-one")}, true, []Owner{foreign}},
		"consumer of any kind with the annotation": {changes{consumedBy("example.com/v1", "OtherControlPlane", "one", ""), annotated(v1beta2.ReservedAtAnnotation, "")}, true, []Owner{foreign}},
		"consumer without a namespace": {changes{reservedFor(deployment, start), func(h *v1alpha1.BareMetalHost) {
			h.Spec.ConsumerRef.Namespace = ""
		}}, true, []Owner{deployment}},
		"owner in another namespace": {changes{reservedFor(inNamespace(deployment, "core"), start)}, true, nil},
		"owner of another name": {changes{reservedFor(deployment, start), func(h *v1alpha1.BareMetalHost) {
			h.Spec.ConsumerRef.Name = "two"
		}}, true, nil},

		"label with no consumer, md":       {changes{labelled("md-one")}, true, []Owner{deployment}},
		"label with no consumer, cp":       {changes{labelled("cp-one")}, true, []Owner{kubeadm, foreign}},
		"label of older versions":          {changes{labelled("kcp-one")}, true, []Owner{kubeadm, foreign}},
		"label with the Cluster, md":       {changes{labelled("md-one"), consumedBy(cluster, "Cluster", "one", "")}, true, []Owner{deployment}},
		"label with the Cluster, cp":       {changes{labelled("cp-one"), consumedBy(core, "Cluster", "one", "")}, true, []Owner{kubeadm, foreign}},
		"label with the Cluster, other":    {changes{labelled("md-two"), consumedBy(cluster, "Cluster", "one", "")}, true, nil},
		"consumer counts before the label": {changes{reservedFor(kubeadm, start), labelled("md-one")}, true, []Owner{kubeadm}},

		"earlier owner of that name":               {changes{reservedFor(withUID(deployment, "earlier"), start)}, true, nil},
		"UID from before a move":                   {changes{reservedFor(withUID(deployment, "elsewhere"), start), moved(start.Add(time.Hour))}, true, []Owner{deployment}},
		"other UID, written by another provider":   {changes{reservedFor(withUID(deployment, "elsewhere"), start), annotated(v1beta2.ConsumerHostUIDAnnotation, "")}, true, []Owner{deployment}},
		"without a UID":                            {changes{reservedFor(withUID(deployment, ""), start)}, true, []Owner{deployment}},
		"moved host, control plane, not the other": {changes{reservedFor(withUID(kubeadm, "elsewhere"), start), moved(start.Add(time.Hour))}, true, []Owner{kubeadm}},
	} {
		t.Run(name, func(t *testing.T) {
			h := host("a", tt.changes...)
			if got := IsReserved(h); got != tt.reserved {
				t.Errorf("IsReserved = %t, want %t", got, tt.reserved)
			}
			if got, want := IsForeign(h), strings.HasPrefix(name, "label of another scheme"); got != want {
				t.Errorf("IsForeign = %t, want %t", got, want)
			}
			var owners []Owner
			for _, o := range []Owner{deployment, kubeadm, foreign} {
				if ReservedFor(&o, h) {
					owners = append(owners, o)
				}
			}
			if diff := cmp.Diff(tt.owners, owners); diff != "" {
				t.Errorf("owners that it is reserved for (-want +got):\n%s", diff)
			}
			if ReservedFor(nil, h) {
				t.Error("reserved for a machine without owner")
			}
		})
	}
}

func TestLabelNamesItsOwnerWithinTheLengthOfLabels(t *testing.T) {
	long := strings.Repeat("a", 60)
	seen := map[string]bool{}
	for _, tt := range []struct{ kind, name, want string }{
		{"MachineDeployment", "one", "md-one"},
		{"KubeadmControlPlane", "one", "cp-one"},
		{"OtherControlPlane", "two", "cp-two"},
		{"MachineDeployment", long, "md-" + long},
		{"MachineDeployment", long + "b", ""},
		{"MachineDeployment", long + "c", ""},
		{"KubeadmControlPlane", long + "b", ""},
		{"MachineDeployment", strings.Repeat("a.", 100) + "z", ""},
	} {
		got := Owner{Kind: tt.kind, Name: tt.name}.label()
		if wrong := validation.IsValidLabelValue(got); len(wrong) > 0 {
			t.Errorf("label of %s %s: %q cannot be used: %s", tt.kind, tt.name, got, wrong)
		}
		if tt.want != "" && got != tt.want {
			t.Errorf("label of %s %s = %q, want %q", tt.kind, tt.name, got, tt.want)
		}
		if seen[got] {
			t.Errorf("label %q stands for two owners", got)
		}
		seen[got] = true
		if o := (Owner{Kind: tt.kind, APIVersion: "cluster.x-k8s.io/v1beta2", Namespace: "edge", Name: tt.name}); !ReservedFor(&o, host("a", labelled(got))) {
			t.Errorf("a host with the label of %s %s alone is not reserved for it", tt.kind, tt.name)
		}
	}
}

func TestReservationWritesConsumerLabelAndTime(t *testing.T) {
	h := host("a", consumedBy("infrastructure.cluster.x-k8s.io/v1beta2", "Metal3Machine", "m", "m"))
	h.Annotations = nil
	Reservation{Owner: kubeadm, At: start.In(time.FixedZone("", 3600))}.Apply(h)
	want := &corev1.ObjectReference{APIVersion: kubeadm.APIVersion, Kind: kubeadm.Kind, Namespace: "edge", Name: "one", UID: "control-plane"}
	if diff := cmp.Diff(want, h.Spec.ConsumerRef); diff != "" {
		t.Errorf("consumer (-want +got):\n%s", diff)
	}
	labels := map[string]string{"cluster.x-k8s.io/cluster-name": "one", "row": "a", v1beta2.NodeReuseLabel: "cp-one"}
	if diff := cmp.Diff(labels, h.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{v1beta2.ReservedAtAnnotation: "2026-03-01T12:00:00Z", v1beta2.ConsumerHostUIDAnnotation: "host-a"}, h.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if got := ReservedAt(h); !got.Equal(start) {
		t.Errorf("ReservedAt = %s, want %s", got, start)
	}

	Clear(h)
	if h.Spec.ConsumerRef == nil || len(h.Annotations) > 0 || len(h.Labels) != 2 {
		t.Errorf("after Clear: consumer %v, labels %v, annotations %v; want the consumer and the other labels", h.Spec.ConsumerRef, h.Labels, h.Annotations)
	}
}
