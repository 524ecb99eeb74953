package host

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

// missingRAID returns the volumes that the machine of a host has to be given next, nil if it has
// them.
//
// One RAID interface deletes the volumes of a controller and another deletes software RAID. If both
// are to be deleted, they are deleted one after the other. Software RAID is deleted only if the
// machine was given it for this host, because the deletion wipes the partition tables of all disks.
// After a request for volumes that has not succeeded, the machine may have the requested volumes,
// those from before, or a part of them.
func missingRAID(h *v1alpha1.BareMetalHost) *v1alpha1.RAIDConfig {
	wanted, effective, requested := raidOf(h.Spec.RAID), raidOf(h.Status.Provisioning.RAID), h.Status.Operation.RAID
	hasSoftware := h.Status.Provisioning.SoftwareRAID || hasSoftwareVolumes(effective) || hasSoftwareVolumes(requested)
	if effective == nil {
		effective = &v1alpha1.RAIDConfig{}
	}
	hardwareIsGone := effective.HardwareRAIDVolumes != nil && len(effective.HardwareRAIDVolumes) == 0
	switch {
	case wanted == nil, requested == nil && sameRAID(wanted, effective):
		return nil
	case hasVolumes(wanted):
		return wanted
	case wanted.SoftwareRAIDVolumes != nil && hasSoftware:
		return &v1alpha1.RAIDConfig{SoftwareRAIDVolumes: []v1alpha1.SoftwareRAIDVolume{}}
	case wanted.HardwareRAIDVolumes != nil && !hardwareIsGone && reachesController(h):
		return &v1alpha1.RAIDConfig{HardwareRAIDVolumes: []v1alpha1.HardwareRAIDVolume{}}
	default:
		return nil
	}
}

// raidOf returns a configuration in which an empty list is null if the other list has volumes.
// Otherwise the step that deletes the volumes of one kind would replace the step that creates those
// of the other kind.
func raidOf(raid *v1alpha1.RAIDConfig) *v1alpha1.RAIDConfig {
	if !hasVolumes(raid) {
		return raid
	}
	raid = raid.DeepCopy()
	if len(raid.HardwareRAIDVolumes) == 0 {
		raid.HardwareRAIDVolumes = nil
	}
	if len(raid.SoftwareRAIDVolumes) == 0 {
		raid.SoftwareRAIDVolumes = nil
	}
	return raid
}

// hasVolumes reports whether there are volumes to create.
func hasVolumes(raid *v1alpha1.RAIDConfig) bool {
	return raid != nil && len(raid.HardwareRAIDVolumes)+len(raid.SoftwareRAIDVolumes) > 0
}

// hasSoftwareVolumes reports whether there are software RAID volumes to create.
func hasSoftwareVolumes(raid *v1alpha1.RAIDConfig) bool {
	return raid != nil && len(raid.SoftwareRAIDVolumes) > 0
}

// showRAID makes a configuration the one in effect. It keeps in the status that the former one had
// software RAID, which may still be on the machine and which somebody may ask to delete later.
func showRAID(status *v1alpha1.ProvisionStatus, raid *v1alpha1.RAIDConfig) {
	status.SoftwareRAID = status.SoftwareRAID || hasSoftwareVolumes(status.RAID)
	status.RAID = raid.DeepCopy()
}

// sameRAID reports whether two configurations ask for the same. A null list leaves volumes alone
// and an empty list deletes them, so these differ. Within a volume, null and empty lists mean the
// same.
func sameRAID(a, b *v1alpha1.RAIDConfig) bool {
	return equality.Semantic.DeepEqual(a, b) &&
		(a.HardwareRAIDVolumes == nil) == (b.HardwareRAIDVolumes == nil) && (a.SoftwareRAIDVolumes == nil) == (b.SoftwareRAIDVolumes == nil)
}

// doubtVolumes moves the volumes in effect into the record, as those of a request that has not
// succeeded, if Metal3's operator asked for them and they could not be made. Metal3's operator
// stores volumes as the ones in effect when it asks for them, and goes by the error afterwards. A
// record with a generation is one of this operator, whose volumes in effect were made.
func doubtVolumes(s *scope) {
	before, status := s.before.Status.Operation, &s.host.Status
	theirs := before.Name == "" && before.Generation == 0 && status.ErrorType == v1alpha1.ErrorPreparation
	record := s.operation(v1alpha1.OperationPrepare)
	record.Generation = cmp.Or(record.Generation, before.Generation)
	if raid := status.Provisioning.RAID; raid != nil && (theirs || record.Generation == 0 && s.node.State == node.CleanFailed) {
		record.RAID = raid
		showRAID(&status.Provisioning, nil)
	}
}

// reachesController reports whether the engine can reach RAID controllers through the BMC of a
// host. If it cannot, no volumes are deleted, and the engine refuses to create any.
func reachesController(h *v1alpha1.BareMetalHost) bool {
	access, err := bmc.Parse(h.Spec.BMC)
	return err != nil || access.Abilities.HardwareRAID
}
