package eligible_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/eligible"
)

// host is a host that can be used, changed by edits.
func host(edits ...func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "h", Labels: map[string]string{}, Annotations: map[string]string{}}}
	h.Spec.BMC.Address = "redfish://192.0.2.1/redfish/v1/Systems/1"
	h.Status.Provisioning.State = v1alpha1.StateAvailable
	h.Status.OperationalStatus = v1alpha1.OperationalStatusOK
	for _, edit := range edits {
		edit(h)
	}
	return h
}

func annotation(key string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Annotations[key] = "" }
}

func state(s v1alpha1.ProvisioningState) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.State = s }
}

func available(status metav1.ConditionStatus) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		h.Status.Conditions = []metav1.Condition{{Type: v1alpha1.AvailableForProvisioningCondition, Status: status}}
	}
}

func withoutBMC(h *v1alpha1.BareMetalHost) { h.Spec.BMC = v1alpha1.BMCDetails{} }

func TestHostsAreUsableUnlessSomethingSpeaksAgainstThem(t *testing.T) {
	t.Parallel()
	deleted := metav1.NewTime(time.Unix(1, 0))
	for name, c := range map[string]struct {
		host            *v1alpha1.BareMetalHost
		want, withdrawn string
	}{
		"available":                          {host: host()},
		"ready, as older operators write it": {host: host(state(v1alpha1.StateReady))},
		"powered off":                        {host: host(func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false })},
		"with a consumer":                    {host: host(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = &corev1.ObjectReference{Name: "m"} })},
		"with an empty image":                {host: host(func(h *v1alpha1.BareMetalHost) { h.Spec.Image = &v1alpha1.Image{} })},
		"available by its condition":         {host: host(available(metav1.ConditionTrue))},
		"engine away":                        {host: host(available(metav1.ConditionUnknown))},

		"deleted":           {host: host(func(h *v1alpha1.BareMetalHost) { h.DeletionTimestamp = &deleted }), want: eligible.Deleted, withdrawn: eligible.Deleted},
		"moved elsewhere":   {host: host(annotation(v1alpha1.DeletedForMoveAnnotation)), want: eligible.Paused, withdrawn: eligible.Paused},
		"paused":            {host: host(annotation(v1alpha1.PausedAnnotation)), want: eligible.Paused, withdrawn: eligible.Paused},
		"to be detached":    {host: host(annotation(v1alpha1.DetachedAnnotation)), want: eligible.Detached, withdrawn: eligible.Detached},
		"unhealthy":         {host: host(annotation(v1alpha1.UnhealthyAnnotation)), want: eligible.Unhealthy, withdrawn: eligible.Unhealthy},
		"unhealthy, older":  {host: host(annotation(v1beta2.LegacyUnhealthyAnnotation)), want: eligible.Unhealthy, withdrawn: eligible.Unhealthy},
		"detached":          {host: host(func(h *v1alpha1.BareMetalHost) { h.Status.OperationalStatus = v1alpha1.OperationalStatusDetached }), want: eligible.Detached, withdrawn: eligible.Detached},
		"taken out of care": {host: host(func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }), want: eligible.ExternallyProvisioned, withdrawn: eligible.ExternallyProvisioned},
		"not reviewed":      {host: host(func(h *v1alpha1.BareMetalHost) { h.Labels[v1alpha1.UnreviewedLabel] = "" }), want: eligible.Unreviewed, withdrawn: eligible.Unreviewed},

		"held off":                {host: host(annotation(v1alpha1.RebootAnnotationPrefix + "me")), want: eligible.Held, withdrawn: eligible.Held},
		"held off in old words":   {host: host(annotation(v1alpha1.RebootAnnotationPrefix+"me"), state(v1alpha1.StateReady)), want: eligible.Held, withdrawn: eligible.Held},
		"held off in use":         {host: host(annotation(v1alpha1.RebootAnnotationPrefix+"me"), state(v1alpha1.StateProvisioned)), want: eligible.NotAvailable},
		"to be restarted":         {host: host(annotation(v1alpha1.RebootAnnotation))},
		"held, and cannot be off": {host: host(annotation(v1alpha1.RebootAnnotationPrefix+"me"), func(h *v1alpha1.BareMetalHost) { h.Spec.DisablePowerOff = true })},
		"held, and without a BMC": {host: host(annotation(v1alpha1.RebootAnnotationPrefix+"me"), withoutBMC, available(metav1.ConditionTrue))},

		"error message":  {host: host(func(h *v1alpha1.BareMetalHost) { h.Status.ErrorMessage = "no power" }), want: eligible.Failed},
		"error type":     {host: host(func(h *v1alpha1.BareMetalHost) { h.Status.ErrorType = v1alpha1.ErrorPowerManagement }), want: eligible.Failed},
		"in error":       {host: host(func(h *v1alpha1.BareMetalHost) { h.Status.OperationalStatus = v1alpha1.OperationalStatusError }), want: eligible.Failed},
		"with an image":  {host: host(func(h *v1alpha1.BareMetalHost) { h.Spec.Image = &v1alpha1.Image{URL: "http://x"} }), want: eligible.Deployed},
		"custom deploy":  {host: host(func(h *v1alpha1.BareMetalHost) { h.Spec.CustomDeploy = &v1alpha1.CustomDeploy{Method: "m"} }), want: eligible.Deployed},
		"in maintenance": {host: host(available(metav1.ConditionFalse)), want: eligible.NotAvailable},

		"no BMC, ramdisk alive":   {host: host(withoutBMC, available(metav1.ConditionTrue))},
		"no BMC, ramdisk silent":  {host: host(withoutBMC, available(metav1.ConditionFalse)), want: eligible.NoAgent},
		"no BMC, engine away":     {host: host(withoutBMC, available(metav1.ConditionUnknown)), want: eligible.NoAgent},
		"no BMC, nothing is said": {host: host(withoutBMC), want: eligible.NoAgent},
		"the person comes first":  {host: host(annotation(v1alpha1.PausedAnnotation), state(v1alpha1.StateInspecting)), want: eligible.Paused, withdrawn: eligible.Paused},
	} {
		if got := eligible.Unusable(c.host); got != c.want {
			t.Errorf("%s: unusable because %q, want %q", name, got, c.want)
		}
		if c.want != "" && !slices.Contains(eligible.Reasons(), c.want) {
			t.Errorf("%s: %q is not among the reasons", name, c.want)
		}
		if c.want != "" && !eligible.Is(c.want, c.host) {
			t.Errorf("%s: %q does not hold", name, c.want)
		}
		if got := eligible.Withdrawn(c.host); got != c.withdrawn {
			t.Errorf("%s: withdrawn because %q, want %q", name, got, c.withdrawn)
		}
	}
}

func TestAReasonHoldsWhateverOthersThereAre(t *testing.T) {
	t.Parallel()
	h := host(annotation(v1alpha1.PausedAnnotation), annotation(v1alpha1.UnhealthyAnnotation), state(v1alpha1.StateInspecting))
	holds := map[string]bool{eligible.Paused: true, eligible.Unhealthy: true, eligible.NotAvailable: true}
	for _, because := range eligible.Reasons() {
		if got := eligible.Is(because, h); got != holds[because] {
			t.Errorf("%q holds: %v", because, got)
		}
	}
}

func TestHostsOfOtherStatesAreNotAvailable(t *testing.T) {
	t.Parallel()
	for _, s := range []v1alpha1.ProvisioningState{
		v1alpha1.StateNone, v1alpha1.StateUnmanaged, v1alpha1.StateImporting, v1alpha1.StateRegistering, v1alpha1.StateMatchProfile,
		v1alpha1.StateInspecting, v1alpha1.StatePreparing, v1alpha1.StateProvisioning, v1alpha1.StateProvisioned,
		v1alpha1.StateDeprovisioning, v1alpha1.StatePoweringOffBeforeDelete, v1alpha1.StateDeleting,
	} {
		if got := eligible.Unusable(host(state(s))); got != eligible.NotAvailable {
			t.Errorf("in state %q: unusable because %q, want %q", s, got, eligible.NotAvailable)
		}
	}
	if got := eligible.Unusable(host(state(v1alpha1.StateExternallyProvisioned))); got != eligible.ExternallyProvisioned {
		t.Errorf("unusable because %q, want %q", got, eligible.ExternallyProvisioned)
	}
}
