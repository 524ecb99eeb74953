package provisioner

import (
	"context"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

// Registrar creates nodes and keeps their settings as their hosts ask.
type Registrar interface {
	// Create creates the node of a registration with its mark, and ports for
	// the boot MAC address and the NICs. ErrConflict says that the engine has a node with this name
	// or a port with the former. The node may exist then, and also when the answer was
	// lost: it is found by its name.
	Create(ctx context.Context, r Registration) (Node, error)
	// Update writes what differs between the node and the registration, and returns
	// the node as it is afterwards. Nothing different means no request that changes
	// anything. The engine never shows a password, so that is written only when
	// the access to the BMC differs otherwise, the node names another version of them, or WithCredentials is set.
	//
	// What the engine has besides stays: keys that people or inspection wrote, and,
	// when the driver changes, the ID, ports and inventory. A node in use is in
	// maintenance while its driver changes; interfaces of a driver that stays are written
	// when the state allows it, and [Node.PutOff] says that it does not. ErrNotOwned says that the node does not have the mark.
	Update(ctx context.Context, id string, r Registration, opts UpdateOptions) (Node, error)
	// CheckAccess asks the BMC of a node for something that changes nothing, with the access and the credentials
	// that the node has. It is for nodes that an engine does not verify any more, because they are beyond [node.Enroll]. ErrFailed
	// says that the BMC did not answer or refused, and why.
	CheckAccess(ctx context.Context, id string) error
}

// Registration is what a host asks of its node, apart from the state.
type Registration struct {
	// Name and Mark are as in [Node].
	Name string
	Mark Mark
	// Access is how to reach the BMC; nil keeps the driver and the access that the
	// node has: its machine was discovered and has no BMC that we know.
	Access *bmc.Access
	// Credentials are those of the BMC.
	Credentials bmc.Credentials
	// CredentialsVersion is as in [Node].
	CredentialsVersion string
	// BootMAC is the MAC address of the interface that boots, "" for unknown.
	BootMAC string
	// NICs are those that were found on the machine earlier, for a node that has not been inspected: each gets a
	// port, unless a port of another node has its address. Without any, the engine does not recognise the ramdisk.
	NICs []NIC
	// BootMode is how the machine boots.
	BootMode v1alpha1.BootMode
	// Architecture is that of the processor, such as x86_64; "" for unknown.
	Architecture string
	// RootDevice are the hints for the disk to deploy to; nil for none, which keeps those
	// that the engine wrote for a root volume.
	RootDevice *v1alpha1.RootDeviceHints
	// InspectionMode is how the machine is inspected.
	InspectionMode v1alpha1.InspectionMode
	// SkipAutomatedCleaning turns automated cleaning of this node off. False turns it
	// on again.
	SkipAutomatedCleaning bool
	// DisablePowerOff forbids the engine to switch the machine off. Engines before API
	// version 1.95 cannot: ErrUnsupported.
	DisablePowerOff bool
	// NetworkData configures the network of the ramdisk, in the format of OpenStack's
	// network_data.json; nil for none.
	NetworkData []byte
	// RamdiskImage is the image that the ramdisk boots from instead of the engine's; nil for none.
	RamdiskImage *RamdiskImage
	// KeepRamdisk leaves the image and the network configuration that the node has; RamdiskImage
	// and NetworkData are nil then.
	KeepRamdisk bool
	// Deployed is what runs on the machine, for a node that is adopted; nil for nothing.
	// While a node is idle, nil removes what is left of an earlier deployment. One
	// without image and step is somebody else's.
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
	// WithCredentials writes the credentials of the BMC also when nothing else differs.
	WithCredentials bool
}

// Identifier tells which machine a BMC belongs to.
type Identifier interface {
	// Identify reads it through a BMC that no node has to have yet. It changes neither
	// the machine nor the engine. ErrUnsupported says that the engine or this kind of BMC
	// cannot tell, ErrInvalid that the BMC did not answer or refused, and why.
	Identify(ctx context.Context, access bmc.Access, credentials bmc.Credentials) (node.MachineFacts, error)
}

// Worker asks for work on a node. Every method returns when the engine accepted the
// work, not when it is done: the state of the node shows that.
type Worker interface {
	// Inspect asks for an inspection of a manageable node.
	Inspect(ctx context.Context, id string) error
	// Clean runs steps on a manageable node.
	Clean(ctx context.Context, id string, steps []node.Step) error
	// SetTargetRAID writes the volumes that the RAID steps of cleaning create, and
	// chooses what makes them. The node must be manageable. raid is as for [RAIDSteps].
	// The first volume is the root volume, or the software volume that is marked; with hints for the
	// root device there is none.
	SetTargetRAID(ctx context.Context, id string, raid *v1alpha1.RAIDConfig, hints *v1alpha1.RootDeviceHints) error
	// Deploy writes the deployment into an available node and asks for it. ErrInvalid says
	// that it cannot be deployed with the settings of the node.
	Deploy(ctx context.Context, id string, d Deployment) error
	// Undeploy removes the deployment; the node is cleaned, unless its registration
	// turned that off, and available at the end.
	Undeploy(ctx context.Context, id string) error
	// Adopt takes a manageable node over whose machine runs a deployment already.
	Adopt(ctx context.Context, id string) error
	// Abort stops what the node waits in: an inspection, a cleaning or a service. On a
	// node whose service failed, it ends the service.
	Abort(ctx context.Context, id string) error
	// CanService reports whether the engine can service deployed nodes at all. It sends no
	// request about a node.
	CanService(ctx context.Context) (bool, error)
	// Service runs steps on a deployed node. Engines before API version 1.87 cannot:
	// ErrUnsupported.
	Service(ctx context.Context, id string, steps []node.Step) error
	// SetAutomatedCleaning turns automated cleaning of this node on or off, for nodes
	// without a [Registration].
	SetAutomatedCleaning(ctx context.Context, id string, on bool) error
	// SetMaintenance puts the node into maintenance with a reason, or takes it out with "".
	SetMaintenance(ctx context.Context, id, reason string) error
}

// Deployment is what is to be deployed. Image or Step is set, or both.
type Deployment struct {
	// InstanceID is the UUID of the host object, for people who look at the node.
	InstanceID string
	// Image is the image to write or to boot; nil for none.
	Image *v1alpha1.Image
	// ImagePullSecret is the secret of an OCI registry, as user:password in base64; ""
	// for none.
	ImagePullSecret string
	// Step is the deploy step that takes the place of writing an image; "" for none.
	Step string
	// RootDevice are the hints for the disk; nil for the engine's choice.
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
	// SetPower asks for a change of power. ErrUnsupported says that the driver does not
	// have the action, such as a soft one.
	SetPower(ctx context.Context, id string, change PowerChange) error
}

// PowerChange is a request for power.
type PowerChange struct {
	// Action is what to do.
	Action PowerAction
	// Timeout bounds a soft action; 0 is the engine's default.
	Timeout time.Duration
}

// PowerAction is a change of power.
type PowerAction string

// Power actions, by the words of the API.
const (
	PowerActionOn         PowerAction = "power on"
	PowerActionOff        PowerAction = "power off"
	PowerActionSoftOff    PowerAction = "soft power off"
	PowerActionReboot     PowerAction = "rebooting"
	PowerActionSoftReboot PowerAction = "soft rebooting"
)

// FirmwareReader reads BIOS settings and firmware.
type FirmwareReader interface {
	// Settings reads the BIOS settings that the engine knows, with their schema. A node
	// whose driver has none gives ErrUnsupported.
	Settings(ctx context.Context, id string) ([]Setting, error)
	// Components reads the firmware components, or gives ErrUnsupported.
	Components(ctx context.Context, id string) ([]Component, error)
}

// Setting is a BIOS setting.
type Setting struct {
	// Name and Value are the BMC's words.
	Name, Value string
	// Schema says what values are allowed. Its AttributeType is "" when the engine does
	// not know it.
	Schema v1alpha1.SettingSchema
}

// Component is a firmware component.
type Component struct {
	// Name is bmc, bios, or nic: and a name.
	Name string
	// InitialVersion was found first, CurrentVersion is what runs, LastFlashed is the
	// version that was written last.
	InitialVersion, CurrentVersion, LastFlashed string
	UpdatedAt                                   time.Time
}

// MediaController puts images into the machine's virtual drives.
type MediaController interface {
	// AttachImage puts the image at url into a virtual drive of the machine. The engine
	// may accept it before the BMC does; a failure is in the node's LastError then.
	// Engines before API version 1.89 cannot: ErrUnsupported.
	AttachImage(ctx context.Context, id, url string) error
	// DetachImage takes it out. A machine without one is no error.
	DetachImage(ctx context.Context, id string) error
	// HasImage reports whether there is an image in a virtual drive, as the BMC says. It
	// decides whether a LastError is about the last request or an older one. Engines before
	// API version 1.93 cannot: ErrUnsupported.
	HasImage(ctx context.Context, id string) (bool, error)
}

// Subscriber subscribes to events of BMCs.
type Subscriber interface {
	// Subscribe asks the BMC to send its events and returns the subscription's ID. ErrFailed says
	// that the BMC may have made the subscription nevertheless.
	Subscribe(ctx context.Context, id string, s Subscription) (string, error)
	// Unsubscribe ends a subscription. One that does not exist is no error. ErrUnsupported says that the
	// BMC, or the driver of the node, has none.
	Unsubscribe(ctx context.Context, id, subscription string) error
	// Subscriptions lists those that the BMC has, whoever asked for them; ErrUnsupported is as above.
	Subscriptions(ctx context.Context, id string) ([]ActiveSubscription, error)
}

// ActiveSubscription is a subscription that a BMC has.
type ActiveSubscription struct {
	// ID is the BMC's name for it; the others are as in [Subscription].
	ID, Destination, Context string
}

// Subscription says where a BMC sends its events.
type Subscription struct {
	Destination, Context string
	Headers              []map[string]string
}
