package related_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

func TestFilterAllowsOnlyItsValueAndAnEmptyOneAllowsAll(t *testing.T) {
	for name, tt := range map[string]struct {
		filter related.Filter
		labels map[string]string
		want   bool
	}{
		"no filter, no label":    {"", nil, true},
		"no filter, a label":     {"", map[string]string{clusterv1.WatchLabel: "blue"}, true},
		"no label":               {"blue", nil, false},
		"its value":              {"blue", map[string]string{clusterv1.WatchLabel: "blue"}, true},
		"another value":          {"blue", map[string]string{clusterv1.WatchLabel: "blues"}, false},
		"empty value":            {"blue", map[string]string{clusterv1.WatchLabel: ""}, false},
		"value of another label": {"blue", map[string]string{"color": "blue"}, false},
	} {
		if got := tt.filter.Allows(&v1beta2.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Labels: tt.labels}}); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestLabelOfTheFilterIsCarriedOn(t *testing.T) {
	from, to := &v1beta2.Metal3Machine{}, &v1beta2.Metal3DataClaim{}
	related.CarryFilter(to, from)
	if to.Labels != nil {
		t.Errorf("labels %v without one to carry", to.Labels)
	}
	from.Labels, to.Labels = map[string]string{clusterv1.WatchLabel: "blue", "other": "x"}, map[string]string{"own": "y"}
	related.CarryFilter(to, from)
	if len(to.Labels) != 2 || to.Labels["own"] != "y" || to.Labels[clusterv1.WatchLabel] != "blue" {
		t.Errorf("labels %v, want its own and that of the filter", to.Labels)
	}
}
