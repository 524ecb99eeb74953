package watch

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Secrets requests the passes that a function returns for each Secret that was created, changed or
// deleted. It watches all Secrets, because a Secret may be named before it exists and so has no
// label to select it by. The API server sends only their metadata.
func Secrets(cache cache.Cache, requests func(ctx context.Context, secret *metav1.PartialObjectMetadata) []ctrl.Request) source.Source {
	return source.Kind(cache, SecretMetadata(), handler.TypedEnqueueRequestsFromMapFunc(requests))
}

// SecretMetadata returns an object to read the metadata of a Secret into.
func SecretMetadata() *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

// StripSecret keeps only what identifies Secrets and their versions in a cache, because there may
// be thousands of Secrets that nobody names.
func StripSecret(obj any) (any, error) {
	switch secret := obj.(type) {
	case *metav1.PartialObjectMetadata:
		return &metav1.PartialObjectMetadata{TypeMeta: secret.TypeMeta, ObjectMeta: identity(secret.ObjectMeta)}, nil
	case *corev1.Secret:
		return &corev1.Secret{TypeMeta: secret.TypeMeta, ObjectMeta: identity(secret.ObjectMeta)}, nil
	default:
		return obj, nil
	}
}

func identity(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
}
