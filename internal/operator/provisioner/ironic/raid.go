package ironic

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// softwareRAID is the RAID interface that creates volumes of the operating system.
const softwareRAID = "agent"

// SetTargetRAID writes the volumes; see [provisioner.Worker].
func (e *Engine) SetTargetRAID(ctx context.Context, id string, raid *v1alpha1.RAIDConfig, hints *v1alpha1.RootDeviceHints) error {
	n, err := e.client.Node(ctx, id, "provision_state", "raid_interface")
	if err != nil {
		return translate(err)
	}
	if node.State(n.ProvisionState) != node.Manageable {
		return fmt.Errorf("%w: volumes of node %s cannot be changed in state %q", provisioner.ErrConflict, id, n.ProvisionState)
	}
	volumes := volumesOf(raid)
	if len(volumes) > 0 && rootDevice(hints) == nil {
		isRoot := true
		volumes[0].IsRootVolume = &isRoot
	}
	var p patch
	switch {
	case raid != nil && raid.SoftwareRAIDVolumes != nil:
		p.set("/raid_interface", n.RAIDInterface, softwareRAID)
	case raid != nil && raid.HardwareRAIDVolumes != nil && n.RAIDInterface == softwareRAID:
		p.remove("/raid_interface") // back to the default of the driver
	}
	if len(p) > 0 {
		if _, err := e.client.UpdateNode(ctx, id, p...); err != nil {
			return translate(err)
		}
	}
	err = e.client.SetRAID(ctx, id, volumes)
	if errors.Is(err, ironic.ErrNotFound) {
		// The node exists, so its RAID interface takes no volumes.
		return &kindError{kind: provisioner.ErrUnsupported, err: err}
	}
	return translate(err)
}

// softwareController is the controller of volumes of the operating system.
const softwareController = "software"

// volumesOf returns the volumes in the form of the Bare Metal API, the root volume first.
func volumesOf(raid *v1alpha1.RAIDConfig) []nodes.LogicalDisk {
	volumes := []nodes.LogicalDisk{}
	if raid == nil {
		return volumes
	}
	for _, v := range raid.HardwareRAIDVolumes {
		disk := nodes.LogicalDisk{
			SizeGB: sizeOf(v.SizeGibibytes), RAIDLevel: nodes.RAIDLevel(v.Level), VolumeName: v.Name, Controller: v.Controller,
		}
		if v.Rotational != nil {
			disk.DiskType = nodes.SSD
			if *v.Rotational {
				disk.DiskType = nodes.HDD
			}
		}
		if v.NumberOfPhysicalDisks != nil {
			disk.NumberOfPhysicalDisks = *v.NumberOfPhysicalDisks
		}
		for _, name := range v.PhysicalDisks {
			disk.PhysicalDisks = append(disk.PhysicalDisks, name)
		}
		volumes = append(volumes, disk)
	}
	return append(volumes, softwareVolumes(raid.SoftwareRAIDVolumes)...)
}

func softwareVolumes(wanted []v1alpha1.SoftwareRAIDVolume) []nodes.LogicalDisk {
	var volumes []nodes.LogicalDisk
	for _, v := range wanted {
		disk := nodes.LogicalDisk{SizeGB: sizeOf(v.SizeGibibytes), RAIDLevel: nodes.RAIDLevel(v.Level), Controller: softwareController}
		for _, hints := range v.PhysicalDisks {
			disk.PhysicalDisks = append(disk.PhysicalDisks, rootDevice(&hints))
		}
		if v.RootVolume {
			volumes = slices.Insert(volumes, 0, disk)
		} else {
			volumes = append(volumes, disk)
		}
	}
	return volumes
}

// sizeOf returns a size in GiB, or nil for all space.
func sizeOf(size *int) *int {
	if size == nil || *size == 0 {
		return nil
	}
	return size
}
