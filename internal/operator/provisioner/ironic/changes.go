package ironic

import (
	"maps"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// hardwareStates are the states in which Ironic lets the driver of a node change without maintenance.
// Ingot's engine refuses a change to another machine in inspect wait.
var hardwareStates = []node.State{node.Enroll, node.InspectWait, node.Manageable, node.Available}

// idleStates are the states in which nothing is deployed and no work is under way.
var idleStates = []node.State{
	node.Enroll, node.Manageable, node.Available, node.InspectFailed, node.CleanFailed, node.AdoptFailed,
}

// changeable reports whether the interfaces of a node can be changed. An inspection goes on with those
// that it began with.
func changeable(n ironic.Node) bool {
	switch state := node.State(n.ProvisionState); state {
	case node.Inspecting, node.InspectWait:
		return false
	default:
		return n.Maintenance || slices.Contains(hardwareStates, state)
	}
}

// changesOf returns the operations that change a node to what its registration wants. If the driver
// stays, interfaces that cannot be changed in this state are left for later; putOff reports that.
func changesOf(n ironic.Node, r provisioner.Registration, opts provisioner.UpdateOptions, can engineAbilities, own Options) (p patch, putOff bool, err error) {
	network, err := networkData(r.NetworkData)
	if err != nil {
		return nil, false, err
	}
	p.set("/name", n.Name, r.Name)
	if r.Access != nil {
		if putOff, err = p.setAccess(n, r, opts, can, own.Ramdisk); err != nil {
			return nil, false, err
		}
	}
	p.setProperties(n, r)
	p.set("/automated_clean", n.AutomatedClean, !r.SkipAutomatedCleaning)
	if can.disablePowerOff {
		p.set("/disable_power_off", n.DisablePowerOff, r.DisablePowerOff)
	}
	switch {
	case r.KeepRamdisk:
	case len(network) > 0:
		p.set("/network_data", n.NetworkData, network)
	case len(n.NetworkData) > 0: // engines refuse an empty value
		p.remove("/network_data")
	}
	if p.setInstance(n, r, own.PersistentBoot) {
		putOff = true
	}
	return p, putOff, nil
}

// setAccess changes the driver, its interfaces, and driver_info. It keeps keys that neither this
// package nor the former driver has written.
func (p *patch) setAccess(n ironic.Node, r provisioner.Registration, opts provisioner.UpdateOptions, can engineAbilities, ramdisk Ramdisk) (putOff bool, err error) {
	interfaces, err := interfacesOf(*r.Access, r.InspectionMode, can)
	if err != nil {
		return false, err
	}
	replaced := n.Driver != r.Access.Driver
	p.set("/driver", n.Driver, r.Access.Driver)
	for _, field := range slices.Sorted(maps.Keys(interfaces)) {
		switch {
		case replaced: // apply has put a node in use into maintenance
			p.set("/"+field, nil, interfaces[field])
		case field == "raid_interface" && n.RAIDInterface == softwareRAID:
			// SetTargetRAID chose this interface for the volumes.
		case changeable(n):
			p.set("/"+field, interfaceOf(n, field), interfaces[field])
		case interfaceOf(n, field) != interfaces[field]:
			putOff = true
		}
	}
	wanted := ramdiskInfo(*r.Access, r.RamdiskImage, ramdisk)
	if r.KeepRamdisk {
		wanted = ramdiskInfoOf(n)
	}
	maps.Copy(wanted, r.Access.Settings)
	present := n.DriverInfo
	version := textIn(n.Extra, v1alpha1.NodeCredentialsKey)
	if opts.WithCredentials || replaced || accessDiffers(n, r) || version != r.CredentialsVersion {
		credentials := credentialInfo(r)
		maps.Copy(wanted, credentials)
		// What the engine shows of the credentials cannot be compared, because it masks secrets.
		// Credentials that are not sent would stay on the node and be sent to the new address.
		present = maps.Clone(present)
		maps.DeleteFunc(present, func(key string, _ any) bool { return credentials[key] != nil })
		p.set(credentialsPath, version, r.CredentialsVersion)
	}
	p.merge("/driver_info", present, wanted, func(key string, value any) bool {
		return slices.Contains(ramdiskKeys, key) || outdated(key, value) || ofFormerDriver(key, n.Driver, r.Access.Driver)
	})
	return putOff, nil
}

// accessDiffers reports whether the location of the BMC or the user name has changed.
func accessDiffers(n ironic.Node, r provisioner.Registration) bool {
	for _, key := range locatingKeys {
		present, wanted := n.DriverInfo[key], r.Access.Settings[key]
		if wanted != nil && !same(present, wanted) || wanted == nil && present != nil && outdated(key, present) {
			return true
		}
	}
	keys, ok := credentialKeys[r.Access.Driver]
	return ok && !same(n.DriverInfo[keys.username], r.Credentials.Username)
}

// ofFormerDriver reports whether a key of driver_info belongs to the former driver of a node and
// not to its new one.
func ofFormerDriver(key, before, after string) bool {
	former := driverPrefixes[before]
	return former != "" && former != driverPrefixes[after] && strings.HasPrefix(key, former)
}

func (p *patch) setProperties(n ironic.Node, r provisioner.Registration) {
	if r.Architecture != "" {
		p.set("/properties/cpu_arch", n.Properties["cpu_arch"], r.Architecture)
	}
	capabilities, _ := n.Properties["capabilities"].(string)
	p.set("/properties/capabilities", n.Properties["capabilities"], mergeCapabilities(capabilities, r.BootMode))
	present, wanted := n.Properties["root_device"], rootDevice(r.RootDevice)
	switch {
	case wanted != nil:
		p.set("/properties/root_device", present, wanted)
	case present != nil && !ofVolume(n, present):
		p.remove("/properties/root_device")
	}
}

// ofVolume reports whether hints are those that the engine wrote for the root volume when it
// created volumes.
func ofVolume(n ironic.Node, hints any) bool {
	volumes, _ := n.RAIDConfig["logical_disks"].([]any)
	return slices.ContainsFunc(volumes, func(volume any) bool {
		fields, _ := volume.(map[string]any)
		return fields["root_device_hint"] != nil && same(fields["root_device_hint"], hints)
	})
}

// removeInstance removes the instance ID from a node.
var removeInstance = nodes.UpdateOperation{Op: nodes.RemoveOp, Path: instancePath}

// hasFormerInstance reports whether an idle node that is to be adopted still has another instance
// ID. That is the ID of the host in the cluster from which it was moved before its adoption there
// had ended. Engines do not replace an instance ID by another one, so it is removed first.
func hasFormerInstance(n ironic.Node, r provisioner.Registration) bool {
	return r.Deployed != nil && slices.Contains(idleStates, node.State(n.ProvisionState)) &&
		n.InstanceUUID != "" && n.InstanceUUID != r.Deployed.InstanceID && !provisioner.IsLock(n.InstanceUUID)
}

// setInstance describes to an idle node what runs on its machine, for an adoption. Without a
// deployment, it removes what an earlier one has left. putOff reports whether the deploy interface
// is left for later.
func (p *patch) setInstance(n ironic.Node, r provisioner.Registration, boot PersistentBoot) (putOff bool) {
	if !slices.Contains(idleStates, node.State(n.ProvisionState)) {
		return false
	}
	if r.Deployed == nil {
		if len(n.InstanceInfo) > 0 {
			p.set("/instance_info", nil, map[string]any{})
		}
		if n.InstanceUUID != "" && !provisioner.IsLock(n.InstanceUUID) { // its owner, another operator, removes a lock
			*p = append(*p, removeInstance)
		}
		return false
	}
	p.merge("/instance_info", n.InstanceInfo, instanceInfo(*r.Deployed), func(key string, _ any) bool { return slices.Contains(imageKeys, key) })
	p.set(instancePath, n.InstanceUUID, r.Deployed.InstanceID)
	p.setPersistentBoot(n, *r.Deployed, boot)
	var deploy patch
	deploy.setDeployInterface(n, *r.Deployed)
	if !changeable(n) {
		return len(deploy) > 0
	}
	*p = append(*p, deploy...)
	return false
}
