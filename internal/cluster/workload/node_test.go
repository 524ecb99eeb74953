package workload

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

const (
	hostUID    = "11111111-1111-4111-8111-111111111111"
	anotherUID = "22222222-2222-4222-8222-222222222222"
	ownID      = "metal3://metal/host-1/machine-1"
	uidID      = "metal3://" + hostUID
	foreignID  = "metal3://metal/host-1/machine-0"
)

func node(name, providerID string, labels ...string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	for i := 0; i < len(labels); i += 2 {
		metav1.SetMetaDataLabel(&n.ObjectMeta, labels[i], labels[i+1])
	}
	return n
}

func TestNodeOfAMachineIsFoundByTheStrongestEvidence(t *testing.T) {
	const uuid = v1beta2.NodeHostLabel
	known := identity{nodeName: "n", providerIDs: []string{ownID, uidID}, hostUID: hostUID, names: []string{"host-1", "machine-1"}}
	for _, tt := range []struct {
		name    string
		nodes   []corev1.Node
		want    string // name of the Node
		by      evidence
		foreign []string
		error   string
	}{
		{name: "no Nodes"},
		{name: "Nodes of others", nodes: []corev1.Node{node("a", foreignID), node("b", "")}},
		{name: "provider ID", nodes: []corev1.Node{node("a", ""), node("b", ownID), node("host-1", "")}, want: "b"},
		{name: "provider ID of the host's UID", nodes: []corev1.Node{node("b", uidID), node("host-1", "")}, want: "b"},
		{name: "the first provider ID", nodes: []corev1.Node{node("b", uidID), node("c", ownID)}, want: "c"},
		{name: "two with the provider ID", nodes: []corev1.Node{node("b", ownID), node("c", ownID)}, error: "Nodes b (provider ID \"" + ownID + "\"), c ("},
		{name: "name of nodeRef", nodes: []corev1.Node{node("n", ""), node("host-1", ""), node("a", "", uuid, hostUID)}, want: "n", by: byNodeRef},
		{name: "name of nodeRef of another", nodes: []corev1.Node{node("n", foreignID)}, foreign: []string{"n"}},
		{name: "provider ID before the name of nodeRef", nodes: []corev1.Node{node("n", foreignID), node("b", ownID)}, want: "b"},
		{name: "label", nodes: []corev1.Node{node("a", "", uuid, hostUID), node("host-1", "")}, want: "a", by: byHostUID},
		{name: "label of another machine", nodes: []corev1.Node{node("a", foreignID, uuid, hostUID)}, foreign: []string{"a"}},
		{name: "label of another host", nodes: []corev1.Node{node("a", "", uuid, anotherUID)}},
		{name: "two with the label", nodes: []corev1.Node{node("a", "", uuid, hostUID), node("b", "", uuid, hostUID)}, error: "Nodes a (no provider ID), b (no provider ID) can all be"},
		{name: "one with the label left", nodes: []corev1.Node{node("a", foreignID, uuid, hostUID), node("b", "", uuid, hostUID)}, want: "b", by: byHostUID},
		{name: "name of the host", nodes: []corev1.Node{node("host-1", "")}, want: "host-1", by: byName},
		{name: "name of the Metal3Machine", nodes: []corev1.Node{node("machine-1", "")}, want: "machine-1", by: byName},
		{name: "both names", nodes: []corev1.Node{node("host-1", ""), node("machine-1", "")}, error: "Nodes host-1 ("},
		{name: "name, and label of another host", nodes: []corev1.Node{node("host-1", "", uuid, anotherUID)}},
		{name: "name, and another provider ID", nodes: []corev1.Node{node("host-1", foreignID)}, foreign: []string{"host-1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := known.choose(tt.nodes)
			var ambiguous *ambiguousError
			if tt.error != "" {
				if !errors.As(err, &ambiguous) || !strings.HasPrefix(err.Error(), tt.error) || f.node != nil {
					t.Fatalf("Node %v, error %v, want %q", f.node, err, tt.error)
				}
				return
			}
			got := ""
			if f.node != nil {
				got = f.node.Name
			}
			var foreign []string
			for _, n := range f.foreign {
				foreign = append(foreign, n.Name)
			}
			if err != nil || got != tt.want || f.node != nil && f.by != tt.by || !slices.Equal(foreign, tt.foreign) {
				t.Errorf("Node %q by %d, foreign %v, error %v; want %q by %d, foreign %v", got, f.by, foreign, err, tt.want, tt.by, tt.foreign)
			}
		})
	}
}

func TestNothingIsKnownOfAMachineWithoutIdentity(t *testing.T) {
	f, err := identity{providerIDs: []string{""}}.choose([]corev1.Node{node("a", ""), node("b", ownID)})
	if f.node != nil || err != nil {
		t.Errorf("Node %v, error %v", f.node, err)
	}
}

func host(labels ...string) *v1alpha1.BareMetalHost {
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "host-1", UID: hostUID}}
	for i := 0; i < len(labels); i += 2 {
		metav1.SetMetaDataLabel(&h.ObjectMeta, labels[i], labels[i+1])
	}
	return h
}

func metal3Machine(name, hostName string) *v1beta2.Metal3Machine {
	return &v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "metal", Name: name, UID: types.UID(name), Annotations: map[string]string{v1beta2.HostAnnotation: "metal/" + hostName},
	}}
}

func TestProviderIDsOfAMachine(t *testing.T) {
	const movedID = "metal3://" + anotherUID
	for _, tt := range []struct {
		has   string
		want  []string
		error bool
	}{
		{"", []string{ownID, uidID}, false},
		{ownID, []string{ownID, uidID}, false},
		{uidID, []string{uidID, ownID}, false},
		{movedID, []string{movedID, ownID, uidID}, false}, // the host had this UID in another cluster
		{foreignID, nil, true},
		{"metal3://host-1", nil, true},
		{"kind://docker/a/b", nil, true},
		{"metal3://", nil, true},
	} {
		m := metal3Machine("machine-1", "host-1")
		m.Spec.ProviderID = tt.has
		got, err := providerIDs(m, host())
		if !slices.Equal(got, tt.want) || (err != nil) != tt.error {
			t.Errorf("with %q: %v, error %v; want %v", tt.has, got, err, tt.want)
		}
	}
}

func TestNodeThatOnlyItsNameTellsHasARival(t *testing.T) {
	m := metal3Machine("machine-1", "host-1")
	for _, tt := range []struct {
		name  string
		node  string
		other *v1beta2.Metal3Machine
		want  bool
	}{
		{"another machine on another host", "host-1", metal3Machine("machine-2", "host-2"), false},
		{"another machine of that name", "host-1", metal3Machine("host-1", "host-2"), true},
		{"another machine on a host of that name", "machine-1", metal3Machine("machine-2", "machine-1"), true},
		{"itself", "host-1", m, false},
	} {
		n := node(tt.node, "")
		if got := rival(&n, m, []v1beta2.Metal3Machine{*m, *tt.other}); (got != nil) != tt.want {
			t.Errorf("%s: %v, want one: %t", tt.name, got, tt.want)
		}
	}
}

func TestPrefixesOfLabelsAreParsed(t *testing.T) {
	for _, tt := range []struct {
		annotation        string
		prefixes, ignored []string
	}{
		{"", nil, nil},
		{" , ,", nil, nil},
		{"rack.example.com", []string{"rack.example.com"}, nil},
		{" rack.example.com/ ,zone,zone", []string{"rack.example.com", "zone"}, nil},
		{"a,B!,a/b,-c", []string{"a"}, []string{"B!", "a/b", "-c"}},
	} {
		prefixes, ignored := parsePrefixes(tt.annotation)
		if !slices.Equal(prefixes, tt.prefixes) || !slices.Equal(ignored, tt.ignored) {
			t.Errorf("%q: %v, ignored %v; want %v, ignored %v", tt.annotation, prefixes, ignored, tt.prefixes, tt.ignored)
		}
	}
}

func TestNodeGetsTheLabelsOfItsHost(t *testing.T) {
	type labels = map[string]string
	const role = "node-role.kubernetes.io/storage"
	for _, tt := range []struct {
		name       string
		annotation string
		host, node labels
		synced     string // annotation of the Node before
		want       labels
		wantSynced string
	}{
		{name: "no prefixes", host: labels{"a.b/c": "1"}, node: labels{"a.b/d": "1"}, want: labels{"a.b/d": "1"}},
		{name: "no prefixes any more", host: labels{role: ""}, node: labels{role: ""}, synced: role, want: labels{role: ""}, wantSynced: role},
		{name: "added to a Node without labels", annotation: "a.b", host: labels{"a.b/c": "1", "c": "2", "b/a": "3"}, want: labels{"a.b/c": "1"}},
		{name: "changed", annotation: "a.b", host: labels{"a.b/c": "2"}, node: labels{"a.b/c": "1", "x": "y"}, want: labels{"a.b/c": "2", "x": "y"}},
		{name: "removed", annotation: "a.b", node: labels{"a.b/c": "1", "x.a.b/c": "1", "a.bc/d": "1"}, want: labels{"x.a.b/c": "1", "a.bc/d": "1"}},
		{name: "several prefixes", annotation: "a, b", host: labels{"a/1": "x", "b/1": "y"}, node: labels{"b/2": "z"}, want: labels{"a/1": "x", "b/1": "y"}},
		{name: "the label of the host's UID stays", annotation: "metal3.io", node: labels{v1beta2.NodeHostLabel: hostUID, "metal3.io/a": "b"}, want: labels{v1beta2.NodeHostLabel: hostUID}},
		{name: "labels of Kubernetes that are not listed", annotation: "a", host: labels{"kubernetes.io/hostname": "x", role: ""}, node: labels{"kubernetes.io/hostname": "n"}, want: labels{"kubernetes.io/hostname": "n"}},
		{name: "the domain does not stand for those below", annotation: "kubernetes.io", host: labels{role: ""}, node: labels{"kubernetes.io/hostname": "n"}, want: labels{"kubernetes.io/hostname": "n"}},
		{name: "listed label of Kubernetes", annotation: "node-role.kubernetes.io", host: labels{role: ""}, node: labels{"node-role.kubernetes.io/control-plane": ""}, want: labels{role: "", "node-role.kubernetes.io/control-plane": ""}, wantSynced: role},
		{name: "listed label of Kubernetes is removed", annotation: "node-role.kubernetes.io", node: labels{role: "", "node-role.kubernetes.io/control-plane": ""}, synced: role, want: labels{"node-role.kubernetes.io/control-plane": ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, n, cluster := host(), node("n", ownID), &v1beta2.Metal3Cluster{}
			h.Labels, n.Labels = tt.host, tt.node
			if tt.synced != "" {
				n.Annotations = labels{v1beta2.SyncedLabelsAnnotation: tt.synced}
			}
			cluster.Annotations = labels{v1beta2.LabelSyncPrefixesAnnotation: tt.annotation}
			wants, _ := want(ownID, h, cluster)
			before := n.DeepCopy()
			got := wants.of(&n)
			if diff := cmp.Diff(tt.want, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if synced := got.Annotations[v1beta2.SyncedLabelsAnnotation]; synced != tt.wantSynced {
				t.Errorf("annotation %q, want %q", synced, tt.wantSynced)
			}
			if diff := cmp.Diff(before, &n); diff != "" {
				t.Errorf("the Node that was read changed:\n%s", diff)
			}
			if again := wants.of(got); again != got {
				t.Errorf("the Node changes again:\n%s", cmp.Diff(got, again))
			}
		})
	}
}

func TestNodeGetsItsProviderIDAndLosesTheTaintWithoutACloudProvider(t *testing.T) {
	yes, no := true, false
	taints := []corev1.Taint{{Key: uninitializedTaint, Effect: corev1.TaintEffectNoSchedule}, {Key: "other", Effect: corev1.TaintEffectNoExecute}}
	for _, tt := range []struct {
		name    string
		enabled *bool
		has     string
		taints  []corev1.Taint
		want    string
		left    []corev1.Taint
		same    bool
	}{
		{name: "new", taints: taints, want: ownID, left: taints[1:]},
		{name: "cloud provider disabled", enabled: &no, taints: taints, want: ownID, left: taints[1:]},
		{name: "cloud provider enabled", enabled: &yes, taints: taints, left: taints, same: true},
		{name: "taint alone", has: ownID, taints: taints[:1], want: ownID},
		{name: "provider ID alone", taints: taints[1:], want: ownID, left: taints[1:]},
		{name: "an ID by the UID is kept", has: uidID, want: uidID, same: true},
		{name: "nothing", has: ownID, taints: taints[1:], want: ownID, left: taints[1:], same: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := node("n", tt.has)
			n.Spec.Taints = slices.Clone(tt.taints)
			wants, _ := want(ownID, host(), &v1beta2.Metal3Cluster{Spec: v1beta2.Metal3ClusterSpec{CloudProviderEnabled: tt.enabled}})
			got := wants.of(&n)
			if got.Spec.ProviderID != tt.want || len(got.Spec.Taints) != len(tt.left) || len(tt.left) > 0 && cmp.Diff(got.Spec.Taints, tt.left) != "" || (got == &n) != tt.same {
				t.Errorf("provider ID %q, taints %v, unchanged %t; want %q, %v, %t", got.Spec.ProviderID, got.Spec.Taints, got == &n, tt.want, tt.left, tt.same)
			}
		})
	}
}

func TestMessagesOfMissingNodesSayWhatToDo(t *testing.T) {
	id := identity{providerIDs: []string{ownID}, hostUID: hostUID, names: []string{"host-1", "host-1"}}
	if r := absent(id, nil); r.Reason != v1beta2.WaitingForNodeReason || strings.Contains(r.Message, "host-1 or host-1") || !strings.Contains(r.Message, ownID) {
		t.Errorf("%+v", r)
	}
	foreign := node("host-1", foreignID)
	if r := absent(id, []*corev1.Node{&foreign}); r.Reason != v1beta2.ProviderIDMismatchReason || !strings.Contains(r.Message, "delete it") || !strings.Contains(r.Message, foreignID) {
		t.Errorf("%+v", r)
	}
}
