package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestClientOfAClusterThatIsGoneIsForgotten(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, name := range []string{"one", "two"} {
		objects = append(objects, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: name + "-kubeconfig"},
			Data:       map[string][]byte{"value": kubeconfig(t, func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {})},
		})
	}
	clients := New(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), scheme)
	for _, name := range []string{"one", "two"} {
		if _, err := clients.Client(t.Context(), client.ObjectKey{Namespace: "edge", Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	gone := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "one"}}
	clients.onGone().Delete(t.Context(), event.TypedDeleteEvent[*clusterv1.Cluster]{Object: gone}, nil)
	if _, kept := clients.known[client.ObjectKey{Namespace: "edge", Name: "two"}]; !kept || len(clients.known) != 1 {
		t.Errorf("%d clients are known, that of the other Cluster %v; want it alone", len(clients.known), kept)
	}
}
