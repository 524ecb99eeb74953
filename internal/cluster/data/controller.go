package data

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// Making the Cluster an owner of a template needs the right to delete the template.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3datatemplates,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3datatemplates/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3dataclaims,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3dataclaims/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3datas,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3datas/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=ipam.cluster.x-k8s.io,resources=ipaddressclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=ipam.cluster.x-k8s.io,resources=ipaddresses,verbs=get;list;watch
// +kubebuilder:rbac:groups=ipam.metal3.io,resources=ippools,verbs=get
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;update;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Controllers returns the controllers of templates and of data for changes in cache. The caller
// starts and stops them.
func Controllers(config Config, cache cache.Cache, options controller.Options) ([]controller.Controller, error) {
	templates, err := newTemplateReconciler(config).Controller(cache, options)
	if err != nil {
		return nil, err
	}
	data, err := newReconciler(config).Controller(cache, options)
	return []controller.Controller{templates, data}, err
}

// Controller returns the controller that runs the reconciler for changes in cache. The caller
// starts and stops it.
func (r *templateReconciler) Controller(cache cache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	return watch.Controller("data-templates", options,
		source.Kind(cache, &v1beta2.Metal3DataTemplate{}, &handler.TypedEnqueueRequestForObject[*v1beta2.Metal3DataTemplate]{}),
		source.Kind(cache, &v1beta2.Metal3DataClaim{}, mapped(func(_ context.Context, c *v1beta2.Metal3DataClaim) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: c.Namespace, Name: c.Spec.Template.Name}}
		})),
		source.Kind(cache, &v1beta2.Metal3Data{}, mapped(func(_ context.Context, d *v1beta2.Metal3Data) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: d.Namespace, Name: d.Spec.Template.Name}}
		})),
		source.Kind(cache, &v1beta2.Metal3Machine{}, mapped(templateOf), watch.Updates(watch.Facts(mayRun))),
		source.Kind(cache, &clusterv1.Cluster{}, mapped(r.templatesOfCluster), watch.Updates(pauseChanged)),
	)
}

// Controller returns the controller that runs the reconciler for changes in cache. The caller
// starts and stops it.
func (r *reconciler) Controller(cache cache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	return watch.Controller("data", options,
		source.Kind(cache, &v1beta2.Metal3Data{}, &handler.TypedEnqueueRequestForObject[*v1beta2.Metal3Data]{}),
		source.Kind(cache, &v1beta2.Metal3DataTemplate{}, mapped(r.unfinishedOf), watch.Updates[*v1beta2.Metal3DataTemplate](watch.Generation)),
		source.Kind(cache, &v1beta2.Metal3DataClaim{}, mapped(func(ctx context.Context, c *v1beta2.Metal3DataClaim) []types.NamespacedName {
			return r.dataFor(ctx, c.Namespace, c.Name)
		}), watch.Updates[*v1beta2.Metal3DataClaim](watch.Deletion, watch.Labels)),
		source.Kind(cache, &v1beta2.Metal3Machine{}, mapped(func(ctx context.Context, m *v1beta2.Metal3Machine) []types.NamespacedName {
			return r.dataFor(ctx, m.Namespace, m.Name)
		}), watch.Updates(watch.Facts(hostOf), watch.Facts(mayRun))),
		source.Kind(cache, &v1alpha1.BareMetalHost{}, mapped(func(ctx context.Context, h *v1alpha1.BareMetalHost) []types.NamespacedName {
			if ref := h.Spec.ConsumerRef; ref != nil && ref.Kind == metal3MachineKind {
				return r.dataFor(ctx, h.Namespace, ref.Name)
			}
			return nil
		}), watch.Updates(consumerChanged)),
		source.Kind(cache, &ipamv1.IPAddressClaim{}, r.addressChanges()),
		source.Kind(cache, &clusterv1.Cluster{}, mapped(r.dataOfCluster), watch.Updates(pauseChanged)),
	)
}

// mapped asks for passes over the objects that a function names for a changed object.
func mapped[T client.Object](names func(context.Context, T) []types.NamespacedName) handler.TypedEventHandler[T, ctrl.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, obj T) []ctrl.Request {
		var all []ctrl.Request
		for _, name := range names(ctx, obj) {
			all = append(all, ctrl.Request{NamespacedName: name})
		}
		return all
	})
}

// hostOf returns the host that a machine has chosen, or nothing.
func hostOf(m *v1beta2.Metal3Machine) string { return m.Annotations[v1beta2.HostAnnotation] }

// mayRun reports whether a machine has not released its host, so that it may run with its data.
func mayRun(m *v1beta2.Metal3Machine) bool {
	return controllerutil.ContainsFinalizer(m, v1beta2.MachineFinalizer)
}

// templateOf returns the template that a machine has its data from.
func templateOf(_ context.Context, m *v1beta2.Metal3Machine) []types.NamespacedName {
	if m.Spec.DataTemplate == nil {
		return nil
	}
	return []types.NamespacedName{{Namespace: m.Namespace, Name: m.Spec.DataTemplate.Name}}
}

func consumerChanged(a, b *v1alpha1.BareMetalHost) bool {
	return !equality.Semantic.DeepEqual(a.Spec.ConsumerRef, b.Spec.ConsumerRef)
}

func pauseChanged(a, b *clusterv1.Cluster) bool {
	return !equality.Semantic.DeepEqual(a.Spec.Paused, b.Spec.Paused)
}

// dataWhere lists the data of a namespace for which a function is true.
func (r *reconciler) dataWhere(ctx context.Context, namespace string, is func(*v1beta2.Metal3Data) bool) []types.NamespacedName {
	var list v1beta2.Metal3DataList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Metal3Data could not be listed", "namespace", namespace)
		return nil
	}
	var all []types.NamespacedName
	for i := range list.Items {
		if is(&list.Items[i]) {
			all = append(all, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return all
}

// dataFor returns the data of the claim with this name. A claim has the name of its Metal3Machine.
func (r *reconciler) dataFor(ctx context.Context, namespace, claim string) []types.NamespacedName {
	return r.dataWhere(ctx, namespace, func(d *v1beta2.Metal3Data) bool { return d.Spec.Claim.Name == claim })
}

func (r *reconciler) unfinishedOf(ctx context.Context, t *v1beta2.Metal3DataTemplate) []types.NamespacedName {
	return r.dataWhere(ctx, t.Namespace, func(d *v1beta2.Metal3Data) bool {
		return d.Spec.Template.Name == t.Name && !d.Status.Ready
	})
}

func (r *reconciler) dataOfCluster(ctx context.Context, c *clusterv1.Cluster) []types.NamespacedName {
	return r.dataWhere(ctx, c.Namespace, func(d *v1beta2.Metal3Data) bool {
		return d.Labels[clusterv1.ClusterNameLabel] == c.Name
	})
}

// templatesOfCluster returns the templates of a Cluster, and the templates that its claims name.
func (r *templateReconciler) templatesOfCluster(ctx context.Context, c *clusterv1.Cluster) []types.NamespacedName {
	var all []types.NamespacedName
	var templates v1beta2.Metal3DataTemplateList
	if err := r.Client.List(ctx, &templates, client.InNamespace(c.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Metal3DataTemplates could not be listed", "namespace", c.Namespace)
	}
	for i := range templates.Items {
		if templates.Items[i].Spec.ClusterName == c.Name {
			all = append(all, client.ObjectKeyFromObject(&templates.Items[i]))
		}
	}
	var claims v1beta2.Metal3DataClaimList
	if err := r.Client.List(ctx, &claims, client.InNamespace(c.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Metal3DataClaims could not be listed", "namespace", c.Namespace)
	}
	for i := range claims.Items {
		if claims.Items[i].Labels[clusterv1.ClusterNameLabel] == c.Name {
			all = append(all, types.NamespacedName{Namespace: c.Namespace, Name: claims.Items[i].Spec.Template.Name})
		}
	}
	return all
}

// addressChanges asks for a pass over the data that owns a claim for an address. When a claim is
// gone, it also asks for passes over the data that may have waited for that.
func (r *reconciler) addressChanges() handler.TypedEventHandler[*ipamv1.IPAddressClaim, ctrl.Request] {
	owning, ended := mapped(owningData), mapped(r.dataOfEnded)
	return handler.TypedFuncs[*ipamv1.IPAddressClaim, ctrl.Request]{
		CreateFunc: owning.Create, UpdateFunc: owning.Update, DeleteFunc: ended.Delete, GenericFunc: owning.Generic,
	}
}

// dataOfEnded returns the data that owned a claim for an address. If claims are named after hosts,
// it also returns the data that may wait for the end of the claim: that of another machine on the
// same host.
func (r *reconciler) dataOfEnded(ctx context.Context, claim *ipamv1.IPAddressClaim) []types.NamespacedName {
	names := owningData(ctx, claim)
	if !r.ClaimsByHost {
		return names
	}
	return append(names, r.dataWhere(ctx, claim.Namespace, func(d *v1beta2.Metal3Data) bool {
		_, host, _ := strings.Cut(d.Annotations[v1beta2.HostAnnotation], "/")
		return !d.Status.Ready && isClaimOf(claim, host) && !related.IsOwnedBy(claim, d)
	})...)
}

// owningData returns the data that owns a claim for an address.
func owningData(_ context.Context, claim *ipamv1.IPAddressClaim) []types.NamespacedName {
	for _, ref := range claim.OwnerReferences {
		if ref.Kind == dataKind {
			return []types.NamespacedName{{Namespace: claim.Namespace, Name: ref.Name}}
		}
	}
	return nil
}
