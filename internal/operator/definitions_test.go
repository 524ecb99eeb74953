package operator_test

import (
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/config"
)

// TestDefinitionsHaveWhatClientsExpect compares what kubectl, scripts and clusterctl
// see of a kind with Metal3: short names, columns, the status subresource. All kinds
// have the label that lets clusterctl move them.
func TestDefinitionsHaveWhatClientsExpect(t *testing.T) {
	type definition struct {
		Kind, ShortNames, Columns string
		Status, MovesChildren     bool
	}
	want := map[string]definition{
		"baremetalhosts":           {"BareMetalHost", "bmh bmhost ", "Status State Consumer BMC Online Error Age ", true, true},
		"hardwaredata":             {"HardwareData", "hd ", "Age ", false, false},
		"hostfirmwaresettings":     {"HostFirmwareSettings", "hfs ", "", true, false},
		"firmwareschemas":          {"FirmwareSchema", "", "", false, false},
		"hostfirmwarecomponents":   {"HostFirmwareComponents", "", "", true, false},
		"hostupdatepolicies":       {"HostUpdatePolicy", "", "", false, false},
		"dataimages":               {"DataImage", "", "", true, false},
		"preprovisioningimages":    {"PreprovisioningImage", "ppimg ", "Ready Reason ", true, false},
		"bmceventsubscriptions":    {"BMCEventSubscription", "bes bmcevent ", "Error Age ", true, false},
		"baremetalhostdiscoveries": {"BareMetalHostDiscovery", "bmhd ", "Ready Discovered Created LastPoll Age ", true, false},
		"hardwareclassifications": {"HardwareClassification", "hwc hc ", "ProfileMatchStatus MatchedHosts UnmatchedHosts ErrorHosts " +
			"RegistrationErrorHosts IntrospectionErrorHosts ProvisioningErrorHosts PowerMgmtErrorHosts " +
			"ProvisionedRegistrationErrorHosts PreparationErrorHosts DetachErrorHosts Error ", true, false},
	}
	got := map[string]definition{}
	for _, crd := range definitions(t) {
		version := crd.Spec.Versions[0]
		d := definition{Kind: crd.Spec.Names.Kind, Status: version.Subresources != nil && version.Subresources.Status != nil}
		for _, name := range crd.Spec.Names.ShortNames {
			d.ShortNames += name + " "
		}
		for _, column := range version.AdditionalPrinterColumns {
			d.Columns += column.Name + " "
		}
		_, d.MovesChildren = crd.Labels["clusterctl.cluster.x-k8s.io/move-hierarchy"]
		got[crd.Spec.Names.Plural] = d
		if _, there := crd.Labels["clusterctl.cluster.x-k8s.io"]; !there {
			t.Errorf("%s has no label for clusterctl", crd.Name)
		}
		if crd.Spec.Scope != apiextensionsv1.NamespaceScoped || len(crd.Spec.Versions) != 1 || version.Name != "v1alpha1" {
			t.Errorf("%s: scope %s, versions %v", crd.Name, crd.Spec.Scope, crd.Spec.Versions)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definitions differ (-want +got):\n%s", diff)
	}
}

// definitions are the CustomResourceDefinitions that programs install.
func definitions(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var all []apiextensionsv1.CustomResourceDefinition
	files, err := fs.Glob(config.CRDs, "crd/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	for _, file := range files {
		text, err := config.CRDs.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, crd)
	}
	return all
}
