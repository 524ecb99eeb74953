package kubelet

import (
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// usedKinds are the kinds of objects that the clients use, with their scopes.
var usedKinds = map[schema.GroupVersionKind]meta.RESTScope{
	corev1.SchemeGroupVersion.WithKind("Node"):                              meta.RESTScopeRoot,
	corev1.SchemeGroupVersion.WithKind("Pod"):                               meta.RESTScopeNamespace,
	corev1.SchemeGroupVersion.WithKind("ConfigMap"):                         meta.RESTScopeNamespace,
	coordinationv1.SchemeGroupVersion.WithKind("Lease"):                     meta.RESTScopeNamespace,
	certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"): meta.RESTScopeRoot,
	rbacv1.SchemeGroupVersion.WithKind("Role"):                              meta.RESTScopeNamespace,
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"):                       meta.RESTScopeNamespace,
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"):                       meta.RESTScopeRoot,
	rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"):                meta.RESTScopeRoot,
}

// kinds returns a scheme and a mapper for the kinds that the clients use. All clients share them,
// because there may be a thousand kubelets.
var kinds = sync.OnceValues(func() (*runtime.Scheme, meta.RESTMapper) {
	s, m := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, certificatesv1.AddToScheme, rbacv1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	for kind, scope := range usedKinds {
		m.Add(kind, scope)
	}
	return s, m
})
