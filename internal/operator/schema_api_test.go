package operator_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// newSchemaBench returns a bench without an operator. Its client fails on fields that the schema
// does not know, as kubectl does.
func newSchemaBench(t *testing.T) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, v1alpha1.AddToScheme} {
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

// TestSchemaKeepsEveryKey stores manifests that use every key of the wire format. The API server
// would drop keys that the schema does not know.
func TestSchemaKeepsEveryKey(t *testing.T) {
	t.Parallel()
	b := newSchemaBench(t)
	files, err := filepath.Glob("../../api/metal3/v1alpha1/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	for _, file := range files {
		want := b.decode(file)[0]
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
				t.Errorf("%s of %s differs (-want +got):\n%s", part, filepath.Base(file), diff)
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
		{
			"a MAC address of InfiniBand", "BareMetalHost",
			`spec: {online: true, bootMACAddress: "80:00:02:08:fe:80:00:00:00:00:00:00:7c:fe:90:03:00:27:47:18"}`,
			`spec: {online: true, automatedCleaningMode: metadata, bootMACAddress: "80:00:02:08:fe:80:00:00:00:00:00:00:7c:fe:90:03:00:27:47:18"}`,
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
		{"text around a MAC address", "BareMetalHost", `spec: {online: true, bootMACAddress: "mac=52:54:00:12:34:56"}`, "spec.bootMACAddress"},
		{"a switch without port", "BareMetalHost", `spec: {online: true, networkInterfaces: [{name: eno1, switchPort: {switchID: "00:1c:73:00:00:01"}}]}`, "portID"},
		{"a port without switch", "BareMetalHost", `spec: {online: true, networkInterfaces: [{name: eno1, switchPort: {portID: Ethernet1}}]}`, "switchID"},
		{"a setting beyond 32 bits", "HostFirmwareSettings", `spec: {settings: {Large: 2147483648}}`, "must fit into 32 bits"},
		{"a setting below 32 bits", "HostFirmwareSettings", `spec: {settings: {Low: -2147483649}}`, "must fit into 32 bits"},
		{"a setting with a fraction", "HostFirmwareSettings", `spec: {settings: {Half: 0.5}}`, "settings.Half"},
		{"settings without settings", "HostFirmwareSettings", `spec: {}`, "spec.settings"},
		{"an unknown type of setting", "FirmwareSchema", `spec: {schema: {Hue: {attribute_type: Colour}}}`, "attribute_type"},
		{"an unknown component", "HostFirmwareComponents", `spec: {updates: [{component: fan, url: "http://192.0.2.2/a"}]}`, "updates[0].component"},
		{"two updates of a component", "HostFirmwareComponents", `spec: {updates: [{component: bmc, url: "http://192.0.2.2/a"}, {component: bmc, url: "http://192.0.2.2/b"}]}`, "Duplicate value"},
		{"firmware from a file", "HostFirmwareComponents", `spec: {updates: [{component: bmc, url: "file:///etc/shadow"}]}`, "updates[0].url"},
		{"an unknown policy", "HostUpdatePolicy", `spec: {firmwareUpdates: onService}`, "firmwareUpdates"},
		{"a data image from a file", "DataImage", `spec: {url: "file:///etc/shadow"}`, "spec.url"},
		{"a data image without scheme", "DataImage", `spec: {url: /data.iso}`, "spec.url"},
		{"an unknown format of ramdisk", "PreprovisioningImage", `spec: {acceptFormats: [qcow2]}`, "acceptFormats[0]"},
		{"events of no host", "BMCEventSubscription", `spec: {hostName: "", destination: "https://192.0.2.2/"}`, "spec.hostName"},
		{"a receiver that is no URL", "BMCEventSubscription", `spec: {hostName: h, destination: "192.0.2.2"}`, "must be an absolute URL"},
		{"a receiver without host", "BMCEventSubscription", `spec: {hostName: h, destination: "/events"}`, "must be an absolute URL"},
		{"a receiver without slash", "BMCEventSubscription", `spec: {hostName: h, destination: "https://192.0.2.2"}`, "must end in a slash"},
		{"no subscription", "BMCEventSubscription", `{}`, "spec"},
		// Objects with such numbers would keep clients from reading any object of the kind.
		{"a size beyond 64 bits", "BareMetalHost", `spec: {online: true, raid: {hardwareRAIDVolumes: [{level: "1", sizeGibibytes: 1e20}]}}`, "sizeGibibytes"},
		{"a speed beyond 32 bits", "HardwareClassification", `spec: {hardwareCharacteristics: {cpu: {minimumSpeedMHz: 4294967296}}}`, "minimumSpeedMHz"},
		{"a slow processor", "HardwareClassification", `spec: {hardwareCharacteristics: {cpu: {minimumSpeedMHz: 3}}}`, "minimumSpeedMHz"},
	} {
		err := b.client.Create(t.Context(), b.object(tt.kind, fmt.Sprint("refused-", i), tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.message) {
			t.Errorf("%s: got %v, want an error about %s", tt.name, err, tt.message)
		}
	}
}

func TestSubscriptionCannotBeChanged(t *testing.T) {
	t.Parallel()
	b := newSchemaBench(t)
	subscription := b.object("BMCEventSubscription", "events", `spec: {hostName: h, destination: "https://192.0.2.2/", context: rack1}`)
	b.create(subscription)
	for _, patch := range []string{
		`{"spec":{"hostName":"other"}}`,
		`{"spec":{"destination":"https://192.0.2.3/"}}`,
		`{"spec":{"context":null}}`,
		`{"spec":{"httpHeadersRef":{"name":"headers"}}}`,
		`{"spec":null}`,
	} {
		err := b.client.Patch(t.Context(), subscription.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
		if !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v, want that it is refused", patch, err)
		}
	}
	label := `{"metadata":{"labels":{"team":"a"}}}`
	if err := b.client.Patch(t.Context(), subscription.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(label))); err != nil {
		t.Errorf("%s: %v", label, err)
	}
}

// TestKindsPageHasAnAcceptedExampleOfEachKind stores the examples of docs/kinds.md.
func TestKindsPageHasAnAcceptedExampleOfEachKind(t *testing.T) {
	t.Parallel()
	b := newSchemaBench(t)
	page, err := os.ReadFile("../../docs/kinds.md")
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, crd := range definitions(t) {
		if crd.Spec.Group == v1alpha1.GroupVersion.Group {
			missing[crd.Spec.Names.Kind] = true
		}
	}
	for i, block := range strings.Split(string(page), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		obj := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(text), &obj.Object); err != nil {
			t.Fatalf("example %d: %v", i+1, err)
		}
		obj.SetNamespace(b.namespace)
		if err := b.client.Create(t.Context(), obj); err != nil {
			t.Errorf("example %d: %v", i+1, err)
		}
		delete(missing, obj.GetKind())
		if !strings.Contains(string(page), "\n## "+obj.GetKind()+"\n") {
			t.Errorf("%s has no section", obj.GetKind())
		}
	}
	for kind := range missing {
		t.Errorf("%s has no example", kind)
	}
}

// TestExamplesOfTheHostsPageAreAccepted stores the manifests of docs/hosts.md, one of which has an
// image.
func TestExamplesOfTheHostsPageAreAccepted(t *testing.T) {
	t.Parallel()
	b := newSchemaBench(t)
	page, err := os.ReadFile("../../docs/hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	deployed := false
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		for manifest := range strings.SplitSeq(text, "\n---\n") {
			obj := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(manifest), &obj.Object); err != nil {
				t.Fatalf("%v:\n%s", err, manifest)
			}
			image, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "image")
			user, _, _ := unstructured.NestedString(obj.Object, "spec", "userData", "name")
			deployed = deployed || image["url"] != "" && image["checksum"] != "" && image["checksumType"] != "" && image["format"] != "" && user != ""
			obj.SetNamespace(b.namespace)
			if err := b.client.Create(t.Context(), obj); err != nil {
				t.Errorf("%v:\n%s", err, manifest)
			}
		}
	}
	if !deployed {
		t.Error("no host has an image with its checksum, and user data")
	}
}
