package operator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// newSchemaBench is a bench without operator, whose client fails on fields that
// the schema does not know, as kubectl does.
func newSchemaBench(t *testing.T) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(plane.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{TB: t, client: client.WithFieldValidation(c, metav1.FieldValidationStrict), namespace: fmt.Sprintf("schema-%d", namespaces.Add(1))}
	b.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}})
	return b
}

// object makes an object of a kind of metal3.io out of the text below its
// metadata.
func (b *bench) object(kind, name, text string) *unstructured.Unstructured {
	b.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		b.Fatalf("%s: %v", text, err)
	}
	obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	obj.SetNamespace(b.namespace)
	obj.SetName(name)
	return obj
}

// TestSchemaKeepsEveryKey stores the manifests that use every key of the wire
// format: what the schema does not know would be dropped.
func TestSchemaKeepsEveryKey(t *testing.T) {
	t.Parallel()
	b := newSchemaBench(t)
	for _, file := range []string{"baremetalhost.yaml", "hardwaredata.yaml"} {
		want := b.decode("../../api/metal3/v1alpha1/testdata/" + file)[0]
		want.SetNamespace(b.namespace)
		got := want.DeepCopy()
		b.create(got)
		if status, there := want.Object["status"]; there {
			got.Object["status"] = status
			if err := b.client.Status().Update(t.Context(), got); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"spec", "status"} {
			if diff := cmp.Diff(want.Object[part], got.Object[part]); diff != "" {
				t.Errorf("%s of %s differs (-want +got):\n%s", part, file, diff)
			}
		}
	}
}

// TestSchemaAcceptsWhatClustersHold creates objects that the schemas of Metal3
// accept, and looks at what is stored.
func TestSchemaAcceptsWhatClustersHold(t *testing.T) {
	t.Parallel()
	b := newSchemaBench(t)
	for i, tt := range []struct{ name, kind, text, want string }{
		{
			"empty lists of volumes", "BareMetalHost",
			`spec: {online: true, raid: {hardwareRAIDVolumes: [], softwareRAIDVolumes: []}}`,
			`spec: {online: true, automatedCleaningMode: metadata, raid: {hardwareRAIDVolumes: [], softwareRAIDVolumes: []}}`,
		},
		{
			"lists of volumes that are null", "BareMetalHost",
			`spec: {online: true, raid: {hardwareRAIDVolumes: null, softwareRAIDVolumes: null}}`,
			`spec: {online: true, automatedCleaningMode: metadata, raid: {hardwareRAIDVolumes: null, softwareRAIDVolumes: null}}`,
		},
		{
			"volumes without a mark", "BareMetalHost",
			`spec: {online: true, raid: {softwareRAIDVolumes: [{level: "1", rootVolume: true}, {level: "0"}]}}`,
			`spec: {online: true, automatedCleaningMode: metadata, raid: {softwareRAIDVolumes: [{level: "1", rootVolume: true}, {level: "0", rootVolume: false}]}}`,
		},
		{
			"empty BMC details and image", "BareMetalHost",
			`spec: {online: false, bmc: {address: "", credentialsName: ""}, image: {url: ""}, customDeploy: {method: ""}}`,
			`spec: {online: false, automatedCleaningMode: metadata, bmc: {address: "", credentialsName: ""}, image: {url: ""}, customDeploy: {method: ""}}`,
		},
		{
			"interfaces with and without attachments", "BareMetalHost",
			`spec: {online: true, networkInterfaces: [{name: enp24s0f0np0.1234, hostNetworkAttachment: {}}, {macAddress: "52:54:00:12:34:56", hostNetworkAttachment: {name: prov}, switchPort: {switchID: "00:1c:73:00:00:01", portID: ""}}]}`,
			`spec: {online: true, automatedCleaningMode: metadata, networkInterfaces: [{name: enp24s0f0np0.1234, hostNetworkAttachment: {}}, {macAddress: "52:54:00:12:34:56", hostNetworkAttachment: {name: prov}, switchPort: {switchID: "00:1c:73:00:00:01", portID: ""}}]}`,
		},
	} {
		obj := b.object(tt.kind, fmt.Sprint("accepted-", i), tt.text)
		if err := b.client.Create(t.Context(), obj); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		want := b.object(tt.kind, obj.GetName(), tt.want)
		if diff := cmp.Diff(want.Object["spec"], obj.Object["spec"]); diff != "" {
			t.Errorf("%s: what is stored differs (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestStatusWithoutCountersGetsThem writes a status as older operators do.
func TestStatusWithoutCountersGetsThem(t *testing.T) {
	t.Parallel()
	b := newSchemaBench(t)
	host := b.object("BareMetalHost", "old-status", `spec: {online: true}`)
	b.create(host)
	status := b.object("BareMetalHost", "old-status", `status: {operationalStatus: OK, errorMessage: "", poweredOn: true, provisioning: {state: available, ID: ""}}`)
	host.Object["status"] = status.Object["status"]
	if err := b.client.Status().Update(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	for _, counter := range []string{"errorCount", "provisioningFailCount"} {
		got, found, err := unstructured.NestedInt64(host.Object, "status", counter)
		if got != 0 || !found || err != nil {
			t.Errorf("%s: got %d, there: %v, error: %v; want 0", counter, got, found, err)
		}
	}
}

func TestSchemaRefusesWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	b := newSchemaBench(t)
	for i, tt := range []struct{ name, kind, text, message string }{
		{"a name that no interface has", "BareMetalHost", `spec: {online: true, networkInterfaces: [{name: "eno 1"}]}`, "networkInterfaces[0].name"},
		{"a switch without port", "BareMetalHost", `spec: {online: true, networkInterfaces: [{name: eno1, switchPort: {switchID: "00:1c:73:00:00:01"}}]}`, "portID"},
		{"a port without switch", "BareMetalHost", `spec: {online: true, networkInterfaces: [{name: eno1, switchPort: {portID: Ethernet1}}]}`, "switchID"},
	} {
		err := b.client.Create(t.Context(), b.object(tt.kind, fmt.Sprint("refused-", i), tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.message) {
			t.Errorf("%s: got %v, want an error about %s", tt.name, err, tt.message)
		}
	}
}
