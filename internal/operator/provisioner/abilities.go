package provisioner

import (
	"context"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

// Registrar creates nodes and keeps their settings as their hosts want them.
type Registrar interface {
	// Create creates the node of a registration with its mark, and ports for the boot MAC address
	// and the NICs. ErrConflict says that the engine already has a node with this name or a port
	// with the boot MAC address. After ErrConflict, and after a lost answer, the node may exist: it
	// can be found by its name.
	Create(ctx context.Context, r Registration) (Node, error)
	// Update writes what differs between the node and the registration, and returns the node as it
	// is afterwards. If nothing differs, it sends no request that changes anything. The engine
	// never shows a password, so Update writes the password only if anything else about the access
	// to the BMC differs, the node names another version of the credentials, or WithCredentials is
	// set.
	//
	// Everything else on the node stays: keys that people or inspection wrote and, when the driver
	// changes, the ID, ports and inventory. A node in use is in maintenance while its driver
	// changes. Other interfaces of the same driver are written only in states that allow it;
	// otherwise [Node.PutOff] is true. ErrNotOwned says that the node does not have the mark.
	Update(ctx context.Context, id string, r Registration, opts UpdateOptions) (Node, error)
	// CheckAccess asks the BMC of a node for something that changes nothing, with the access and
	// the credentials that the node has. It is for nodes that an engine no longer verifies, because
	// they are beyond [node.Enroll]. ErrFailed says that the BMC did not answer or refused, and
	// why.
	CheckAccess(ctx context.Context, id string) error
}

// Registration is what a host wants of its node, except for the state.
type Registration struct {
	// Name and Mark are as in [Node].
	Name string
	Mark Mark
	// Access says how to reach the BMC. nil keeps the driver and the access that the node has: its
	// machine was discovered and has no BMC that the operator knows.
	Access *bmc.Access
	// Credentials are the credentials of the BMC.
	Credentials bmc.Credentials
	// CredentialsVersion is as in [Node].
	CredentialsVersion string
	// BootMAC is the MAC address of the interface that boots; "" if it is unknown.
	BootMAC string
	// NICs are the NICs that were found on the machine earlier, for a node that has not been
	// inspected. Each NIC gets a port, unless a port of another node has its address. Without
	// ports, the engine does not recognise the machine's ramdisk.
	NICs []NIC
	// BootMode is how the machine boots.
	BootMode v1alpha1.BootMode
	// Architecture is the processor architecture, such as x86_64; "" if it is unknown.
	Architecture string
	// RootDevice has the hints for the disk to deploy to. nil means none, and keeps the hints that
	// the engine wrote for a root volume.
	RootDevice *v1alpha1.RootDeviceHints
	// InspectionMode is how the machine is inspected.
	InspectionMode v1alpha1.InspectionMode
	// SkipAutomatedCleaning turns automated cleaning of this node off. false turns it on again.
	SkipAutomatedCleaning bool
	// DisablePowerOff forbids the engine to switch the machine off. Engines before API version 1.95
	// cannot do this: ErrUnsupported.
	DisablePowerOff bool
	// NetworkData configures the network of the ramdisk, in the format of OpenStack's
	// network_data.json; nil for none.
	NetworkData []byte
	// RamdiskImage is the image that the ramdisk boots from instead of the engine's; nil for none.
	RamdiskImage *RamdiskImage
	// KeepRamdisk keeps the ramdisk image and the network configuration that the node has.
	// RamdiskImage and NetworkData are nil then.
	KeepRamdisk bool
	// Deployed is what runs on the machine, for a node that is adopted; nil for nothing. While a
	// node is idle, nil removes what an earlier deployment has left. A Deployment without image and
	// step means that somebody else deployed the machine.
	Deployed *Deployment
}

// NIC is a network interface of a machine.
type NIC struct {
	// MAC is in lower case.
	MAC string
	// PXE says that the machine booted from it.
	PXE bool
}

// RamdiskImage is an image of the ramdisk. Either ISO is set, or Kernel and Ramdisk.
type RamdiskImage struct {
	ISO, Kernel, Ramdisk string
	// KernelParams are added to the engine's own.
	KernelParams string
}

// UpdateOptions say what else Update writes.
type UpdateOptions struct {
	// WithCredentials writes the credentials of the BMC even if nothing else differs.
	WithCredentials bool
}

// Identifier finds out which machine a BMC belongs to.
type Identifier interface {
	// Identify asks a BMC, which no node needs to have yet. It changes neither the machine nor the
	// engine. ErrUnsupported says that the engine or this kind of BMC cannot tell. ErrInvalid says
	// that the BMC did not answer or refused, and why.
	Identify(ctx context.Context, access bmc.Access, credentials bmc.Credentials) (node.MachineFacts, error)
}

// Worker asks for work on a node. Every method returns when the engine has accepted the work. The
// state of the node shows when the work is done.
type Worker interface {
	// Inspect asks for an inspection of a manageable node.
	Inspect(ctx context.Context, id string) error
	// Clean runs steps on a manageable node.
	Clean(ctx context.Context, id string, steps []node.Step) error
	// SetTargetRAID writes the volumes that the RAID steps of cleaning create, and chooses the RAID
	// interface that creates them. The node must be manageable. raid is as for [RAIDSteps]. The
	// root volume is the software volume that is marked as such, or else the first volume. With
	// hints for the root device there is no root volume.
	SetTargetRAID(ctx context.Context, id string, raid *v1alpha1.RAIDConfig, hints *v1alpha1.RootDeviceHints) error
	// Deploy writes the deployment into an available node and asks for it. ErrInvalid says that it
	// cannot be deployed with the settings of the node.
	Deploy(ctx context.Context, id string, d Deployment) error
	// Undeploy removes the deployment. The node is cleaned, unless its registration turned that
	// off, and ends up available.
	Undeploy(ctx context.Context, id string) error
	// Adopt takes over a manageable node whose machine already runs a deployment.
	Adopt(ctx context.Context, id string) error
	// Abort stops the work in which the node waits: an inspection, a cleaning or a service. On a
	// node whose service failed, it ends the service.
	Abort(ctx context.Context, id string) error
	// CanService reports whether the engine can service deployed nodes at all. It sends no request
	// about a node.
	CanService(ctx context.Context) (bool, error)
	// Service runs steps on a deployed node. Engines before API version 1.87 cannot do this:
	// ErrUnsupported.
	Service(ctx context.Context, id string, steps []node.Step) error
	// SetAutomatedCleaning turns automated cleaning of this node on or off, for nodes
	// without a [Registration].
	SetAutomatedCleaning(ctx context.Context, id string, on bool) error
	// SetMaintenance puts the node into maintenance for a reason. The reason "" takes it out.
	SetMaintenance(ctx context.Context, id, reason string) error
}

// Deployment is what is to be deployed. Image or Step is set, or both.
type Deployment struct {
	// InstanceID is the UUID of the host object, for people who look at the node.
	InstanceID string
	// Image is the image to write or to boot; nil for none.
	Image *v1alpha1.Image
	// ImagePullSecret is the login of an OCI registry, as user:password in base64; "" for none.
	ImagePullSecret string
	// Step is the deploy step that runs instead of writing an image; "" for none.
	Step string
	// RootDevice has the hints for the disk; nil leaves the choice to the engine.
	RootDevice *v1alpha1.RootDeviceHints
	// BootMode is how the machine boots.
	BootMode v1alpha1.BootMode
	// ConfigDrive is for the first boot; nil for none.
	ConfigDrive *ConfigDrive
}

// ConfigDrive holds the files of a config drive.
type ConfigDrive struct {
	// MetaData is the content of meta_data.json.
	MetaData map[string]any
	// NetworkData is the content of network_data.json; nil for none.
	NetworkData map[string]any
	// UserData is passed on as it is.
	UserData string
}

// PowerController changes the power of machines.
type PowerController interface {
	// SetPower asks for a change of power. ErrUnsupported says that the driver does not have the
	// action, such as a soft one.
	SetPower(ctx context.Context, id string, change PowerChange) error
}

// PowerChange is a request to change the power.
type PowerChange struct {
	// Action is what to do.
	Action PowerAction
	// Timeout bounds a soft action; 0 means the engine's default.
	Timeout time.Duration
}

// PowerAction is a change of power.
type PowerAction string

// Power actions, in the words of the API.
const (
	PowerActionOn         PowerAction = "power on"
	PowerActionOff        PowerAction = "power off"
	PowerActionSoftOff    PowerAction = "soft power off"
	PowerActionReboot     PowerAction = "rebooting"
	PowerActionSoftReboot PowerAction = "soft rebooting"
)

// FirmwareReader reads BIOS settings and firmware.
type FirmwareReader interface {
	// Settings reads the BIOS settings that the engine knows, with their schema. It returns
	// ErrUnsupported for a node whose driver has none.
	Settings(ctx context.Context, id string) ([]Setting, error)
	// Components reads the firmware components. It returns ErrUnsupported for a node whose driver
	// has none.
	Components(ctx context.Context, id string) ([]Component, error)
}

// Setting is a BIOS setting.
type Setting struct {
	// Name and Value are in the BMC's words.
	Name, Value string
	// Schema says which values are allowed. Its AttributeType is "" if the engine does not know it.
	Schema v1alpha1.SettingSchema
}

// Component is a firmware component.
type Component struct {
	// Name is bmc, bios, or nic: followed by a name.
	Name string
	// InitialVersion was found first, CurrentVersion is running, LastFlashed was written last.
	InitialVersion, CurrentVersion, LastFlashed string
	UpdatedAt                                   time.Time
}

// MediaController puts images into the machine's virtual drives.
type MediaController interface {
	// AttachImage puts the image at url into a virtual drive of the machine. The engine may accept
	// the request before the BMC does; a failure is then in the node's LastError. Engines before
	// API version 1.89 cannot do this: ErrUnsupported.
	AttachImage(ctx context.Context, id, url string) error
	// DetachImage takes the image out. A machine without an image is no error.
	DetachImage(ctx context.Context, id string) error
	// HasImage reports whether the BMC has an image in a virtual drive. The answer shows whether a
	// LastError is about the last request or an older one. Engines before API version 1.93 cannot
	// do this: ErrUnsupported.
	HasImage(ctx context.Context, id string) (bool, error)
}

// Subscriber subscribes to events of BMCs.
type Subscriber interface {
	// Subscribe asks the BMC to send its events and returns the subscription's ID. After ErrFailed,
	// the BMC may nevertheless have made the subscription.
	Subscribe(ctx context.Context, id string, s Subscription) (string, error)
	// Unsubscribe ends a subscription. A subscription that does not exist is no error.
	// ErrUnsupported says that the BMC, or the driver of the node, has no subscriptions.
	Unsubscribe(ctx context.Context, id, subscription string) error
	// Subscriptions lists the BMC's subscriptions, whoever asked for them. ErrUnsupported is as for
	// Unsubscribe.
	Subscriptions(ctx context.Context, id string) ([]ActiveSubscription, error)
}

// ActiveSubscription is a subscription that a BMC has.
type ActiveSubscription struct {
	// ID is the BMC's name for the subscription. The others are as in [Subscription].
	ID, Destination, Context string
}

// Subscription says where a BMC sends its events.
type Subscription struct {
	Destination, Context string
	Headers              []map[string]string
}
