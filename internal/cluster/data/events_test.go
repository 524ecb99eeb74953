package data

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// newFake is an API server in memory with some objects.
func newFake(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, v1beta2.AddToScheme, clusterv1.AddToScheme, ipamv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1beta2.Metal3Data{}, &v1beta2.Metal3DataClaim{}).Build()
}

// newClaimed returns a claim of a machine that is gone, and the claim's data, which is ready.
func newClaimed() (*v1beta2.Metal3DataClaim, *v1beta2.Metal3Data) {
	claim := &v1beta2.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "metal", Name: "m-1", Finalizers: []string{v1beta2.DataClaimFinalizer},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3Machine", Name: "m-1", UID: "uid"}},
	}}
	d := &v1beta2.Metal3Data{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "t-0"}}
	d.Spec.Claim.Name, d.Status.Ready = claim.Name, true
	return claim, d
}

func TestDataOfAMachineThatIsGoneWarnsOnlyIfItsClaimStays(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1beta2.Metal3DataClaim)
		warns  bool
	}{
		"its claim goes, too": {func(c *v1beta2.Metal3DataClaim) { now := metav1.Now(); c.DeletionTimestamp = &now }, false},
		"its claim stays":     {func(*v1beta2.Metal3DataClaim) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			claim, d := newClaimed()
			cached := newFake(t, claim.DeepCopy(), d)
			tt.change(claim)
			recorder := events.NewFakeRecorder(10)
			r := newReconciler(Config{Client: cached, Live: newFake(t, claim), Recorder: recorder, Now: time.Now})
			key := client.ObjectKeyFromObject(d)
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			if err := cached.Get(t.Context(), key, d); err != nil {
				t.Fatal(err)
			}
			warned, problem := len(recorder.Events) > 0, d.Status.ErrorMessage != nil
			if warned != tt.warns || problem != tt.warns || !d.Status.Ready {
				t.Errorf("warned %v, ready %v, problem %v; want %v", warned, d.Status.Ready, problem, tt.warns)
			}
		})
	}
}

func TestEventsOfLongProblemsFitIntoAnEvent(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	text, _ := problemText(problemf("%s", strings.Repeat("€", maxMessage)))
	Config{Recorder: recorder}.warn(&v1beta2.Metal3Data{}, "RenderingFailed", "Render", nil, text)
	if e := <-recorder.Events; len(e) > maxNote+len("Warning RenderingFailed ") || strings.ContainsRune(e, '\uFFFD') {
		t.Errorf("event of %d bytes: %q", len(e), e)
	}
}
