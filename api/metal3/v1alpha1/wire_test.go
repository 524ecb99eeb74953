package v1alpha1

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// TestManifestsKeepEveryKey decodes manifests that use every key of the wire
// format, and encodes them again.
func TestManifestsKeepEveryKey(t *testing.T) {
	for file, object := range map[string]runtime.Object{
		"testdata/baremetalhost.yaml":          &BareMetalHost{},
		"testdata/hardwaredata.yaml":           &HardwareData{},
		"testdata/hostfirmwaresettings.yaml":   &HostFirmwareSettings{},
		"testdata/firmwareschema.yaml":         &FirmwareSchema{},
		"testdata/hostfirmwarecomponents.yaml": &HostFirmwareComponents{},
		"testdata/hostupdatepolicy.yaml":       &HostUpdatePolicy{},
		"testdata/dataimage.yaml":              &DataImage{},
		"testdata/preprovisioningimage.yaml":   &PreprovisioningImage{},
		"testdata/bmceventsubscription.yaml":   &BMCEventSubscription{},
		"testdata/hardwareclassification.yaml": &HardwareClassification{},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		encoded, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var want, got map[string]any
		if err := yaml.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(encoded, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs after decoding and encoding (-want +got):\n%s", file, diff)
		}
	}
}

func TestHostWithoutBMCHasNoSuchKey(t *testing.T) {
	encoded, err := json.Marshal(&BareMetalHost{Spec: BareMetalHostSpec{Online: true}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(encoded), `{"metadata":{},"spec":{"online":true}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEmptyBMCDetailsCountAsAbsent(t *testing.T) {
	for text, want := range map[string]bool{
		`{"spec":{"online":true}}`: false,
		`{"spec":{"online":true,"bmc":{"address":"","credentialsName":""}}}`:                 false,
		`{"spec":{"online":true,"bmc":{"address":"ipmi://192.0.2.1","credentialsName":""}}}`: true,
		`{"spec":{"online":true,"bmc":{"address":"","credentialsName":"web-bmc"}}}`:          true,
		`{"spec":{"online":true,"bmc":{"address":"192.0.2.1","credentialsName":"web-bmc"}}}`: true,
	} {
		var h BareMetalHost
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			t.Fatal(err)
		}
		if got := h.HasBMC(); got != want {
			t.Errorf("%s: has a BMC: %v, want %v", text, got, want)
		}
	}
}

func TestPowerIsControlledOnlyThroughTheBMCOfTheMachine(t *testing.T) {
	withBMC := BareMetalHost{Spec: BareMetalHostSpec{BMC: BMCDetails{Address: "ipmi://192.0.2.1"}}}
	with := func(status metav1.ConditionStatus) BareMetalHost {
		h := *withBMC.DeepCopy()
		h.Status.Conditions = []metav1.Condition{{Type: IdentityVerifiedCondition, Status: status}}
		return h
	}
	for name, test := range map[string]struct {
		host BareMetalHost
		want bool
	}{
		"no BMC":                         {BareMetalHost{}, false},
		"a BMC":                          {withBMC, true},
		"the machine's BMC":              {with(metav1.ConditionTrue), true},
		"perhaps the machine's BMC":      {with(metav1.ConditionUnknown), true},
		"the BMC of a different machine": {with(metav1.ConditionFalse), false},
	} {
		if got := test.host.SupportsPowerControl(); got != test.want {
			t.Errorf("%s: supports power control: %t, want %t", name, got, test.want)
		}
	}
}

// TestNullAndEmptyListsOfVolumesDiffer covers both lists: null leaves the
// volumes as they are, and an empty list deletes them.
func TestNullAndEmptyListsOfVolumesDiffer(t *testing.T) {
	for _, text := range []string{
		`{"hardwareRAIDVolumes":null,"softwareRAIDVolumes":[]}`,
		`{"hardwareRAIDVolumes":[],"softwareRAIDVolumes":null}`,
	} {
		var raid RAIDConfig
		if err := json.Unmarshal([]byte(text), &raid); err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(raid)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(encoded); got != text {
			t.Errorf("got %s, want %s", got, text)
		}
	}
}

// TestKeysThatSchemasRequireAreWrittenWhenEmpty holds for keys that the schemas
// of other operators for the same kinds require.
func TestKeysThatSchemasRequireAreWrittenWhenEmpty(t *testing.T) {
	for want, value := range map[string]any{
		`{"hostNetworkAttachment":{}}`:                            NetworkInterface{},
		`{"switchID":"","portID":""}`:                             SwitchPort{},
		`{"hardwareRAIDVolumes":null,"softwareRAIDVolumes":null}`: RAIDConfig{},
		`{"level":"1"}`:                                           SoftwareRAIDVolume{Level: "1"},
		`{"operationalStatus":"","provisioning":{"state":"","ID":""},"errorMessage":"","poweredOn":false,"errorCount":0,"provisioningFailCount":0}`: BareMetalHostStatus{},
	} {
		encoded, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(encoded); got != want {
			t.Errorf("%T: got %s, want %s", value, got, want)
		}
	}
}
