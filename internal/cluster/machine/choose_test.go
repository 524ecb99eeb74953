package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/eligible"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
)

const namespace = "metal"

// began is the time at which tests begin.
var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newMachine(name string) *v1beta2.Metal3Machine {
	m := &v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name)}}
	m.Spec.Image = v1beta2.Image{URL: "https://images/os.qcow2", Checksum: "abc", ChecksumType: "sha256", DiskFormat: "qcow2"}
	return m
}

// newHost is a host that can be chosen.
func newHost(name string, changes ...func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(began.Add(-time.Hour)),
	}}
	h.Spec.BMC = v1alpha1.BMCDetails{Address: "redfish://192.0.2.1/redfish/v1/Systems/1", CredentialsName: name + "-bmc"}
	h.Spec.AutomatedCleaningMode = v1alpha1.CleaningModeMetadata
	h.Status.OperationalStatus = v1alpha1.OperationalStatusOK
	h.Status.Provisioning.State = v1alpha1.StateAvailable
	for _, change := range changes {
		change(h)
	}
	return h
}

func annotated(key string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, "") }
}

func labelled(key, value string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { metav1.SetMetaDataLabel(&h.ObjectMeta, key, value) }
}

func inState(state v1alpha1.ProvisioningState) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = state }
}

func consumedBy(kind, name string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: v1beta2.GroupVersion.String(), Kind: kind, Name: name, Namespace: namespace}
	}
}

var owner = reuse.Owner{Kind: "MachineDeployment", APIVersion: "cluster.x-k8s.io/v1beta2", Namespace: namespace, Name: "workers", UID: "uid-of-workers"}

func reservedFor(owner reuse.Owner, at time.Time) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { reuse.Reservation{Owner: owner, At: at}.Apply(h) }
}

func wants(m *v1beta2.Metal3Machine) wanted {
	return wanted{machine: m, selector: labels.Everything()}
}

func TestEachObstacleKeepsAHostFromBeingChosen(t *testing.T) {
	other := owner
	other.Name, other.UID = "others", "uid-of-others"
	seen := map[string]bool{}
	for name, tt := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		owner  *reuse.Owner
		want   string
	}{
		"free":              {func(*v1alpha1.BareMetalHost) {}, nil, ""},
		"free in old words": {inState(v1alpha1.StateReady), nil, ""},
		"its own":           {consumedBy("Metal3Machine", "m-1"), nil, ""},
		"empty reference":   {func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = &corev1.ObjectReference{} }, nil, ""},
		"empty image": {func(h *v1alpha1.BareMetalHost) {
			h.Spec.Image, h.Spec.CustomDeploy = &v1alpha1.Image{}, &v1alpha1.CustomDeploy{}
		}, nil, ""},
		"reserved for its owner":      {reservedFor(owner, began), &owner, ""},
		"reserved for nobody's reuse": {reservedFor(owner, began), nil, "reserved for other owners"},
		"reserved for another owner":  {reservedFor(other, began), &owner, "reserved for other owners"},
		"labelled by Metal3":          {labelled(v1beta2.NodeReuseLabel, "md-workers"), nil, "reserved for other owners"},
		"labelled by Metal3 of old":   {labelled(v1beta2.NodeReuseLabel, "kcp-one"), nil, "reserved for other owners"},
		"labelled by somebody else":   {labelled(v1beta2.NodeReuseLabel, "one"), nil, "reserved by another provider"},
		"its own with such a label": {func(h *v1alpha1.BareMetalHost) {
			consumedBy("Metal3Machine", "m-1")(h)
			labelled(v1beta2.NodeReuseLabel, "one")(h)
		}, nil, ""},
		"not selected":       {labelled("rack", "b"), nil, "not selected by spec.hostSelector"},
		"deleted":            {func(h *v1alpha1.BareMetalHost) { h.DeletionTimestamp = new(metav1.NewTime(began)) }, nil, "being deleted"},
		"of another machine": {consumedBy("Metal3Machine", "m-2"), nil, "with another consumer"},
		"of an earlier machine": {func(h *v1alpha1.BareMetalHost) {
			consumedBy("Metal3Machine", "m-1")(h)
			claimedAs("earlier", h.UID)(h)
		}, nil, "of an earlier machine of the same name"},
		"of an object of another kind":    {consumedBy("Server", "m-1"), nil, "with another consumer"},
		"paused":                          {annotated(v1alpha1.PausedAnnotation), nil, "paused"},
		"unhealthy":                       {annotated(v1alpha1.UnhealthyAnnotation), nil, "marked as unhealthy"},
		"unhealthy in old words":          {annotated(v1beta2.LegacyUnhealthyAnnotation), nil, "marked as unhealthy"},
		"to be detached":                  {annotated(v1alpha1.DetachedAnnotation), nil, "detached"},
		"still detached":                  {func(h *v1alpha1.BareMetalHost) { h.Status.OperationalStatus = v1alpha1.OperationalStatusDetached }, nil, "detached"},
		"externally provisioned":          {inState(v1alpha1.StateExternallyProvisioned), nil, "externally provisioned"},
		"to be externally provisioned":    {func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }, nil, "externally provisioned"},
		"with an error message":           {func(h *v1alpha1.BareMetalHost) { h.Status.ErrorMessage = "x" }, nil, "with an error"},
		"with an error type":              {func(h *v1alpha1.BareMetalHost) { h.Status.ErrorType = v1alpha1.ErrorPowerManagement }, nil, "with an error"},
		"with the status of an error":     {func(h *v1alpha1.BareMetalHost) { h.Status.OperationalStatus = v1alpha1.OperationalStatusError }, nil, "with an error"},
		"never reconciled":                {inState(v1alpha1.StateNone), nil, "not available yet"},
		"inspecting":                      {inState(v1alpha1.StateInspecting), nil, "not available yet"},
		"preparing":                       {inState(v1alpha1.StatePreparing), nil, "not available yet"},
		"deprovisioning":                  {inState(v1alpha1.StateDeprovisioning), nil, "not available yet"},
		"provisioned":                     {inState(v1alpha1.StateProvisioned), nil, "not available yet"},
		"not reviewed":                    {labelled(v1alpha1.UnreviewedLabel, ""), nil, "waiting for a review"},
		"held off":                        {annotated(v1alpha1.RebootAnnotationPrefix + "me"), nil, "held off by an annotation"},
		"with an image":                   {func(h *v1alpha1.BareMetalHost) { h.Spec.Image = &v1alpha1.Image{URL: "https://x"} }, nil, "with an image of their own"},
		"with a custom deployment":        {func(h *v1alpha1.BareMetalHost) { h.Spec.CustomDeploy = &v1alpha1.CustomDeploy{Method: "x"} }, nil, "with an image of their own"},
		"without a BMC and not connected": {notConnected, nil, "without a BMC whose ramdisk does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			selector := v1beta2.HostSelector{MatchExpressions: []v1beta2.HostSelectorRequirement{{Key: "rack", Operator: "DoesNotExist"}}}
			w := wants(newMachine("m-1"))
			w.owner = tt.owner
			var err error
			if w.selector, err = selector.Selector(); err != nil {
				t.Fatal(err)
			}
			got := firstObstacle(w, newHost("h", tt.change))
			if got != tt.want {
				t.Errorf("obstacle %q, want %q", got, tt.want)
			}
			seen[got] = true
		})
	}
	for _, o := range obstacles {
		if !seen[o.what] {
			t.Errorf("no case for %q", o.what)
		}
	}
	for _, what := range eligible.Reasons() {
		if !seen[what] {
			t.Errorf("no case for %q", what)
		}
	}
}

func notConnected(h *v1alpha1.BareMetalHost) {
	h.Spec.BMC = v1alpha1.BMCDetails{}
	h.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.AvailableForProvisioningCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.AgentNotConnectedReason,
	}}
}

func names(hosts []*v1alpha1.BareMetalHost) string {
	var all []string
	for _, h := range hosts {
		all = append(all, h.Name)
	}
	return strings.Join(all, " ")
}

func list(hosts ...*v1alpha1.BareMetalHost) []v1alpha1.BareMetalHost {
	var all []v1alpha1.BareMetalHost
	for _, h := range hosts {
		all = append(all, *h)
	}
	return all
}

func TestReservedHostsAreRankedByFailureDomainThenTimeThenName(t *testing.T) {
	w := wants(newMachine("m-1"))
	w.owner, w.domain = &owner, "row-a"
	c := choose(w, list(
		newHost("late", reservedFor(owner, began.Add(time.Minute))),
		newHost("b", reservedFor(owner, began)),
		newHost("a", reservedFor(owner, began)),
		newHost("near", reservedFor(owner, began.Add(time.Hour)), labelled(v1beta2.FailureDomainLabel, "row-a")),
		newHost("free"),
	))
	if got, want := names(c.reserved), "near a b late"; got != want {
		t.Errorf("order %q, want %q", got, want)
	}
	if got := names(c.free); got != "free" {
		t.Errorf("free are %q, want the one that nobody reserved", got)
	}
}

func TestFreeHostsHaveTheSameOrderForOneMachineAndOthersForOthers(t *testing.T) {
	var hosts []*v1alpha1.BareMetalHost
	for i := range 12 {
		hosts = append(hosts, newHost(fmt.Sprintf("h-%02d", i)))
	}
	backwards := slices.Clone(hosts)
	slices.Reverse(backwards)
	firsts := map[string]bool{}
	for i := range 12 {
		w := wants(newMachine(fmt.Sprintf("m-%d", i)))
		order := choose(w, list(hosts...)).free
		if again := choose(w, list(backwards...)).free; names(again) != names(order) {
			t.Errorf("machine %d: order %q, and %q when the hosts come backwards", i, names(order), names(again))
		}
		firsts[order[0].Name] = true
	}
	if len(firsts) < 4 {
		t.Errorf("12 machines prefer only %d of 12 hosts", len(firsts))
	}
}

func TestHostsOfTheFailureDomainComeFirstAndOthersAreNotExcluded(t *testing.T) {
	w := wants(newMachine("m-1"))
	w.domain = "row-a"
	c := choose(w, list(newHost("x"), newHost("y", labelled(v1beta2.FailureDomainLabel, "row-b")), newHost("z", labelled(v1beta2.FailureDomainLabel, "row-a"))))
	if len(c.free) != 3 || c.free[0].Name != "z" {
		t.Errorf("order %q, want all with z first", names(c.free))
	}
}

func TestNoHostIsExplainedWithNumbers(t *testing.T) {
	c := choose(wants(newMachine("m-1")), list(
		newHost("a", inState(v1alpha1.StateInspecting)), newHost("b", annotated(v1alpha1.PausedAnnotation)), newHost("c", annotated(v1alpha1.PausedAnnotation)),
	))
	if got, want := c.none(namespace), "No host of 3 in namespace metal can be used: 2 paused, 1 not available yet."; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if got, want := (choice{}).none(namespace), "There are no hosts in namespace metal."; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}
