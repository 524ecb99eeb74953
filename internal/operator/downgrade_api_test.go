package operator_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/operator"
)

// hostInState creates a host with a status that nobody reconciles.
func (b *bench) hostInState(name string, state v1alpha1.ProvisioningState, id string) {
	b.Helper()
	h := &v1alpha1.BareMetalHost{ObjectMeta: b.meta(name)}
	b.create(h)
	before := h.DeepCopy()
	h.Status.OperationalStatus = v1alpha1.OperationalStatusDiscovered
	h.Status.Provisioning.State, h.Status.Provisioning.ID = state, id
	h.Status.Provisioning.Image.URL, h.Status.PoweredOn = "http://images/a", true
	if err := b.client.Status().Patch(b.Context(), h, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
}

func TestPrepareDowngradeResetsOnlyHostsThatAreImportingAndTellsOfThoseWithoutABMC(t *testing.T) {
	t.Parallel()
	config := controlplanetest.Start(t, controlplanetest.Options{}).Config()
	b := newBenchOn(t, config, func(o *operator.Options) { o.Controllers = []string{operator.GroupDiscovery} })
	hosts := map[string]v1alpha1.ProvisioningState{"linked": v1alpha1.StateImporting, "unlinked": v1alpha1.StateImporting}
	for _, state := range everyState {
		if state != v1alpha1.StateImporting {
			hosts["host-"+stateName(state)] = state
		}
	}
	statuses := map[string]v1alpha1.BareMetalHostStatus{}
	for name, state := range hosts {
		id := "id-of-" + name
		if name == "unlinked" {
			id = ""
		}
		b.hostInState(name, state, id)
		statuses[name] = b.host(name).Status
	}
	run := func(apply bool) (string, error) {
		var output bytes.Buffer
		err := operator.Downgrade{Config: config, Apply: apply, Output: &output}.Run(t.Context())
		return output.String(), err
	}
	check := func(when string, importing v1alpha1.ProvisioningState) {
		t.Helper()
		for name, state := range hosts {
			if state == v1alpha1.StateImporting {
				state = importing
			}
			got := b.host(name).Status
			want := statuses[name]
			want.Provisioning.State = state
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: status of host %s (-want +got):\n%s", when, name, diff)
			}
		}
	}

	output, err := run(false)
	if want := "Would reset host " + b.namespace + "/linked from importing to unmanaged; its link to node id-of-linked stays."; err != nil || !strings.Contains(output, want) || !strings.Contains(output, "with --yes") {
		t.Errorf("dry run: %v, output lacks %q or how to go on:\n%s", err, want, output)
	}
	check("after the dry run", v1alpha1.StateImporting)
	for _, state := range []v1alpha1.ProvisioningState{v1alpha1.StateProvisioned, v1alpha1.StateUnmanaged} {
		line := "registration error for host " + b.namespace + "/host-" + stateName(state) + ", which has no BMC"
		if told := strings.Contains(output, line); told != (state == v1alpha1.StateProvisioned) {
			t.Errorf("output tells of an error for a host that is %s: %v\n%s", state, told, output)
		}
	}

	kube := kubernetesOn(t, config)
	lease := holdLease(t, kube, b.namespace, "ingot-host", "operator-0")
	if output, err := run(true); err == nil || !strings.Contains(err.Error(), "lease "+b.namespace+"/ingot-host is held by operator-0") {
		t.Errorf("while an operator leads: error = %v\n%s", err, output)
	}
	check("while an operator leads", v1alpha1.StateImporting)

	release(t, kube, lease)
	output, err = run(true)
	if err != nil || strings.Count(output, "Reset host ") != 2 || !strings.Contains(output, "/unlinked from importing to unmanaged; without a link to a node.") {
		t.Errorf("with --yes: %v\n%s", err, output)
	}
	check("with --yes", v1alpha1.StateUnmanaged)
	if output, err := run(true); err != nil || !strings.Contains(output, "there is nothing to do") {
		t.Errorf("the second time: %v\n%s", err, output)
	}
}
