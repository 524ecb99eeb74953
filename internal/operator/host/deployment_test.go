package host

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func dataSecret(name, key, text string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: name}, Data: map[string][]byte{key: []byte(text)}}
}

func secretNamed(name string) *corev1.SecretReference { return &corev1.SecretReference{Name: name} }

func TestConfigDriveHasWhatTheSecretsOfTheHostHold(t *testing.T) {
	iso := v1alpha1.FormatLiveISO
	own := map[string]any{
		"uuid": "u1", "metal3-namespace": "metal", "metal3-name": "web", "name": "web", "local-hostname": "web", "local_hostname": "web",
	}
	with := func(key string, value any) map[string]any {
		all := map[string]any{key: value}
		for k, v := range own {
			if _, there := all[k]; !there {
				all[k] = v
			}
		}
		return all
	}
	network := map[string]any{"links": []any{}}
	for name, tt := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		want   *provisioner.ConfigDrive
		err    string
		bad    string // kind of data that is counted as unusable
	}{
		"nothing":           {nil, &provisioner.ConfigDrive{MetaData: own}, "", ""},
		"user data":         {func(h *v1alpha1.BareMetalHost) { h.Spec.UserData = secretNamed("user") }, &provisioner.ConfigDrive{MetaData: own, UserData: "#cloud-config"}, "", ""},
		"under another key": {func(h *v1alpha1.BareMetalHost) { h.Spec.UserData = secretNamed("value") }, &provisioner.ConfigDrive{MetaData: own, UserData: "links: []"}, "", ""},
		"network data":      {func(h *v1alpha1.BareMetalHost) { h.Spec.NetworkData = secretNamed("value") }, &provisioner.ConfigDrive{MetaData: own, NetworkData: network}, "", ""},
		"of the ramdisk":    {func(h *v1alpha1.BareMetalHost) { h.Spec.PreprovisioningNetworkDataName = "value" }, &provisioner.ConfigDrive{MetaData: own, NetworkData: network}, "", ""},
		"own before ramdisk": {func(h *v1alpha1.BareMetalHost) {
			h.Spec.NetworkData, h.Spec.PreprovisioningNetworkDataName = secretNamed("value"), "none"
		}, &provisioner.ConfigDrive{MetaData: own, NetworkData: network}, "", ""},
		"metadata wins": {func(h *v1alpha1.BareMetalHost) { h.Spec.MetaData = secretNamed("meta") }, &provisioner.ConfigDrive{MetaData: with("name", "other")}, "", ""},
		"live image": {func(h *v1alpha1.BareMetalHost) {
			h.Status.LastAttemptedImage.DiskFormat, h.Spec.UserData = &iso, secretNamed("user")
		}, nil, "", ""},
		"missing Secret":  {func(h *v1alpha1.BareMetalHost) { h.Spec.NetworkData = secretNamed("none") }, nil, "spec.networkData: Secret none does not exist", "networkData"},
		"other keys only": {func(h *v1alpha1.BareMetalHost) { h.Spec.MetaData = secretNamed("user") }, nil, "neither the key metaData nor value", "metaData"},
		"no document":     {func(h *v1alpha1.BareMetalHost) { h.Spec.NetworkData = secretNamed("broken") }, nil, "spec.networkData", "networkData"},
		"another namespace": {func(h *v1alpha1.BareMetalHost) {
			h.Spec.UserData = &corev1.SecretReference{Name: "user", Namespace: "other"}
		}, nil, "is in another namespace", ""},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			metrics, err := NewMetrics(registry)
			if err != nil {
				t.Fatal(err)
			}
			inputs := deploymentInputs{metrics: metrics, live: newAPI(t,
				dataSecret("user", "userData", "#cloud-config"), dataSecret("value", "value", "links: []"),
				dataSecret("meta", "metaData", `{"name":"other"}`), dataSecret("broken", "networkData", "- a\n- b"))}
			got, err := inputs.deployment(t.Context(), testHost(func(h *v1alpha1.BareMetalHost) {
				h.Status.LastAttemptedImage = testImage("a")
				if tt.change != nil {
					tt.change(h)
				}
			}))
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want one with %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got.ConfigDrive); diff != "" {
				t.Errorf("config drive (-want +got):\n%s", diff)
			}
			counted := ""
			families, err := registry.Gather()
			for _, family := range families {
				for _, label := range family.GetMetric()[0].GetLabel() {
					if label.GetName() == "host_data_type" {
						counted += label.GetValue()
					}
				}
			}
			if err != nil || counted != tt.bad {
				t.Errorf("counted as unusable: %q, %v; want %q", counted, err, tt.bad)
			}
		})
	}
}

func TestLiveImageOfARegistryIsFetchedWithItsLogin(t *testing.T) {
	iso, pull := v1alpha1.FormatLiveISO, "pull"
	secret := dataSecret(pull, corev1.DockerConfigJsonKey, `{"auths":{"registry.example.org":{"auth":"dTpw"}}}`)
	secret.Type = corev1.SecretTypeDockerConfigJson
	h := testHost(func(h *v1alpha1.BareMetalHost) {
		h.Status.LastAttemptedImage = &v1alpha1.Image{URL: "oci://registry.example.org/live:1", DiskFormat: &iso, OCIAuthSecretName: &pull}
	})
	got, err := deploymentInputs{live: newAPI(t, secret)}.deployment(t.Context(), h)
	if err != nil || got.ImagePullSecret != "dTpw" || got.ConfigDrive != nil {
		t.Errorf("deployment %+v, %v; want the login and no config drive", got, err)
	}
	if _, err := (deploymentInputs{live: newAPI(t)}).deployment(t.Context(), h); err == nil || !strings.Contains(err.Error(), "Secret pull does not exist") {
		t.Errorf("error %v, want one about the Secret", err)
	}
}

func TestRootDeviceComesFromTheVolumesTheHintsOrTheProfile(t *testing.T) {
	hints := &v1alpha1.RootDeviceHints{SerialNumber: "S1"}
	for name, tt := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		want   *v1alpha1.RootDeviceHints
	}{
		"nothing": {nil, nil},
		"hints":   {func(h *v1alpha1.BareMetalHost) { h.Status.Provisioning.RootDeviceHints = hints }, hints},
		"hints and a profile": {func(h *v1alpha1.BareMetalHost) {
			h.Status.Provisioning.RootDeviceHints, h.Spec.HardwareProfile = hints, "libvirt"
		}, hints},
		"volume of the operating system": {func(h *v1alpha1.BareMetalHost) {
			h.Spec.HardwareProfile = "libvirt"
			h.Status.Provisioning.RAID = &v1alpha1.RAIDConfig{SoftwareRAIDVolumes: []v1alpha1.SoftwareRAIDVolume{{Level: "1"}}}
		}, nil},
		"hints beside volumes of the operating system": {func(h *v1alpha1.BareMetalHost) {
			h.Status.Provisioning.RootDeviceHints = hints
			h.Status.Provisioning.RAID = &v1alpha1.RAIDConfig{SoftwareRAIDVolumes: []v1alpha1.SoftwareRAIDVolume{{Level: "1"}}}
		}, hints},
		"volume of a controller": {func(h *v1alpha1.BareMetalHost) {
			h.Status.Provisioning.RootDeviceHints = hints
			h.Status.Provisioning.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{{Level: "1"}}}
		}, hints},
		"unknown":   {func(h *v1alpha1.BareMetalHost) { h.Spec.HardwareProfile = "unknown" }, &v1alpha1.RootDeviceHints{DeviceName: "/dev/sda"}},
		"libvirt":   {func(h *v1alpha1.BareMetalHost) { h.Spec.HardwareProfile = "libvirt" }, &v1alpha1.RootDeviceHints{DeviceName: "/dev/vda"}},
		"openstack": {func(h *v1alpha1.BareMetalHost) { h.Spec.HardwareProfile = "openstack" }, &v1alpha1.RootDeviceHints{DeviceName: "/dev/vdb"}},
		"dell":      {func(h *v1alpha1.BareMetalHost) { h.Spec.HardwareProfile = "dell" }, &v1alpha1.RootDeviceHints{HCTL: "0:0:0:0"}},
		"dell-raid": {func(h *v1alpha1.BareMetalHost) { h.Spec.HardwareProfile = "dell-raid" }, &v1alpha1.RootDeviceHints{HCTL: "0:2:0:0"}},
	} {
		if diff := cmp.Diff(tt.want, rootDevice(testHost(tt.change))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestConfigurationIsWhatDiffersFromTheOneInEffect(t *testing.T) {
	none, one := []v1alpha1.HardwareRAIDVolume{}, []v1alpha1.HardwareRAIDVolume{{Level: "1"}}
	config := func(volumes []v1alpha1.HardwareRAIDVolume) *v1alpha1.RAIDConfig {
		return &v1alpha1.RAIDConfig{HardwareRAIDVolumes: volumes}
	}
	for name, tt := range map[string]struct {
		wanted, effective *v1alpha1.RAIDConfig
		steps             int
	}{
		"nothing wanted":               {nil, nil, 0},
		"nothing wanted, volumes stay": {nil, config(one), 0},
		"volumes":                      {config(one), nil, 2},
		"the volumes that are there":   {config(one), config(one), 0},
		"other volumes":                {config([]v1alpha1.HardwareRAIDVolume{{Level: "5"}}), config(one), 2},
		"no volumes":                   {config(none), config(one), 1},
		"unknown volumes are kept":     {config(nil), config(one), 0},
		"no volumes, unknown before":   {config(none), config(nil), 1},
		"no volumes, as before":        {config(none), config(none), 0},
		"any volumes, none before":     {config(nil), config(none), 0},
		"no disks are chosen": {
			config([]v1alpha1.HardwareRAIDVolume{{Level: "1", PhysicalDisks: []string{}}}), config(one), 0,
		},
	} {
		h := testHost(func(h *v1alpha1.BareMetalHost) { h.Spec.RAID, h.Status.Provisioning.RAID = tt.wanted, tt.effective })
		if got := configurationOf(h, changes{}); len(got.raidSteps) != tt.steps || got.wanted() != (tt.steps > 0) {
			t.Errorf("%s: %d steps, plan %q; want %d", name, len(got.raidSteps), got.plan, tt.steps)
		}
	}
}
