package remediation

import (
	"bytes"
	"os"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// TestTheSampleLeavesServersTheTimeToBoot checks the time after which a machine is powered off
// again. Servers often need ten minutes until their Node is Ready.
func TestTheSampleLeavesServersTheTimeToBoot(t *testing.T) {
	samples, err := os.ReadFile("../../../config/samples/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for one := range bytes.SplitSeq(samples, []byte("\n---\n")) {
		var template v1beta2.Metal3RemediationTemplate
		if err := yaml.Unmarshal(one, &template); err != nil {
			t.Fatal(err)
		}
		if template.Kind != "Metal3RemediationTemplate" {
			continue
		}
		seen++
		if _, _, timeout := strategyOf(&v1beta2.Metal3Remediation{Spec: template.Spec.Template.Spec}); timeout < defaultTimeout {
			t.Errorf("%s has a timeout of %s, want %s at least", template.Name, timeout, defaultTimeout)
		}
	}
	if seen == 0 {
		t.Error("there is no Metal3RemediationTemplate")
	}
}
