package operator_test

import (
	"io/fs"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/config"
	"github.com/ingot-metal/ingot/internal/webhook"
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
		"metal3clusters":             {"Metal3Cluster", "m3c m3cluster m3clusters metal3c metal3cluster ", "Age Provisioned Error Cluster Endpoint ", true, false},
		"metal3clustertemplates":     {"Metal3ClusterTemplate", "m3ct ", "", false, false},
		"metal3machines":             {"Metal3Machine", "m3m m3machine m3machines metal3m metal3machine ", "Age ProviderID Provisioned Cluster ", true, false},
		"metal3machinetemplates":     {"Metal3MachineTemplate", "m3mt m3machinetemplate m3machinetemplates metal3mt metal3machinetemplate ", "Age ", true, false},
		"metal3remediations":         {"Metal3Remediation", "m3r m3remediation ", "Retry limit Retry count Last Remediated Strategy Phase ", true, false},
		"metal3remediationtemplates": {"Metal3RemediationTemplate", "m3rt m3remediationtemplate m3remediationtemplates metal3rt metal3remediationtemplate ", "", true, false},
		"metal3datatemplates":        {"Metal3DataTemplate", "m3dt m3datatemplate m3datatemplates metal3dt metal3datatemplate ", "Cluster Age ", true, false},
		"metal3datas":                {"Metal3Data", "m3d m3data m3datas metal3d metal3data ", "Cluster Age ", true, false},
		"metal3dataclaims":           {"Metal3DataClaim", "m3dc m3dataclaim m3dataclaims metal3dc metal3dataclaim ", "Cluster Age ", true, false},
	}
	got := map[string]definition{}
	for _, crd := range definitions(t) {
		version := crd.Spec.Versions[len(crd.Spec.Versions)-1] // the newest
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
		versions := ""
		for _, v := range crd.Spec.Versions {
			if versions += v.Name + " "; !v.Served || v.Storage != (v.Name == version.Name) {
				t.Errorf("%s: version %s is served: %v, stored: %v", crd.Name, v.Name, v.Served, v.Storage)
			}
		}
		if crd.Spec.Scope != apiextensionsv1.NamespaceScoped || versions != versionsOf[crd.Spec.Group] {
			t.Errorf("%s: scope %s, versions %s", crd.Name, crd.Spec.Scope, versions)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definitions differ (-want +got):\n%s", diff)
	}
}

// versionsOf are the versions of each group; the last is stored.
var versionsOf = map[string]string{"metal3.io": "v1alpha1 ", "infrastructure.cluster.x-k8s.io": "v1beta1 v1beta2 "}

// TestDefinitionsOfClusterAPITellTheirContracts also checks that the definitions have conversion,
// and that the operator keeps the CA of each of them.
func TestDefinitionsOfClusterAPITellTheirContracts(t *testing.T) {
	var converted []string
	for _, crd := range definitions(t) {
		if crd.Spec.Group != "infrastructure.cluster.x-k8s.io" {
			continue
		}
		converted = append(converted, crd.Name)
		if crd.Labels["cluster.x-k8s.io/v1beta1"] != "v1beta1" || crd.Labels["cluster.x-k8s.io/v1beta2"] != "v1beta2" {
			t.Errorf("%s: labels %v", crd.Name, crd.Labels)
		}
		if !slices.Equal(crd.Spec.Names.Categories, []string{"cluster-api"}) {
			t.Errorf("%s: categories %v", crd.Name, crd.Spec.Names.Categories)
		}
		if c := crd.Spec.Conversion; c == nil || c.Strategy != apiextensionsv1.WebhookConverter || c.Webhook.ClientConfig.Service.Name != webhook.ServiceName {
			t.Errorf("%s: conversion %+v", crd.Name, c)
		}
	}
	want := slices.Sorted(slices.Values(webhook.Definitions))
	if slices.Sort(converted); !slices.Equal(converted, want) {
		t.Errorf("definitions with two versions are %v, the operator keeps %v", converted, want)
	}
}

// TestTemplatesThatNothingOwnsMoveByThemselves checks the label for clusterctl move, which finds
// other objects by their owners.
func TestTemplatesThatNothingOwnsMoveByThemselves(t *testing.T) {
	var moving []string
	for _, crd := range definitions(t) {
		if _, moves := crd.Labels["clusterctl.cluster.x-k8s.io/move"]; moves {
			moving = append(moving, crd.Spec.Names.Plural)
		}
	}
	if want := []string{"metal3datatemplates", "metal3remediationtemplates"}; !slices.Equal(slices.Sorted(slices.Values(moving)), want) {
		t.Errorf("%v move by themselves, want %v", moving, want)
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
