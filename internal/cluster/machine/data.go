package machine

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/cluster/data"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

// data puts the Secrets of the machine into its status, and reports whether all of them are known.
// For a machine with a data template, it makes a Metal3DataClaim and waits for the Metal3Data.
func (p *pass) data(ctx context.Context) (bool, error) {
	var rendered secrets
	if needsData(p.m) {
		d, err := p.renderedData(ctx)
		if err != nil || d == nil {
			return false, err
		}
		p.m.Status.RenderedData = &v1beta2.ObjectReference{Namespace: d.Namespace, Name: d.Name}
		rendered = secrets{metaData: within(d.Namespace, d.Spec.MetaData), networkData: within(d.Namespace, d.Spec.NetworkData)}
	}
	s := secretsOf(p.m, p.machine, rendered)
	// The host may have the user data of a Machine that is gone.
	if p.machine == nil {
		s.userData = cmp.Or(s.userData, p.m.Status.UserData)
	}
	p.m.Status.UserData, p.m.Status.MetaData, p.m.Status.NetworkData = s.userData, s.metaData, s.networkData
	switch {
	case needsData(p.m):
		p.set(v1beta2.Metal3DataReadyCondition, true, reason{v1beta2.Metal3DataSecretsReadyReason, ""})
	case p.m.Spec.MetaData != nil || p.m.Spec.NetworkData != nil:
		p.set(v1beta2.Metal3DataReadyCondition, true, reason{v1beta2.SecretsSetExternallyReason, ""})
	default:
		meta.RemoveStatusCondition(&p.m.Status.Conditions, v1beta2.Metal3DataReadyCondition)
	}
	return true, nil
}

// needsData reports whether data has to be rendered for a machine.
func needsData(m *v1beta2.Metal3Machine) bool {
	return m.Spec.DataTemplate != nil && m.Spec.DataTemplate.Name != "" && (m.Spec.MetaData == nil || m.Spec.NetworkData == nil)
}

// renderedData returns the data that was rendered for the machine. If it is nil, the condition says
// why.
func (p *pass) renderedData(ctx context.Context) (*v1beta2.Metal3Data, error) {
	claim, err := p.dataClaim(ctx)
	if err != nil {
		return nil, err
	}
	if !related.IsOwnedBy(claim, p.m) {
		p.noData("Metal3DataClaim %s belongs to another owner, such as an earlier machine of this name; it is waited for until it is gone.", claim.Name)
		return nil, nil
	}
	if err := related.KeepFilter(ctx, p.Client, claim, p.m); err != nil {
		return nil, err
	}
	ref := claim.Status.RenderedData
	if ref == nil || ref.Name == "" {
		p.noData("Metal3DataClaim %s is not answered yet%s.", claim.Name, because(claim.Status.ErrorMessage))
		return nil, nil
	}
	d := &v1beta2.Metal3Data{}
	key := client.ObjectKey{Namespace: cmp.Or(ref.Namespace, p.m.Namespace), Name: ref.Name}
	err = p.Client.Get(ctx, key, d)
	switch {
	case apierrors.IsNotFound(err):
		p.noData("Metal3Data %s, which Metal3DataClaim %s names, does not exist yet.", key.Name, claim.Name)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Metal3Data %s of Metal3Machine %s: %w", key, p.m.Name, err)
	case !d.DeletionTimestamp.IsZero():
		p.noData("Metal3Data %s is being deleted%s.", key.Name, because(d.Status.ErrorMessage))
		return nil, nil
	case !data.ReadyFor(d, p.m):
		p.noData("Metal3Data %s is not rendered yet%s.", key.Name, because(d.Status.ErrorMessage))
		return nil, nil
	}
	return d, nil
}

// noData sets the condition that says why the machine has no data. A machine that was provisioned
// with its data stays ready.
func (p *pass) noData(format string, args ...any) {
	p.set(v1beta2.Metal3DataReadyCondition, false, reason{v1beta2.WaitingForMetal3DataReason, fmt.Sprintf(format, args...)})
	if p.m.Spec.ProviderID == "" {
		p.notReady(format, args...)
	}
}

// because completes a sentence with an error message, if there is one.
func because(message *string) string {
	if message == nil || *message == "" {
		return ""
	}
	return ": " + *message
}

// dataClaim returns the claim of the machine, and creates it if there is none.
func (p *pass) dataClaim(ctx context.Context) (*v1beta2.Metal3DataClaim, error) {
	claim := &v1beta2.Metal3DataClaim{}
	key := client.ObjectKeyFromObject(p.m)
	err := p.Client.Get(ctx, key, claim)
	if !apierrors.IsNotFound(err) {
		if err != nil {
			err = fmt.Errorf("read Metal3DataClaim %s: %w", key, err)
		}
		return claim, err
	}
	template := p.m.Spec.DataTemplate
	claim = &v1beta2.Metal3DataClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.m.Namespace, Name: p.m.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p.m, v1beta2.GroupVersion.WithKind("Metal3Machine"))},
		},
		Spec: v1beta2.Metal3DataClaimSpec{Template: corev1.ObjectReference{
			APIVersion: v1beta2.GroupVersion.String(), Kind: "Metal3DataTemplate",
			Namespace: cmp.Or(template.Namespace, p.m.Namespace), Name: template.Name,
		}},
	}
	if p.cluster != nil {
		metav1.SetMetaDataLabel(&claim.ObjectMeta, clusterv1.ClusterNameLabel, p.cluster.Name)
	}
	related.CarryFilter(claim, p.m)
	if err := p.Client.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create Metal3DataClaim %s: %w", key, err)
	}
	return claim, nil
}

// dropDataClaim deletes the claim of the machine, if it has one. Before that, it updates the label
// of the filter, which says which operator acts on the deletion.
func (p *pass) dropDataClaim(ctx context.Context) error {
	claim := &v1beta2.Metal3DataClaim{}
	key := client.ObjectKeyFromObject(p.m)
	err := p.Client.Get(ctx, key, claim)
	if err == nil && related.IsOwnedBy(claim, p.m) {
		err = related.KeepFilter(ctx, p.Client, claim, p.m)
		if err == nil && claim.DeletionTimestamp.IsZero() {
			err = p.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
		}
	}
	if err = client.IgnoreNotFound(err); err != nil {
		p.set(v1beta2.Metal3DataReadyCondition, false, reason{v1beta2.DisassociateM3MetaDataFailedReason, err.Error()})
		return fmt.Errorf("delete Metal3DataClaim %s: %w", key, err)
	}
	return nil
}
