package reuse

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

func TestReservedHostIsFreedOnlyByTheOperatorWhoseFilterAllowsTheMetal3Cluster(t *testing.T) {
	for name, tt := range map[string]struct {
		labels map[string]string
		gone   bool // the Metal3Cluster
		freed  bool
	}{
		"no label":                  {labels: nil},
		"another value":             {labels: map[string]string{clusterv1.WatchLabel: "red"}},
		"the label":                 {labels: map[string]string{clusterv1.WatchLabel: "blue"}, freed: true},
		"no Metal3Cluster any more": {gone: true, freed: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(deployment)
			w.reserve(0)
			w.scale(0) // nobody will take the host
			w.cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "Metal3Cluster", Name: "infra"}
			if !tt.gone {
				w.additional = append(w.additional, &v1beta2.Metal3Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "infra", Labels: tt.labels}})
			}
			api := w.client(t, interceptor.Funcs{})
			c := newController(t, api, api, 0)
			c.Filter = "blue"
			result := c.reconcile(t, "h0")
			if freed := !IsReserved(stored(t, api, "h0")); freed != tt.freed {
				t.Errorf("freed: %v, want %v", freed, tt.freed)
			}
			if !tt.freed && result.RequeueAfter != recheck {
				t.Errorf("looks again after %s, want %s", result.RequeueAfter, recheck)
			}
		})
	}
}
