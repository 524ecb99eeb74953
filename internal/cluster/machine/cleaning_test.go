package machine

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
)

func TestCleaningModeOfTheTemplateReachesMachineAndHost(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	template := b.madeOf("workers", "")
	b.run()
	if mode := b.host("a").Spec.AutomatedCleaningMode; mode != v1alpha1.CleaningModeMetadata {
		t.Errorf("mode %q without one in the template", mode)
	}
	for _, deleted := range []bool{false, true} {
		mode := map[bool]string{false: v1beta2.CleaningModeDisabled, true: v1beta2.CleaningModeMetadata}[deleted]
		edit(b, template, func(template *v1beta2.Metal3MachineTemplate) {
			template.Spec.Template.Spec.AutomatedCleaningMode = mode
		})
		if deleted {
			b.remove()
		}
		b.passes()
		if got := b.host("a").Spec.AutomatedCleaningMode; string(got) != mode || b.machine().Spec.AutomatedCleaningMode != mode {
			t.Errorf("mode of the host %q, of the machine %q, want %q (deleted: %v)", got, b.machine().Spec.AutomatedCleaningMode, mode, deleted)
		}
	}
}

func TestEmptyCleaningModeOfTheTemplateLeavesThatOfTheMachine(t *testing.T) {
	b := newMachineBench(t, newHost("a"))
	b.madeOf("workers", "")
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) { m.Spec.AutomatedCleaningMode = v1beta2.CleaningModeDisabled })
	b.run()
	if own, got := b.machine().Spec.AutomatedCleaningMode, b.host("a").Spec.AutomatedCleaningMode; own != v1beta2.CleaningModeDisabled || got != v1alpha1.CleaningModeDisabled {
		t.Errorf("mode of the machine %q, of the host %q, want both disabled", own, got)
	}
	b.remove()
	b.passes()
	if h := b.host("a"); isSpecified(h) || h.Spec.AutomatedCleaningMode != v1alpha1.CleaningModeDisabled {
		t.Errorf("the host of the deleted machine has an image %v, and the cleaning mode %q", isSpecified(h), h.Spec.AutomatedCleaningMode)
	}
}

func TestChangedTemplateAsksForPassesOverTheMachinesThatWereMadeOfIt(t *testing.T) {
	b := newMachineBench(t)
	template := b.madeOf("workers", "")
	other := b.template("others", "")
	if got := b.r.ofTemplate(t.Context(), template); len(got) != 1 || got[0].Name != "m-1" {
		t.Errorf("requests %v for the template of the machine", got)
	}
	if got := b.r.ofTemplate(t.Context(), other); len(got) > 0 {
		t.Errorf("requests %v for another template", got)
	}
}

// template creates a template that wants reuse.
func (b *bench) template(name, cleaning string) *v1beta2.Metal3MachineTemplate {
	b.Helper()
	template := &v1beta2.Metal3MachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	template.Spec.NodeReuse = new(true)
	template.Spec.Template.Spec.AutomatedCleaningMode = cleaning
	if err := b.api.Create(b.Context(), template); err != nil {
		b.Fatal(err)
	}
	return template
}

// madeOf has the machine be made of a template, which it creates.
func (b *bench) madeOf(name, cleaning string) *v1beta2.Metal3MachineTemplate {
	b.Helper()
	template := b.template(name, cleaning)
	edit(b, b.machine(), func(m *v1beta2.Metal3Machine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.TemplateClonedFromNameAnnotation, name)
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.TemplateClonedFromGroupKindAnnotation, "Metal3MachineTemplate.infrastructure.cluster.x-k8s.io")
	})
	return template
}

// ownedByDeployment gives the machine an owner that names its template, and has hosts reserved for
// this owner by the real package reuse.
func (b *bench) ownedByDeployment(template string) *clusterv1.MachineDeployment {
	b.Helper()
	controls := func(kind, name string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: name, UID: uid, Controller: new(true)}}
	}
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: owner.Name, UID: owner.UID}}
	deployment.Spec.ClusterName = "edge"
	deployment.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3MachineTemplate", Name: template}
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "set", UID: "uid-of-set", OwnerReferences: controls("MachineDeployment", owner.Name, owner.UID)}}
	for _, obj := range []client.Object{deployment, set} {
		if err := b.api.Create(b.Context(), obj); err != nil {
			b.Fatal(err)
		}
	}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m-1"}}
	edit(b, machine, func(machine *clusterv1.Machine) {
		machine.Labels = map[string]string{clusterv1.ClusterNameLabel: "edge"}
		machine.OwnerReferences = controls("MachineSet", "set", set.UID)
	})
	b.r.Reuse = reuse.Reuse{Client: b.api, Live: b.api, Now: b.r.Now}
	return deployment
}

// removeMachine deletes the Machine with its Metal3Machine, as its owner does.
func (b *bench) removeMachine() {
	b.Helper()
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m-1"}}
	edit(b, machine, func(machine *clusterv1.Machine) { machine.Finalizers = []string{clusterv1.MachineFinalizer} })
	if err := b.api.Delete(b.Context(), machine); err != nil {
		b.Fatal(err)
	}
	b.remove()
}

func TestDisksOfAReservedHostAreKeptIfTheOldOrTheNewTemplateSaysSo(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{"", "", "metadata"}, // that of the host
		{"", "disabled", "disabled"},
		{"disabled", "", "disabled"},
		{"metadata", "disabled", "disabled"},
		{"disabled", "metadata", "disabled"},
		{"metadata", "", "metadata"},
		{"", "metadata", "metadata"},
	} {
		t.Run(fmt.Sprintf("old %q, new %q", tt.old, tt.new), func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			b.madeOf("old", tt.old)
			deployment := b.ownedByDeployment("old")
			b.run()
			b.template("new", tt.new)
			edit(b, deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.Name = "new" })
			b.removeMachine()
			b.passes()
			h := b.host("a")
			if !reuse.IsReserved(h) || isSpecified(h) || string(h.Spec.AutomatedCleaningMode) != tt.want {
				t.Errorf("host is reserved %v, has an image %v, and the cleaning mode %q; want it reserved and without image, with %q",
					reuse.IsReserved(h), isSpecified(h), h.Spec.AutomatedCleaningMode, tt.want)
			}
		})
	}
}

func TestDisksAreNotWipedByWhatTheCacheSaysOfTheTemplate(t *testing.T) {
	for name, kept := range map[string]bool{"host is reserved": true, "host is not reserved": false} {
		t.Run(name, func(t *testing.T) {
			b := newMachineBench(t, newHost("a"))
			template := b.madeOf("workers", "")
			if kept {
				b.ownedByDeployment("workers")
			}
			b.run()
			b.r.Client = interceptor.NewClient(b.api, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
					err := c.Get(ctx, key, obj, options...)
					if cached, ok := obj.(*v1beta2.Metal3MachineTemplate); ok {
						cached.Spec.Template.Spec.AutomatedCleaningMode = ""
					}
					return err
				},
			})
			if kept {
				b.r.Reuse = reuse.Reuse{Client: b.r.Client, Live: b.api, Now: b.r.Now}
			}
			edit(b, template, func(template *v1beta2.Metal3MachineTemplate) {
				template.Spec.Template.Spec.AutomatedCleaningMode = v1beta2.CleaningModeDisabled
			})
			b.removeMachine()
			b.passes()
			h := b.host("a")
			if reuse.IsReserved(h) != kept || isSpecified(h) || h.Spec.AutomatedCleaningMode != v1alpha1.CleaningModeDisabled {
				t.Errorf("host is reserved %v, has an image %v, and the cleaning mode %q", reuse.IsReserved(h), isSpecified(h), h.Spec.AutomatedCleaningMode)
			}
		})
	}
}
