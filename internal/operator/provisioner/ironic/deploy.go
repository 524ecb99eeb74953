package ironic

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// Deploy interfaces that are not the engine's default.
const (
	deployLive   = "ramdisk"
	deployCustom = "custom-agent"
)

// customPriority is the priority of a step that runs instead of writing an image. The step that
// writes an image has the same.
const customPriority = 80

// imageKeys are the keys of instance_info that this package writes.
var imageKeys = []string{
	"image_source", "boot_iso", "image_checksum", "image_os_hash_algo", "image_os_hash_value",
	"image_disk_format", "image_pull_secret", "capabilities", "root_device",
}

// imageOf returns the image of a deployment; nil for none.
func imageOf(d provisioner.Deployment) *v1alpha1.Image {
	if d.Image == nil || d.Image.URL == "" {
		return nil
	}
	return d.Image
}

func isLive(image *v1alpha1.Image) bool {
	return image != nil && image.DiskFormat != nil && *image.DiskFormat == v1alpha1.FormatLiveISO
}

// instanceInfo returns the description of a deployment in instance_info.
func instanceInfo(d provisioner.Deployment) map[string]any {
	wanted := bootModes[d.BootMode]
	capabilities := map[string]any{"boot_mode": wanted.mode}
	if wanted.secure {
		capabilities["secure_boot"] = "true"
	}
	info := map[string]any{"capabilities": capabilities}
	if hints := rootDevice(d.RootDevice); hints != nil {
		info["root_device"] = hints
	}
	image := imageOf(d)
	if image == nil {
		return info
	}
	if d.ImagePullSecret != "" {
		info["image_pull_secret"] = d.ImagePullSecret
	}
	if isLive(image) {
		info["boot_iso"] = image.URL
		return info
	}
	info["image_source"] = image.URL
	addChecksum(info, *image)
	if image.DiskFormat != nil && *image.DiskFormat != "" {
		info["image_disk_format"] = *image.DiskFormat
	}
	return info
}

// digestTypes are the checksum algorithms, by number of hexadecimal digits.
var digestTypes = map[int]v1alpha1.ChecksumType{32: v1alpha1.ChecksumMD5, 64: v1alpha1.ChecksumSHA256, 128: v1alpha1.ChecksumSHA512}

// addChecksum adds the checksum of an image. If the image names no algorithm, the length of the
// digest tells it. If the checksum is the URL of a file, the engine finds out the algorithm itself.
func addChecksum(info map[string]any, image v1alpha1.Image) {
	if image.Checksum == "" {
		return
	}
	algorithm := image.ChecksumType
	if algorithm == "" || algorithm == v1alpha1.ChecksumAuto {
		algorithm = digestTypes[len(image.Checksum)]
		if strings.Contains(image.Checksum, "://") {
			algorithm = ""
		}
	}
	if algorithm == "" || algorithm == v1alpha1.ChecksumMD5 {
		info["image_checksum"] = image.Checksum
		return
	}
	info["image_os_hash_algo"], info["image_os_hash_value"] = string(algorithm), image.Checksum
}

// setDeployInterface chooses the deploy interface, which brings the deployment to the machine.
func (p *patch) setDeployInterface(n ironic.Node, d provisioner.Deployment) {
	image := imageOf(d)
	switch {
	case isLive(image):
		p.set("/deploy_interface", n.DeployInterface, deployLive)
	case image == nil || d.Step != "":
		p.set("/deploy_interface", n.DeployInterface, deployCustom)
	case n.DeployInterface == deployLive || n.DeployInterface == deployCustom:
		p.remove("/deploy_interface") // back to the default of the driver
	}
}

// PersistentBoot says which boot devices of a deployed machine are set persistently: Default means
// that of the deployment, Always also that of the ramdisk, Never none. If both fields are empty,
// nodes keep what their driver_info says. If only one is empty, it means Default, so that a node
// does not keep the setting of another kind of deployment.
type PersistentBoot struct {
	// LiveISO is for live ISOs, and DirectDeploy for images that are written to a disk. Neither is
	// used for a custom deploy step.
	LiveISO, DirectDeploy string
}

// persistentBoots are the values that the Bare Metal API has.
var persistentBoots = []string{"Default", "Always", "Never"}

// Check returns an error for a value that engines do not know.
func (b PersistentBoot) Check() error {
	for _, value := range []string{b.LiveISO, b.DirectDeploy} {
		if value != "" && !slices.Contains(persistentBoots, value) {
			return fmt.Errorf("persistent boot devices: want %s, got %q", strings.Join(persistentBoots, ", "), value)
		}
	}
	return nil
}

// of returns the value for a deployment, or "" to keep the node's own.
func (b PersistentBoot) of(d provisioner.Deployment) string {
	switch image := imageOf(d); {
	case b == PersistentBoot{}, image == nil, d.Step != "":
		return ""
	case isLive(image):
		return cmp.Or(b.LiveISO, persistentBoots[0])
	default:
		return cmp.Or(b.DirectDeploy, persistentBoots[0])
	}
}

const persistentBootKey = "force_persistent_boot_device"

// setPersistentBoot sets which boot devices of the deployment are persistent.
func (p *patch) setPersistentBoot(n ironic.Node, d provisioner.Deployment, boot PersistentBoot) {
	if value := boot.of(d); value != "" {
		p.set("/driver_info/"+persistentBootKey, n.DriverInfo[persistentBootKey], value)
	}
}

// Deploy writes the deployment and asks for it; see [provisioner.Worker].
func (e *Engine) Deploy(ctx context.Context, id string, d provisioner.Deployment) error {
	n, err := e.client.Node(ctx, id)
	if err != nil {
		return translate(err)
	}
	mine := func(n provisioner.Node) bool { return n.InstanceID == d.InstanceID }
	if s := snapshotOf(n); s.Accepted(node.OnDeploy) && mine(s) {
		return nil
	}
	if provisioner.IsLock(n.InstanceUUID) {
		return fmt.Errorf("%w: an operator that came too late takes its lock off node %s", provisioner.ErrBusy, id)
	}
	if n.InstanceUUID != "" && n.InstanceUUID != d.InstanceID {
		return fmt.Errorf("%w: node %s has the instance %s; undeploy it before", provisioner.ErrConflict, id, n.InstanceUUID)
	}
	if state := node.State(n.ProvisionState); state != node.Available && state != node.DeployFailed {
		return fmt.Errorf("%w: node %s cannot be deployed in state %q", provisioner.ErrConflict, id, state)
	}
	var p patch
	p.set(instancePath, n.InstanceUUID, d.InstanceID)
	p.set("/instance_info", nil, instanceInfo(d)) // always written, because a secret in it cannot be compared
	p.setDeployInterface(n, d)
	p.setPersistentBoot(n, d, e.opts.PersistentBoot)
	if _, err := e.client.UpdateNode(ctx, id, p...); err != nil {
		return translate(err)
	}
	return e.ask(ctx, id, request{verb: ironic.Deploy, trigger: node.OnDeploy, options: deployOptions(d), shown: mine})
}

// deployOptions returns the options of the verb for a deployment.
func deployOptions(d provisioner.Deployment) ironic.ProvisionOptions {
	var opts ironic.ProvisionOptions
	if d.Step != "" {
		opts.Steps = []map[string]any{{"interface": "deploy", "step": d.Step, "args": map[string]any{}, "priority": customPriority}}
	}
	if d.ConfigDrive == nil || isLive(imageOf(d)) {
		return opts
	}
	opts.ConfigDrive = map[string]any{}
	if d.ConfigDrive.MetaData != nil {
		opts.ConfigDrive["meta_data"] = d.ConfigDrive.MetaData
	}
	if d.ConfigDrive.NetworkData != nil {
		opts.ConfigDrive["network_data"] = d.ConfigDrive.NetworkData
	}
	if d.ConfigDrive.UserData != "" {
		opts.ConfigDrive["user_data"] = d.ConfigDrive.UserData
	}
	return opts
}
