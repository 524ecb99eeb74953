package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// deploymentInputs gathers what a deployment consists of, from the host and from the Secrets that
// it refers to.
type deploymentInputs struct {
	live    client.Reader
	metrics *Metrics
}

// unreadError means that the API server did not return a Secret that may exist. That says nothing
// about the Secret, so it is no failure of the host. A person has to correct the cause of all other
// errors of deploymentInputs.
type unreadError struct {
	secret string
	err    error
}

func (e *unreadError) Error() string { return fmt.Sprintf("read Secret %s: %v", e.secret, e.err) }
func (e *unreadError) Unwrap() error { return e.err }

func isUnread(err error) bool {
	var unread *unreadError
	return errors.As(err, &unread)
}

// deployment returns what is to be deployed on a host.
func (p deploymentInputs) deployment(ctx context.Context, h *v1alpha1.BareMetalHost) (provisioner.Deployment, error) {
	d := provisioner.Deployment{
		InstanceID: string(h.UID), Image: h.Status.LastAttemptedImage.DeepCopy(), Step: deployMethod(h.Status.LastAttemptedCustomDeploy),
		RootDevice: rootDevice(h), BootMode: h.Status.Provisioning.BootMode,
	}
	var err error
	if d.ImagePullSecret, err = p.pullSecret(ctx, h, d.Image); err != nil {
		return provisioner.Deployment{}, err
	}
	if d.Image != nil && d.Image.DiskFormat != nil && *d.Image.DiskFormat == v1alpha1.FormatLiveISO {
		return d, nil // it boots without a config drive
	}
	if d.ConfigDrive, err = p.configDrive(ctx, h); err != nil {
		return provisioner.Deployment{}, err
	}
	return d, nil
}

// rootDevice returns the hints for the disk to deploy to. If the host has no hints but a software
// RAID, it returns nil: the engine itself chooses the root volume, and the old hardware profile
// does not count. Otherwise the hints of that profile stand in for missing ones.
func rootDevice(h *v1alpha1.BareMetalHost) *v1alpha1.RootDeviceHints {
	effective := h.Status.Provisioning
	switch {
	case effective.RootDeviceHints != nil:
		return effective.RootDeviceHints.DeepCopy()
	case hasSoftwareVolumes(effective.RAID):
		return nil
	default:
		return profileHints(h.Spec.HardwareProfile)
	}
}

// profileHints returns the hints that an old hardware profile stands for.
func profileHints(profile string) *v1alpha1.RootDeviceHints {
	switch profile {
	case "unknown":
		return &v1alpha1.RootDeviceHints{DeviceName: "/dev/sda"}
	case "libvirt":
		return &v1alpha1.RootDeviceHints{DeviceName: "/dev/vda"}
	case "openstack":
		return &v1alpha1.RootDeviceHints{DeviceName: "/dev/vdb"}
	case "dell":
		return &v1alpha1.RootDeviceHints{HCTL: "0:0:0:0"}
	case "dell-raid":
		return &v1alpha1.RootDeviceHints{HCTL: "0:2:0:0"}
	default:
		return nil
	}
}

// configDrive reads the user data, the network data and the metadata of a host.
func (p deploymentInputs) configDrive(ctx context.Context, h *v1alpha1.BareMetalHost) (*provisioner.ConfigDrive, error) {
	drive := &provisioner.ConfigDrive{MetaData: map[string]any{
		"uuid": string(h.UID), "metal3-namespace": h.Namespace, "metal3-name": h.Name, "name": h.Name,
		"local-hostname": h.Name, "local_hostname": h.Name,
	}}
	text, err := p.read(ctx, h, "userData", h.Spec.UserData)
	if err != nil {
		return nil, err
	}
	drive.UserData = string(text)
	network := h.Spec.NetworkData
	if network == nil && h.Spec.PreprovisioningNetworkDataName != "" {
		network = &corev1.SecretReference{Name: h.Spec.PreprovisioningNetworkDataName}
	}
	if drive.NetworkData, err = p.document(ctx, h, "networkData", network); err != nil {
		return nil, err
	}
	own, err := p.document(ctx, h, "metaData", h.Spec.MetaData)
	if err != nil {
		return nil, err
	}
	maps.Copy(drive.MetaData, own)
	return drive, nil
}

// ramdiskNetwork returns the network configuration of the ramdisk as JSON, nil for none. missing
// says why a configuration that the host names cannot be used.
func (p deploymentInputs) ramdiskNetwork(ctx context.Context, h *v1alpha1.BareMetalHost) (network []byte, missing string, err error) {
	name := h.Spec.PreprovisioningNetworkDataName
	if name == "" {
		return nil, "", nil
	}
	document, err := p.document(ctx, h, "networkData", &corev1.SecretReference{Name: name})
	switch {
	case isUnread(err):
		return nil, "", err
	case err != nil:
		return nil, fmt.Sprintf("spec.preprovisioningNetworkDataName: %v", err), nil
	}
	network, err = json.Marshal(document)
	return network, "", err
}

// document returns the content of a Secret that holds YAML or JSON, nil for none.
func (p deploymentInputs) document(ctx context.Context, h *v1alpha1.BareMetalHost, key string, ref *corev1.SecretReference) (map[string]any, error) {
	text, err := p.read(ctx, h, key, ref)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	var document map[string]any
	if err := yaml.Unmarshal(text, &document); err != nil {
		count(p.metrics.badData, h, key)
		return nil, fmt.Errorf("spec.%s: Secret %s is neither YAML nor JSON", key, ref.Name)
	}
	return document, nil
}

// read returns the value that a Secret has for a key of the config drive. The entry of the Secret
// is called like that key, or "value".
func (p deploymentInputs) read(ctx context.Context, h *v1alpha1.BareMetalHost, key string, ref *corev1.SecretReference) ([]byte, error) {
	if ref == nil || ref.Name == "" {
		return nil, nil
	}
	if ref.Namespace != "" && ref.Namespace != h.Namespace {
		return nil, fmt.Errorf("spec.%s: Secret %s/%s is in another namespace than the host; move it", key, ref.Namespace, ref.Name)
	}
	var secret corev1.Secret
	err := p.live.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: ref.Name}, &secret)
	if apierrors.IsNotFound(err) {
		count(p.metrics.badData, h, key)
		return nil, fmt.Errorf("spec.%s: Secret %s does not exist; create it", key, ref.Name)
	}
	if err != nil {
		return nil, &unreadError{ref.Name, err}
	}
	for _, name := range []string{key, "value"} {
		if text, there := secret.Data[name]; there {
			return text, nil
		}
	}
	count(p.metrics.badData, h, key)
	return nil, fmt.Errorf("spec.%s: Secret %s has neither the key %s nor value", key, ref.Name, key)
}

// capitalized returns a text with a capital first letter, to begin a sentence with.
func capitalized(text string) string {
	return strings.ToUpper(text[:1]) + text[1:]
}
