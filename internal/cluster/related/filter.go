package related

import (
	"context"
	"fmt"
	"maps"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Filter is the value that the label cluster.x-k8s.io/watch-filter of an object has to have for the object to
// be worked on. The empty one lets all through. Each controller asks it about the object of its pass,
// because requests for passes come from changes of other objects, too.
type Filter string

// Allows reports whether an object is worked on.
func (f Filter) Allows(obj client.Object) bool {
	return f == "" || obj.GetLabels()[clusterv1.WatchLabel] == string(f)
}

// AllowsCluster reports whether what belongs to a Cluster as a whole is worked on, which its Metal3Cluster decides. A
// Cluster that is nil, or without a Metal3Cluster, excludes nothing: what it leaves behind has to be removed by somebody.
func (f Filter) AllowsCluster(ctx context.Context, r client.Reader, cluster *clusterv1.Cluster) (bool, error) {
	if f == "" || cluster == nil {
		return true, nil
	}
	c, err := Metal3Cluster(ctx, r, cluster)
	return err == nil && (c == nil || f.Allows(c)), err
}

// AllowsNodes reports whether the Nodes of a Cluster are looked at, which its Metal3Cluster decides, too. A Cluster without one has, with a
// filter, none yet.
func (f Filter) AllowsNodes(ctx context.Context, r client.Reader, cluster *clusterv1.Cluster) (bool, error) {
	if f == "" {
		return true, nil
	}
	c, err := Metal3Cluster(ctx, r, cluster)
	return c != nil && f.Allows(c), err
}

// CarryFilter gives an object that is made for another the label of that, if it has one, so that the
// same operator works on both.
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

// KeepFilter gives an object that exists the label of the one that it was made for, which Cluster API changes in machines
// that live. A label stays where that one has none: only an operator without a filter, to which labels mean nothing, works on such
// an object, and a person may have set the label.
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
