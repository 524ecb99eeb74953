package remediation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/fencing"
)

// life is a machine with its host and its Node, and a remediation of it. The host is powered as
// its annotations ask; kubelet and Kubernetes' controllers do what the Node needs. The clock
// moves by what passes ask to wait, and by nothing else. It begins now, because the API server in
// memory stamps deletions.
type life struct {
	testing.TB

	management, workload client.WithWatch
	r                    *Reconciler
	now                  time.Time
	events, notes        []string // their reasons and texts
	registry             *prometheus.Registry

	// version is that of the workload cluster; unreachable cuts that off.
	version     string
	unreachable error
	// doubt is why the Node may be another machine's.
	doubt string
	// searching is called when a pass has found a Node.
	searching func()
	// stuckPower keeps the host on whatever is asked, stuckPods keeps pods on the Node, and
	// dead keeps the system from starting.
	stuckPower, stuckPods, dead bool
	// cutOff means that what runs on the host now is not the Node any more.
	cutOff bool
	// fencing acts on the annotation of the Machine.
	fencing bool

	// writes counts the writes since the beginning, and inPass those of a pass. refuse is
	// asked before each write, and lose after it.
	writes, inPass int
	refuse, lose   func(n int) error
	// cycles counts how often the machine was powered off.
	cycles int
}

const ns = "metal"

func scheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, storagev1.AddToScheme, v1alpha1.AddToScheme, v1beta2.AddToScheme, clusterv1.AddToScheme} {
		if err := add(s); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

func named(name string, uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name, UID: uid}
}

func newLife(tb testing.TB, change func(*life, *v1beta2.Metal3Remediation)) *life {
	tb.Helper()
	l := &life{TB: tb, now: time.Now().Truncate(time.Second), version: "v1.33.1", fencing: true}
	cluster := &clusterv1.Cluster{ObjectMeta: named("edge", "c")}
	machine := &clusterv1.Machine{ObjectMeta: named("edge-0", "m"), Spec: clusterv1.MachineSpec{
		ClusterName:       "edge",
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Machine", Name: "edge-0"},
	}}
	machine.Status.NodeRef.Name = "web"
	machine.Status.Conditions = []metav1.Condition{{ // as the health check leaves it
		Type: clusterv1.MachineExternallyRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineExternallyRemediatedWaitingForRemediationReason,
	}}
	owner := []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "edge-0", UID: "m"}}
	m3m := &v1beta2.Metal3Machine{ObjectMeta: named("edge-0", "m3m")}
	m3m.OwnerReferences, m3m.Annotations = owner, map[string]string{v1beta2.HostAnnotation: ns + "/web"}
	host := &v1alpha1.BareMetalHost{ObjectMeta: named("web", "h"), Spec: v1alpha1.BareMetalHostSpec{
		Online: true, BMC: v1alpha1.BMCDetails{Address: "redfish://192.0.2.1"},
		ConsumerRef: &corev1.ObjectReference{APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3Machine", Namespace: ns, Name: "edge-0"},
	}, Status: v1alpha1.BareMetalHostStatus{PoweredOn: true}}
	m3r := &v1beta2.Metal3Remediation{ObjectMeta: named("edge-0", "r"), Spec: v1beta2.Metal3RemediationSpec{
		Strategy: &v1beta2.RemediationStrategy{Type: v1beta2.RebootRemediation, RetryLimit: 1, TimeoutSeconds: 600},
	}}
	m3r.OwnerReferences = owner
	if change != nil {
		change(l, m3r)
	}
	s := scheme(tb)
	l.management = fake.NewClientBuilder().WithScheme(s).WithObjects(cluster, machine, m3m, host, m3r).
		WithStatusSubresource(&v1alpha1.BareMetalHost{}, &v1beta2.Metal3Remediation{}, &clusterv1.Machine{}).Build()
	l.workload = fake.NewClientBuilder().WithScheme(s).WithObjects(l.newNode("n1"),
		pod("app", nil), pod("agent", []corev1.Toleration{{Operator: corev1.TolerationOpExists}}),
		&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "web"}},
		&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "db"}}).
		WithIndex(&corev1.Pod{}, podNodeField, func(o client.Object) []string {
			p, _ := o.(*corev1.Pod)
			return []string{p.Spec.NodeName}
		}).Build()
	l.patchNode(func(n *corev1.Node) { n.Labels["rack"], n.Annotations = "r1", map[string]string{"team": "db"} })
	l.restart()
	return l
}

// newNode is a Node as kubelet registers it.
func (l *life) newNode(uid types.UID) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: uid, Labels: map[string]string{"kubernetes.io/hostname": "web"}}}
}

func pod(name string, tolerations []corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: "web", Tolerations: tolerations}}
}

// restart replaces the reconciler.
func (l *life) restart() {
	c := l.watched(l.management, false)
	l.registry = prometheus.NewRegistry()
	metrics, err := NewMetrics(l.registry)
	if err != nil {
		l.Fatal(err)
	}
	l.r = New(Config{
		Client: c, Live: l.management, Workload: l, Recorder: l, Metrics: metrics, Now: func() time.Time { return l.now },
		FindNode: nodeByReference, ProvenOff: recordedOff, DoubtNode: l.doubtNode, Guard: fencing.NewGuard(l.management, l, nodeByReference),
	})
}

// nodeByReference finds the Node that a Machine names.
func nodeByReference(ctx context.Context, c client.Client, m *clusterv1.Machine, _ ...string) (*corev1.Node, error) {
	if m.Status.NodeRef.Name == "" {
		return nil, nil
	}
	var n corev1.Node
	err := c.Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, &n)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &n, err
}

func (l *life) doubtNode(context.Context, client.Reader, *clusterv1.Machine, *v1alpha1.BareMetalHost, *corev1.Node) (string, error) {
	if l.searching != nil {
		l.searching()
	}
	return l.doubt, nil
}

// recordedOff proves a host to be off by what its status says.
func recordedOff(h *v1alpha1.BareMetalHost, key, value string) error {
	for _, hold := range h.Status.PowerOffHolds {
		if hold.Key == key && hold.Value == value && hold.ConfirmedAt != nil && !h.Status.PoweredOn {
			return nil
		}
	}
	return errors.New("the BMC does not answer")
}

func (l *life) Client(context.Context, types.NamespacedName) (client.Client, error) {
	return l.watched(l.workload, true), l.unreachable
}

func (l *life) Version(context.Context, types.NamespacedName) (*version.Version, error) {
	return version.MustParseGeneric(l.version), l.unreachable
}

func (l *life) Eventf(_, _ runtime.Object, _, reason, _, _ string, args ...any) {
	l.events, l.notes = append(l.events, reason), append(l.notes, fmt.Sprint(args...))
	l.Logf("event %s: %v", reason, args)
}

// watched counts and refuses writes, and looks at what they do to Nodes.
func (l *life) watched(c client.WithWatch, nodes bool) client.Client {
	write := func(obj client.Object, do func() error) error {
		if l.inPass++; l.inPass > 1 {
			l.Errorf("a pass writes %T after another write", obj)
		}
		l.writes++
		if l.refuse != nil {
			if err := l.refuse(l.writes); err != nil {
				return err
			}
		}
		if err := validation.ValidateAnnotationsSize(obj.GetAnnotations()); err != nil { // as the API server does
			return apierrors.NewBadRequest(err.Error())
		}
		if err := do(); err != nil {
			return err
		}
		if nodes {
			l.checkNode()
		}
		if l.lose != nil {
			return l.lose(l.writes)
		}
		return nil
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			return write(obj, func() error { return c.Patch(ctx, obj, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return write(obj, func() error { return c.SubResource(sub).Patch(ctx, obj, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			var o client.DeleteOptions
			if o.ApplyOptions(opts); o.Preconditions == nil || o.Preconditions.UID == nil || *o.Preconditions.UID != obj.GetUID() {
				l.Errorf("%T is deleted without its UID as precondition", obj)
			}
			if l.host().Status.PoweredOn {
				l.Errorf("the Node is deleted while its machine is on")
			}
			l.checkHold(l.node())
			return write(obj, func() error { return c.Delete(ctx, obj) })
		},
	})
}

// checkNode fails when a Node is out of service whose machine may run.
func (l *life) checkNode() {
	n := l.node()
	if n == nil || !slices.ContainsFunc(n.Spec.Taints, isOutOfService) {
		return
	}
	if l.host().Status.PoweredOn {
		l.Errorf("the Node is out of service while its machine is on")
	}
	l.checkHold(n)
}

// checkHold fails if the host is held for another Node than the one that a pass touches.
func (l *life) checkHold(n *corev1.Node) {
	if m := l.remediation(); m != nil && holdStateOf(m, l.host()) == currentHold && !isHeldFor(m, l.host(), n) {
		l.Errorf("Node %s is touched with the hold %v", n.UID, l.host().Annotations)
	}
}

func get[T client.Object](l *life, c client.Client, key client.ObjectKey, obj T) (T, bool) {
	l.Helper()
	err := c.Get(l.Context(), key, obj)
	if err != nil && !apierrors.IsNotFound(err) {
		l.Fatal(err)
	}
	return obj, err == nil
}

func (l *life) host() *v1alpha1.BareMetalHost {
	h, _ := get(l, l.management, client.ObjectKey{Namespace: ns, Name: "web"}, &v1alpha1.BareMetalHost{})
	return h
}

func (l *life) machine() *clusterv1.Machine {
	m, _ := get(l, l.management, client.ObjectKey{Namespace: ns, Name: "edge-0"}, &clusterv1.Machine{})
	return m
}

// remediation is nil when it is gone.
func (l *life) remediation() *v1beta2.Metal3Remediation {
	m, there := get(l, l.management, client.ObjectKey{Namespace: ns, Name: "edge-0"}, &v1beta2.Metal3Remediation{})
	if !there {
		return nil
	}
	return m
}

// node is nil when there is none.
func (l *life) node() *corev1.Node {
	n, there := get(l, l.workload, client.ObjectKey{Name: "web"}, &corev1.Node{})
	if !there {
		return nil
	}
	return n
}

func (l *life) patchNode(change func(*corev1.Node)) {
	l.Helper()
	n := l.node()
	change(n)
	if err := l.workload.Update(l.Context(), n); err != nil {
		l.Fatal(err)
	}
}

// write changes an object as somebody else.
func (l *life) write(obj client.Object, change func()) {
	l.Helper()
	change()
	if err := l.management.Update(l.Context(), obj); err != nil {
		l.Fatal(err)
	}
}

// world does what the controllers of others do.
func (l *life) world() {
	l.Helper()
	ctx := l.Context()
	if l.fencing {
		l.fence()
	}
	h := l.host()
	before := h.DeepCopy()
	var held []v1alpha1.PowerOffHold
	at := metav1.NewTime(l.now)
	for key, value := range h.Annotations {
		if !strings.HasPrefix(key, v1alpha1.RebootAnnotationPrefix) {
			continue
		}
		hold := v1alpha1.PowerOffHold{Key: key, Value: value, RequestedAt: at, ConfirmedAt: &at}
		for _, known := range before.Status.PowerOffHolds {
			if known.Key == key && known.Value == value && known.ConfirmedAt != nil {
				hold = known
			}
		}
		if l.stuckPower {
			hold.ConfirmedAt = nil
		}
		held = append(held, hold)
	}
	h.Status.PowerOffHolds, h.Status.PoweredOn = held, h.Spec.Online && len(held) == 0 || l.stuckPower
	if before.Status.PoweredOn && !h.Status.PoweredOn {
		l.cycles++
	}
	if err := l.management.Status().Update(ctx, h); err != nil {
		l.Fatal(err)
	}
	if !l.cutOff {
		l.checkNode()
	}
	n := l.node()
	if n == nil && h.Status.PoweredOn && !l.dead {
		if err := l.workload.Create(ctx, l.newNode(types.UID(fmt.Sprintf("n%d", l.cycles+1)))); err != nil {
			l.Fatal(err)
		}
	}
	if n == nil || l.stuckPods || !slices.ContainsFunc(n.Spec.Taints, isOutOfService) {
		return
	}
	for _, obj := range []client.Object{pod("app", nil), &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}} {
		if err := client.IgnoreNotFound(l.workload.Delete(ctx, obj)); err != nil {
			l.Fatal(err)
		}
	}
}

// fence does what the annotation of the Machine asks for. It leaves a host alone that is off by other
// means.
func (l *life) fence() {
	m, h := l.machine(), l.host()
	_, asked := m.Annotations[v1beta2.ExternalRemediationAnnotation]
	_, held := h.Annotations[v1beta2.MachineRemediationAnnotation]
	switch {
	case asked && !held && h.Status.PoweredOn:
		l.write(h, func() { annotate(h, v1beta2.MachineRemediationAnnotation, `{"mode":"hard"}`) })
	case asked && held && !h.Status.PoweredOn:
		l.write(m, func() { delete(m.Annotations, v1beta2.ExternalRemediationAnnotation) })
	case held && !asked && !h.Status.PoweredOn:
		l.write(h, func() { delete(h.Annotations, v1beta2.MachineRemediationAnnotation) })
	}
}

// pass is one pass, after which the world goes on.
func (l *life) pass() {
	l.Helper()
	l.inPass = 0
	result, err := l.r.Reconcile(l.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: ns, Name: "edge-0"}})
	if err != nil {
		l.Logf("pass: %v", err)
	}
	l.now = l.now.Add(max(result.RequeueAfter, time.Second))
	l.world()
}

// maxPasses bounds the passes that a test waits for something.
const maxPasses = 120

// until makes passes until something is true.
func (l *life) until(what string, is func() bool) {
	l.Helper()
	for range maxPasses {
		if is() {
			return
		}
		l.pass()
	}
	l.Fatalf("%s did not happen: %+v, host %v, Machine %v, events %v", what, l.remediation(), l.host().Annotations, l.machine().Annotations, l.events)
}

func (l *life) untilPhase(want v1beta2.RemediationPhase) {
	l.Helper()
	l.until("phase "+string(want), func() bool { return l.remediation().Status.Phase == want })
}

// takeBack deletes the remediation, as the health check does, and waits until it is gone. If the
// remediation had begun, the Machine must no longer wait for it.
func (l *life) takeBack() {
	l.Helper()
	begun := len(l.remediation().Finalizers) > 0
	if err := l.management.Delete(l.Context(), l.remediation()); err != nil {
		l.Fatal(err)
	}
	l.until("end", func() bool { return l.remediation() == nil })
	if c := meta.FindStatusCondition(l.machine().Status.Conditions, clusterv1.MachineExternallyRemediatedCondition); begun && c != nil {
		l.Errorf("the Machine waits for remediation: %+v", c)
	}
}

// clean fails when anything is left of the remediation.
func (l *life) clean() {
	l.Helper()
	for range 5 {
		l.world()
	}
	h, n := l.host(), l.node()
	for key := range h.Annotations {
		if strings.HasPrefix(key, v1alpha1.RebootAnnotationPrefix) {
			l.Errorf("the host has %s", key)
		}
	}
	if !h.Status.PoweredOn {
		l.Error("the host is off")
	}
	if m := l.machine(); m.Annotations[v1beta2.ExternalRemediationAnnotation] != "" || m.Annotations[v1beta2.RequestedByAnnotation] != "" {
		l.Errorf("the Machine has %v", m.Annotations)
	}
	if n == nil || len(n.Spec.Taints) > 0 || n.Labels["rack"] != "r1" || n.Annotations["team"] != "db" || n.Annotations[v1beta2.OutOfServiceAnnotation] != "" {
		l.Errorf("the Node is %+v", n)
	}
}

// counted fails when a metric does not have this sum over its labels.
func (l *life) counted(name string, want float64) {
	l.Helper()
	families, err := l.registry.Gather()
	if err != nil {
		l.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	if sum != want {
		l.Errorf("%s is %v, want %v", name, sum, want)
	}
}

// told counts the events of a reason.
func (l *life) told(reason string) (n int) {
	for _, e := range l.events {
		if e == reason {
			n++
		}
	}
	return n
}

// shows waits until the condition says something.
func (l *life) shows(status metav1.ConditionStatus, reason string) {
	l.Helper()
	l.until(fmt.Sprintf("condition %s, %s", status, reason), func() bool {
		c := meta.FindStatusCondition(l.remediation().Status.Conditions, v1beta2.ProgressingCondition)
		return c != nil && c.Status == status && c.Reason == reason
	})
}

func (l *life) published(reason string) {
	l.Helper()
	if !slices.Contains(l.events, reason) {
		l.Errorf("events %v, want %s", l.events, reason)
	}
}
