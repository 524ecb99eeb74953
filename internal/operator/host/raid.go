package host

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
)

// missingRAID is pure: the volumes that the machine of a host has to be given next, nil for those that it has.
// One RAID interface deletes the volumes of a controller and another those of the operating system, so when both
// are to go, they go one after the other. Of the operating system only those are deleted that the machine was given
// for this host: that wipes the partition tables of all disks. After a request for volumes that has not
// gone well the machine may have these, those from before, or a part of them.
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

// raidOf is a configuration in which an empty list beside one with volumes is null: what deletes volumes of one kind
// would take the place of what creates those of the other.
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

// hasSoftwareVolumes reports whether there are volumes of the operating system to create.
func hasSoftwareVolumes(raid *v1alpha1.RAIDConfig) bool {
	return raid != nil && len(raid.SoftwareRAIDVolumes) > 0
}

// showRAID makes a configuration the one in effect. That of before may leave volumes of the operating system on the
// machine, which somebody may ask to delete later.
func showRAID(status *v1alpha1.ProvisionStatus, raid *v1alpha1.RAIDConfig) {
	status.SoftwareRAID = status.SoftwareRAID || hasSoftwareVolumes(status.RAID)
	status.RAID = raid.DeepCopy()
}

// sameRAID reports whether two configurations ask for the same. A list that is null leaves the volumes alone, and an
// empty one deletes them; lists within volumes mean the same in both forms.
func sameRAID(a, b *v1alpha1.RAIDConfig) bool {
	return equality.Semantic.DeepEqual(a, b) &&
		(a.HardwareRAIDVolumes == nil) == (b.HardwareRAIDVolumes == nil) && (a.SoftwareRAIDVolumes == nil) == (b.SoftwareRAIDVolumes == nil)
}

// doubtVolumes makes volumes that Metal3's operator has asked for, and that could not be made, those of a request that has not
// gone well. It stores them as the ones in effect when it asks for them, and goes by the error afterwards. A record with a
// generation is of this operator, whose volumes in effect were made.
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

// reachesController reports whether the engine can reach RAID controllers through the BMC of a host. Where it cannot,
// no volumes are deleted; those that are to be created are refused by the engine.
func reachesController(h *v1alpha1.BareMetalHost) bool {
	access, err := bmc.Parse(h.Spec.BMC)
	return err != nil || access.Abilities.HardwareRAID
}
