package operator

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// plurals corrects the plurals of kinds that do not simply end in s.
var plurals = strings.NewReplacer("hardwaredatas", "hardwaredata", "settingses", "settings", "componentses", "components")

// watchedByRole returns the resources that a group of controllers may watch, of the API groups
// whose kinds have to exist.
func watchedByRole(t *testing.T, group string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", group, "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	needed := []string{v1alpha1.GroupVersion.Group, v1beta2.GroupVersion.Group, clusterv1.GroupVersion.Group, ipamv1.GroupVersion.Group}
	var watched []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if !slices.Contains(needed, rule.APIGroups[0]) || !slices.Contains(rule.Verbs, "watch") {
				continue
			}
			for _, resource := range rule.Resources {
				watched = append(watched, resource+"."+rule.APIGroups[0])
			}
		}
	}
	slices.Sort(watched)
	return slices.Compact(watched)
}

func TestEveryKindThatAGroupWatchesIsLookedForAtTheStart(t *testing.T) {
	for group, all := range kindsOf {
		var got []string
		for version, names := range all {
			for _, name := range names {
				plural, _ := meta.UnsafeGuessKindToResource(version.WithKind(name))
				got = append(got, plurals.Replace(plural.GroupResource().String()))
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(watchedByRole(t, group), got); diff != "" {
			t.Errorf("group %s (-watched by its role +looked for):\n%s", group, diff)
		}
	}
}
