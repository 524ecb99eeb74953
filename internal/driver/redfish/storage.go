package redfish

import (
	"strings"

	"github.com/stmcginnis/gofish/schemas"
)

// systemLinks are the links from a system to what a survey reads of it.
type systemLinks struct {
	Processors         schemas.Link
	EthernetInterfaces schemas.Link
	Storage            schemas.Link
	SimpleStorage      schemas.Link
	PCIeDevices        schemas.Links
}

// storageUnit is a storage controller with its drives and volumes (DSP2046, Storage).
type storageUnit struct {
	path, id string
	names    []string // by which requests may name it
	// raidTypes are the RAID types that it can make. tells: the BMC lists them. A controller
	// without RAID lists none.
	raidTypes []string
	tells     bool
	// volumesPath is the collection of its volumes; empty when it makes none.
	volumesPath string
	applyTimes  []string // that requests for volumes may choose; empty when it does not tell
	drives      []drive
	volumes     []volume
	incomplete  bool // the BMC did not show all of it
}

// has notes a controller of the storage.
func (u *storageUnit) has(name, model string, raidTypes []string) {
	u.names = append(u.names, name, model)
	u.raidTypes = append(u.raidTypes, raidTypes...)
	u.tells = u.tells || raidTypes != nil
}

// drive is a physical drive.
type drive struct {
	path string
	driveDocument
}

type driveDocument struct {
	ID            string `json:"Id"`
	Name          string
	CapacityBytes int64
	MediaType     string // SSD, HDD
	Protocol      string // SATA, SAS, NVMe, …
	Model         string
	Manufacturer  string
	SerialNumber  string
	Status        resourceStatus
	Identifiers   []struct{ DurableName, DurableNameFormat string }
}

// volume is a disk that a controller makes of drives.
type volume struct {
	path string
	volumeDocument
}

type volumeDocument struct {
	ID            string `json:"Id"`
	Name          string
	RAIDType      string
	VolumeType    string
	CapacityBytes int64
	Status        resourceStatus
	Links         struct{ Drives schemas.Links }
	Identifiers   []struct{ DurableName, DurableNameFormat string }
}

// drives returns the paths of the drives of a volume, to be compared with trimmed ones.
func (v volume) drives() []string {
	paths := v.Links.Drives.ToStrings()
	for i := range paths {
		paths[i] = trimmed(paths[i])
	}
	return paths
}

// trimmed returns a path without the slash at its end, which some BMCs write in one place and not
// in another.
func trimmed(path string) string { return strings.TrimRight(path, "/") }

// isRAID reports whether a volume is one that a controller made on request. Some BMCs
// show each drive without RAID as a volume, too.
func (v volume) isRAID() bool {
	if v.RAIDType != "" {
		return v.RAIDType != string(schemas.NoneRAIDType)
	}
	return v.VolumeType != "" && v.VolumeType != string(schemas.RawDeviceVolumeType)
}

// storage reads all storage controllers of the system.
func (s *survey) storage(collection string) ([]storageUnit, error) {
	type document struct {
		ID                 string `json:"Id"`
		Name               string
		Drives             schemas.Links
		Volumes            schemas.Link
		Controllers        schemas.Link
		StorageControllers []struct {
			Name, Model        string
			SupportedRAIDTypes []string
		}
	}
	var units []storageUnit
	var found []document
	before := s.missed
	if err := membersOf(s, collection, func(path string, d document) {
		found = append(found, d)
		units = append(units, storageUnit{path: path, id: d.ID, names: []string{d.ID, d.Name, path}, volumesPath: d.Volumes.String()})
	}); err != nil {
		return nil, err
	}
	s.unlisted = s.missed > before
	for i, d := range found {
		unit := &units[i]
		for _, controller := range d.StorageControllers {
			unit.has(controller.Name, controller.Model, controller.SupportedRAIDTypes)
		}
		before := s.missed
		if err := s.completeUnit(unit, d.Controllers.String(), d.Drives.ToStrings()); err != nil {
			return nil, err
		}
		unit.incomplete = s.missed > before
	}
	return units, nil
}

// completeUnit reads the controllers, drives and volumes of a storage.
func (s *survey) completeUnit(unit *storageUnit, controllers string, drives []string) error {
	type controller struct {
		Name, Model        string
		SupportedRAIDTypes []string
	}
	if err := membersOf(s, controllers, func(_ string, c controller) {
		unit.has(c.Name, c.Model, c.SupportedRAIDTypes)
	}); err != nil {
		return err
	}
	if err := each(s, drives, func(path string, d driveDocument) {
		if d.Status.present() {
			unit.drives = append(unit.drives, drive{path, d})
		}
	}); err != nil {
		return err
	}
	return s.readVolumes(unit)
}

// readVolumes reads the volumes of a storage.
func (s *survey) readVolumes(unit *storageUnit) error {
	var volumes struct {
		page
		Support struct{ SupportedValues []string } `json:"@Redfish.OperationApplyTimeSupport"`
	}
	ok, err := s.show(unit.volumesPath, &volumes)
	if err != nil || !ok {
		return err
	}
	unit.applyTimes = volumes.Support.SupportedValues
	var paths []string
	for _, member := range volumes.Members {
		paths = append(paths, member.String())
	}
	more, err := s.list(volumes.NextLink)
	if err != nil {
		return err
	}
	return each(s, append(paths, more...), func(path string, d volumeDocument) {
		unit.volumes = append(unit.volumes, volume{path, d})
	})
}
