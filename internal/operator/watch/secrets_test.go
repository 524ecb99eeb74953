package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCacheKeepsOfSecretsOnlyWhatIdentifiesThem(t *testing.T) {
	full := metav1.ObjectMeta{
		Namespace: "metal", Name: "web-bmc", UID: "u1", ResourceVersion: "7", Labels: map[string]string{"a": "b"},
		Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"stringData":{"password":"calvin"}}`},
	}
	kept := metav1.ObjectMeta{Namespace: "metal", Name: "web-bmc", UID: "u1", ResourceVersion: "7"}
	metadata, want := SecretMetadata(), SecretMetadata()
	metadata.ObjectMeta, want.ObjectMeta = full, kept
	for _, tt := range []struct{ obj, want any }{
		{metadata, want},
		{&corev1.Secret{ObjectMeta: full, Data: map[string][]byte{"password": []byte("calvin")}}, &corev1.Secret{ObjectMeta: kept}},
	} {
		got, err := StripSecret(tt.obj)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%T: %v (-want +got):\n%s", tt.obj, err, diff)
		}
	}
}
