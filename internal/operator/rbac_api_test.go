package operator_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
	"github.com/ingot-metal/ingot/internal/operator"
)

const operatorNamespace = "ingot-system"

// TestEachGroupNeedsNoMoreThanItsOwnRole runs each group of controllers alone, under its service
// account and behind its lease, with the roles of config/rbac.
func TestEachGroupNeedsNoMoreThanItsOwnRole(t *testing.T) {
	t.Parallel()
	// The operators look at all namespaces, so this test has an API server of its own.
	config := controlplanetest.Start(t, controlplanetest.Options{}).Config()
	discovery := newBenchOn(t, config, asGroup(operator.GroupDiscovery))
	discovery.install()
	host := newBenchOn(t, config, func(o *operator.Options) {
		asGroup(operator.GroupHost)(o)
		withImages(true)(o)
		o.Engine = discovery.engine
	})
	host.namespace, host.engine = discovery.namespace, discovery.engine
	firmware := newBenchOn(t, config, func(o *operator.Options) {
		asGroup(operator.GroupFirmware)(o)
		o.Engine = discovery.engine
	})
	firmware.namespace = discovery.namespace

	discovery.boot("privileged")
	d := discovery.discover("least", func(s *discoveryv1.BareMetalHostDiscoverySpec) { s.Rediscovery = discoveryv1.RediscoveryDeny })
	h := host.inState("privileged", v1alpha1.StateAvailable)
	host.hasEvent("privileged", "ImportComplete")
	discovery.hasEvent("least", "HostDiscovered")
	host.create(&v1alpha1.HostUpdatePolicy{ObjectMeta: host.meta("managed")})
	host.create(&v1alpha1.HostFirmwareSettings{ObjectMeta: host.meta("managed")})
	host.create(&v1alpha1.HostFirmwareComponents{ObjectMeta: host.meta("managed")})
	managed := host.bmcHost("managed", nil)
	settings := firmware.hfs("managed", settingsSay(false, true, ""))
	firmware.ownedByHost(settings, managed)
	firmware.ownedByHost(firmware.hfc("managed", componentsSay(false, true, "")), managed)
	host.update(settings, func() { settings.Spec.Settings = map[string]intstr.IntOrString{"NoSuchThing": intstr.FromString("x")} })
	firmware.hfs("managed", settingsSay(true, false, "does not exist"))
	firmware.hasEvent("managed", "ValidationFailed")
	firmware.owned(&v1alpha1.HostUpdatePolicy{}, "managed", 1)
	host.hasChildren("deployed")
	host.remove(h)
	host.gone("privileged")
	discovery.awaitDiscovery(d, "with a tombstone", func(s *discoveryv1.BareMetalHostDiscoveryStatus) bool { return len(s.Tombstones) == 1 })
}

// owned waits until an object has a number of owners.
func (b *bench) owned(obj client.Object, name string, owners int) {
	b.Helper()
	b.eventually(fmt.Sprintf("%T %s with %d owners", obj, name, owners), func() string {
		if !b.read(obj, name) || len(obj.GetOwnerReferences()) != owners {
			return fmt.Sprintf("owners %+v", obj.GetOwnerReferences())
		}
		return ""
	})
}

// hasChildren creates a host with objects of all kinds that belong to hosts, next to another host,
// and removes it.
func (b *bench) hasChildren(name string) {
	b.Helper()
	b.create(&corev1.Secret{ObjectMeta: b.meta("net"), StringData: map[string]string{"networkData": "links: []"}})
	b.classification("small", 1)
	d, s := b.dataImage(name), b.subscription("events", name, "net")
	h := b.bmcHost(name, func(h *v1alpha1.BareMetalHost) {
		h.Spec.PreprovisioningNetworkDataName, h.Spec.Image = "net", image("https://images/os.qcow2")
	})
	b.inState(name, v1alpha1.StateProvisioned)
	b.preprovisioningImage(name, "served", func(i *v1alpha1.PreprovisioningImage) bool { return i.Status.ImageURL != "" })
	b.classified(name, "small", true)
	b.subscribed("events", "made", hasID)
	b.showsImage(name, v1alpha1.WaitingForPowerOnReason)
	b.reboots(h, "soft power off", "attach image", "power on")
	b.showsImage(name, v1alpha1.AttachedReason)
	b.owned(d, name, 1)
	settings := b.hfs(name, settingsSay(false, true, ""))
	b.owned(&v1alpha1.FirmwareSchema{}, settings.Status.FirmwareSchema.Name, 2)
	secret := &corev1.Secret{ObjectMeta: b.meta(name + "-bmc")}
	b.update(secret, func() { // as Metal3's operator leaves it
		secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(h, v1alpha1.GroupVersion.WithKind("BareMetalHost"))}
	})
	b.remove(s)
	b.isGone(s)
	b.remove(h)
	b.gone(name)
	b.owned(secret, secret.Name, 0)
	b.remove(d)
	b.isGone(d)
}

// asGroup makes an operator run one group under its service account, behind its lease.
func asGroup(group string) func(*operator.Options) {
	return func(o *operator.Options) {
		o.Config = impersonating(o.Config, "system:serviceaccount:"+operatorNamespace+":ingot-"+group,
			"system:serviceaccounts", "system:serviceaccounts:"+operatorNamespace)
		o.Namespaces = nil // the roles are for the whole cluster
		o.Controllers = []string{group}
		o.LeaderElection, o.LeaderElectionNamespace = true, operatorNamespace
	}
}

// impersonating returns the configuration of a client that has the rights of another user.
func impersonating(config *rest.Config, user string, groups ...string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return config
}

// install creates the manifests of config/rbac.
func (b *bench) install() {
	b.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}
	if err := b.client.Create(b.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
		b.Fatal(err)
	}
	files, err := filepath.Glob("../../config/rbac/*/*.yaml")
	if err != nil || len(files) == 0 {
		b.Fatalf("no manifests: %v", err)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		for _, obj := range b.decode(file) {
			b.create(obj)
		}
	}
}

// decode reads the objects of a manifest.
func (b *bench) decode(file string) []*unstructured.Unstructured {
	b.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			b.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, obj)
	}
}
