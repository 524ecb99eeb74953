package capacity

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

const namespace = "metal"

// world is what is in a cluster, with a count of the writes of the reconciler.
type world struct {
	*testing.T
	client client.Client
	*Reconciler
	writes int
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, v1beta2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{T: t}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1beta2.Metal3MachineTemplate{}).Build()
	w.client = api
	w.Reconciler = New(Config{Client: interceptor.NewClient(api, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, part string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			w.writes++
			return c.SubResource(part).Patch(ctx, obj, patch, opts...)
		},
	})})
	return w
}

// pass makes a pass, checks the number of its writes, and returns what a template tells.
func (w *world) pass(writes int, name string) v1beta2.Metal3MachineTemplateStatus {
	w.Helper()
	w.writes = 0
	if _, err := w.Reconcile(w.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace}}); err != nil {
		w.Fatal(err)
	}
	if w.writes != writes {
		w.Errorf("%d writes, want %d", w.writes, writes)
	}
	var t v1beta2.Metal3MachineTemplate
	if err := w.client.Get(w.Context(), types.NamespacedName{Namespace: namespace, Name: name}, &t); err != nil {
		w.Fatal(err)
	}
	return t.Status
}

func (w *world) update(obj client.Object) {
	w.Helper()
	if err := w.client.Update(w.Context(), obj); err != nil {
		w.Fatal(err)
	}
}

// template selects the hosts of a pool.
func template(name, pool string, told v1beta2.Metal3MachineTemplateStatus) *v1beta2.Metal3MachineTemplate {
	t := &v1beta2.Metal3MachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Status: told}
	t.Spec.Template.Spec.HostSelector = &v1beta2.HostSelector{MatchLabels: map[string]string{"pool": pool}}
	return t
}

func host(name, pool string) *v1alpha1.BareMetalHost {
	return &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"pool": pool}}}
}

func hardware(name string, details *v1alpha1.HardwareDetails) *v1alpha1.HardwareData {
	return &v1alpha1.HardwareData{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.HardwareDataSpec{HardwareDetails: details},
	}
}

func (w *world) expect(want, got v1beta2.Metal3MachineTemplateStatus) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("the template tells something else (-want +got):\n%s", diff)
	}
}

func TestTemplateTellsTheLeastOfTheHostsThatItSelects(t *testing.T) {
	t.Parallel()
	tiny := machine(1, 1024, "aarch64")
	used, detached := host("used", "a"), host("detached", "a")
	used.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Name: "m"}
	used.Status.Provisioning.State = v1alpha1.StateProvisioned
	detached.Annotations = map[string]string{v1alpha1.DetachedAnnotation: ""}
	elsewhere, data := host("elsewhere", "a"), hardware("elsewhere", tiny)
	elsewhere.Namespace, data.Namespace = "other", "other"
	w := newWorld(
		t, template("workers", "a", v1beta2.Metal3MachineTemplateStatus{}), host("free", "a"), used, detached, host("unselected", "b"), host("unknown", "a"),
		host("uninspected", "a"), elsewhere, data, hardware("free", machine(32, 65536, "x86_64")), hardware("used", machine(16, 131072, "x86_64")),
		hardware("detached", tiny), hardware("unselected", tiny), hardware("uninspected", nil), hardware("without-host", tiny),
	)
	w.expect(status("amd64", "", "cpu", "16", "memory", "64Gi"), w.pass(1, "workers"))
}

func TestTemplateIsWrittenOncePerChangeOfWhatItTells(t *testing.T) {
	t.Parallel()
	h, data := host("h", "a"), hardware("h", machine(16, 65536, "x86_64"))
	w := newWorld(t, template("workers", "a", status("", "linux", "nvidia.com/gpu", "8")), template("others", "b", status("", "")), h, data)
	w.expect(status("amd64", "linux", "cpu", "16", "memory", "64Gi", "nvidia.com/gpu", "8"), w.pass(1, "workers"))
	w.pass(0, "workers") // nothing changed
	data.Spec.HardwareDetails.NICs = []v1alpha1.NIC{{Name: "eno1"}}
	w.update(data)
	w.pass(0, "workers") // nothing that is told
	data.Spec.HardwareDetails.CPU.Count, data.Spec.HardwareDetails.RAMMebibytes = 32, 131072
	w.update(data)
	w.expect(status("amd64", "linux", "cpu", "32", "memory", "128Gi", "nvidia.com/gpu", "8"), w.pass(1, "workers"))
	data.Spec.HardwareDetails.CPU.Arch = "sparc64"
	w.update(data)
	w.expect(status("", "linux", "cpu", "32", "memory", "128Gi", "nvidia.com/gpu", "8"), w.pass(1, "workers"))
	w.pass(0, "workers")
}

func TestTemplateKeepsWhatItTellsWhenItsLastHostGoes(t *testing.T) {
	t.Parallel()
	h := host("h", "a")
	w := newWorld(t, template("workers", "a", v1beta2.Metal3MachineTemplateStatus{}), h, hardware("h", machine(16, 65536, "x86_64")))
	want := status("amd64", "", "cpu", "16", "memory", "64Gi")
	w.expect(want, w.pass(1, "workers"))
	h.Labels["pool"] = "b"
	w.update(h)
	w.expect(want, w.pass(0, "workers"))
}

func TestWhatPeopleWroteStaysWhileNoHostIsInspected(t *testing.T) {
	t.Parallel()
	told := status("arm64", "linux", "cpu", "4", "memory", "8Gi")
	w := newWorld(t, template("workers", "a", told), host("h", "a"))
	w.expect(told, w.pass(0, "workers"))
}

func TestSomeTemplatesAreLeftAlone(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*v1beta2.Metal3MachineTemplate){
		"without the label of the filter": func(t *v1beta2.Metal3MachineTemplate) { t.Labels = nil },
		"with another label":              func(t *v1beta2.Metal3MachineTemplate) { t.Labels[clusterv1.WatchLabel] = "red" },
		"paused": func(t *v1beta2.Metal3MachineTemplate) {
			t.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		},
		"with a selector that is wrong": func(t *v1beta2.Metal3MachineTemplate) {
			t.Spec.Template.Spec.HostSelector = &v1beta2.HostSelector{MatchExpressions: []v1beta2.HostSelectorRequirement{{Key: "pool", Operator: "like"}}}
		},
		"being deleted": func(t *v1beta2.Metal3MachineTemplate) {
			t.DeletionTimestamp, t.Finalizers = new(metav1.Now()), []string{"example.com/keep"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left, written := template("left", "a", status("", "")), template("written", "a", status("", ""))
			for _, one := range []*v1beta2.Metal3MachineTemplate{left, written} {
				one.Labels = map[string]string{clusterv1.WatchLabel: "blue"}
			}
			edit(left)
			w := newWorld(t, left, written, host("h", "a"), hardware("h", machine(16, 65536, "x86_64")))
			w.Filter = "blue"
			w.expect(status("", ""), w.pass(1, "left"))
		})
	}
}

func TestOnlyChangesThatCanChangeWhatTemplatesTellAskForAPass(t *testing.T) {
	t.Parallel()
	type hostEdit = func(*v1alpha1.BareMetalHost)
	for name, tt := range map[string]struct {
		edit hostEdit
		want bool
	}{
		"label":    {func(h *v1alpha1.BareMetalHost) { h.Labels["rack"] = "7" }, true},
		"detached": {func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{v1alpha1.DetachedAnnotation: ""} }, true},
		"held off": {func(h *v1alpha1.BareMetalHost) {
			h.Annotations = map[string]string{v1alpha1.RebootAnnotationPrefix + "me": ""}
		}, true},
		"power":    {func(h *v1alpha1.BareMetalHost) { h.Status.PoweredOn = true }, false},
		"state":    {func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = v1alpha1.StateProvisioned }, false},
		"error":    {func(h *v1alpha1.BareMetalHost) { h.Status.ErrorType = v1alpha1.ErrorRegistration }, false},
		"consumer": {func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = &corev1.ObjectReference{Name: "m"} }, false},
	} {
		before := host("h", "a")
		before.Spec.BMC.Address, before.Status.Provisioning.State = "redfish://192.0.2.1/", v1alpha1.StateAvailable
		after := before.DeepCopy()
		tt.edit(after)
		if got := hostChanged(before, after); got != tt.want {
			t.Errorf("host: %s: %v, want %v", name, got, tt.want)
		}
	}
	for name, tt := range map[string]struct {
		edit func(*v1alpha1.HardwareDetails)
		want bool
	}{
		"processors":   {func(d *v1alpha1.HardwareDetails) { d.CPU.Count++ }, true},
		"memory":       {func(d *v1alpha1.HardwareDetails) { d.RAMMebibytes++ }, true},
		"architecture": {func(d *v1alpha1.HardwareDetails) { d.CPU.Arch = "aarch64" }, true},
		"disk":         {func(d *v1alpha1.HardwareDetails) { d.Storage = []v1alpha1.Storage{{Name: "/dev/sda"}} }, false},
	} {
		before := hardware("h", machine(16, 65536, "x86_64"))
		after := before.DeepCopy()
		tt.edit(after.Spec.HardwareDetails)
		if got := alone(before) != alone(after); got != tt.want {
			t.Errorf("hardware: %s: %v, want %v", name, got, tt.want)
		}
	}
	if alone(hardware("h", nil)) != (least{}) {
		t.Error("a host without hardware tells something")
	}
	for name, tt := range map[string]struct {
		edit func(*v1beta2.Metal3MachineTemplate)
		want bool
	}{
		"spec":  {func(t *v1beta2.Metal3MachineTemplate) { t.Generation++ }, true},
		"label": {func(t *v1beta2.Metal3MachineTemplate) { t.Labels = map[string]string{clusterv1.WatchLabel: "blue"} }, true},
		"pause": {func(t *v1beta2.Metal3MachineTemplate) {
			t.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, true},
		"status":             {func(t *v1beta2.Metal3MachineTemplate) { t.Status = status("amd64", "") }, true},
		"another annotation": {func(t *v1beta2.Metal3MachineTemplate) { t.Annotations = map[string]string{"a": "b"} }, false},
		"owner":              {func(t *v1beta2.Metal3MachineTemplate) { t.OwnerReferences = []metav1.OwnerReference{{Name: "edge"}} }, false},
	} {
		before := template("t", "a", status("", ""))
		after := before.DeepCopy()
		tt.edit(after)
		if got := templateChanged(before, after); got != tt.want {
			t.Errorf("template: %s: %v, want %v", name, got, tt.want)
		}
	}
}
