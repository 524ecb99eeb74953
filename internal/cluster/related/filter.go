package related

import (
	"context"
	"fmt"
	"maps"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Filter is the value that the label cluster.x-k8s.io/watch-filter must have on the objects that an
// operator works on. An empty filter allows all objects. Each controller checks the object of its
// pass, because changes of other objects request passes, too.
type Filter string

// Allows reports whether the operator works on an object.
func (f Filter) Allows(obj client.Object) bool {
	return f == "" || obj.GetLabels()[clusterv1.WatchLabel] == string(f)
}

// AllowsCluster reports whether the operator works on what belongs to a Cluster as a whole. The
// label of its Metal3Cluster decides. For a nil Cluster, and for one without a Metal3Cluster,
// AllowsCluster returns true: somebody has to remove what the Cluster leaves behind.
func (f Filter) AllowsCluster(ctx context.Context, r client.Reader, cluster *clusterv1.Cluster) (bool, error) {
	if f == "" || cluster == nil {
		return true, nil
	}
	c, err := Metal3Cluster(ctx, r, cluster)
	return err == nil && (c == nil || f.Allows(c)), err
}

// AllowsNodes reports whether the operator looks at the Nodes of a Cluster. The label of its
// Metal3Cluster decides here, too. With a filter, the operator does not look at the Nodes of a
// Cluster that has no Metal3Cluster yet.
func (f Filter) AllowsNodes(ctx context.Context, r client.Reader, cluster *clusterv1.Cluster) (bool, error) {
	if f == "" {
		return true, nil
	}
	c, err := Metal3Cluster(ctx, r, cluster)
	return c != nil && f.Allows(c), err
}

// CarryFilter copies the label of the filter, if there is one, to an object that is made for
// another object, so that the same operator works on both.
func CarryFilter(to, from client.Object) {
	value, there := from.GetLabels()[clusterv1.WatchLabel]
	if !there {
		return
	}
	labels := to.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterv1.WatchLabel] = value
	to.SetLabels(labels)
}

// KeepFilter copies the label of the filter to an existing object from the object that it was made
// for, because Cluster API changes the labels of existing machines. If from has no label, to keeps
// its own: a person may have set it, and only an operator without a filter, to which the label
// means nothing, works on from.
func KeepFilter(ctx context.Context, c client.Client, to, from client.Object) error {
	before, _ := to.DeepCopyObject().(client.Object)
	CarryFilter(to, from)
	if maps.Equal(before.GetLabels(), to.GetLabels()) {
		return nil
	}
	if err := c.Patch(ctx, to, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("label %T %s/%s: %w", to, to.GetNamespace(), to.GetName(), err)
	}
	return nil
}
