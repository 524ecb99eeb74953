package redfish

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

func (s *shape) volumesPath() string { return s.storagePath() + "/Volumes" }

func (s *shape) volumePath(number int64) string {
	return s.volumesPath() + "/" + numbered(s.volumeID, int(number)-s.volumeOffset)
}

// operationTimes returns the times at which the controller can make a change.
func (s *shape) operationTimes() object {
	return object{
		"@odata.type":     "#Settings.v1_3_0.OperationApplyTimeSupport",
		"SupportedValues": s.profile.RAID.ApplyTimes,
	}
}

// volumes returns the volumes that the BMC shows.
func (s *Service) volumes() []bmc.Volume {
	if !s.bmc.KnowsStorage() {
		return nil
	}
	return s.bmc.Volumes()
}

func (s *Service) listVolumes(*request) answer {
	x := s.shape
	paths := []string{}
	for _, v := range s.volumes() {
		paths = append(paths, x.volumePath(v.Number))
	}
	document := x.collection(x.volumesPath(), "VolumeCollection.VolumeCollection", "Volumes", paths)
	document["@Redfish.OperationApplyTimeSupport"] = x.operationTimes()
	return resource(document)
}

// volume finds the volume that a request names.
func (s *Service) volume(q *request) (bmc.Volume, bool) {
	for _, v := range s.volumes() {
		if strings.HasSuffix(s.shape.volumePath(v.Number), "/"+q.PathValue("id")) {
			return v, true
		}
	}
	return bmc.Volume{}, false
}

func (s *Service) showVolume(q *request) answer {
	v, found := s.volume(q)
	if !found {
		return s.missing(q.Request)
	}
	return resource(s.volumeDocument(v))
}

// volumeTypes has the RAID types in the words of the older property VolumeType.
var volumeTypes = map[string]string{
	"None": "RawDevice", "RAID0": "NonRedundant", "RAID1": "Mirrored", "RAID5": "StripedWithParity", "RAID6": "StripedWithParity",
	"RAID10": "SpannedMirrors", "RAID50": "SpannedStripesWithParity", "RAID60": "SpannedStripesWithParity",
}

func (s *Service) volumeDocument(v bmc.Volume) object {
	x := s.shape
	path := x.volumePath(v.Number)
	name := v.Name
	if name == "" {
		name = numbered("Virtual Disk %d", int(v.Number))
	}
	drives := make([]string, len(v.Drives))
	for i, drive := range v.Drives {
		drives[i] = x.drivePath(drive)
	}
	return x.document(path, "Volume.v1_4_0.Volume", object{
		"Id": path[strings.LastIndex(path, "/")+1:], "Name": name, "RAIDType": v.RAIDType, "VolumeType": volumeTypes[v.RAIDType],
		"CapacityBytes": v.Capacity, "BlockSizeBytes": 512, "Encrypted": false, "Operations": []object{}, "Status": ok(),
		"Links":                              object{"Drives": x.links(drives...), "Drives@odata.count": len(drives)},
		"@Redfish.OperationApplyTimeSupport": x.operationTimes(),
	})
}

// createVolume asks for a volume (DSP2046, VolumeCollection).
func (s *Service) createVolume(q *request) answer {
	v := bmc.Volume{}
	for _, property := range []struct {
		name string
		into *string
	}{{"RAIDType", &v.RAIDType}, {"Name", &v.Name}} {
		text, isText := q.body.text(property.name)
		if !isText {
			return s.problem(problem{http.StatusBadRequest, "PropertyValueTypeError"}, property.name, "")
		}
		*property.into = text
	}
	if v.RAIDType == "" {
		return s.problem(problem{http.StatusBadRequest, "PropertyMissing"}, "RAIDType", "")
	}
	if raw, given := q.body["CapacityBytes"]; given {
		capacity, isNumber := raw.(float64)
		if !isNumber || capacity < 1 {
			return s.problem(problem{http.StatusBadRequest, "PropertyValueTypeError"}, "CapacityBytes", "")
		}
		v.Capacity = int64(capacity)
	}
	var refused *answer
	if v.Drives, refused = s.drives(q.body.object("Links")); refused != nil {
		return *refused
	}
	when, refused := s.operationTime(q.body)
	if refused != nil {
		return *refused
	}
	made, task, err := s.bmc.CreateVolume(q.call, v, when)
	if err != nil {
		return s.refused(err)
	}
	return s.shape.volumeMade(s, made, task)
}

// drives returns the positions of the drives that a request links.
func (s *Service) drives(links object) ([]int, *answer) {
	text, _ := json.Marshal(links["Drives"]) // cannot fail: it came from JSON
	var list []struct {
		ID string `json:"@odata.id"`
	}
	if json.Unmarshal(text, &list) != nil || len(list) == 0 {
		out := s.problem(problem{http.StatusBadRequest, "PropertyMissing"}, "Drives", "")
		return nil, &out
	}
	known := make([]string, len(s.disks()))
	for i := range known {
		known[i] = root + s.shape.drivePath(i)
	}
	var drives []int
	for _, link := range list {
		at := slices.Index(known, strings.TrimRight(link.ID, "/"))
		if at < 0 {
			out := s.problem(problem{http.StatusBadRequest, "PropertyValueNotInList"}, "Drives", link.ID)
			return nil, &out
		}
		drives = append(drives, at)
	}
	return drives, nil
}

// operationTime returns when a request asks for the change to be made.
func (s *Service) operationTime(body object) (bmc.ApplyTime, *answer) {
	when, isText := body.text("@Redfish.OperationApplyTime")
	if !isText {
		out := s.problem(problem{http.StatusBadRequest, "PropertyValueTypeError"}, "@Redfish.OperationApplyTime", "")
		return "", &out
	}
	return bmc.ApplyTime(when), nil
}

func (s *Service) deleteVolume(q *request) answer {
	v, found := s.volume(q)
	if !found {
		return s.missing(q.Request)
	}
	when, refused := s.operationTime(q.body)
	if refused != nil {
		return *refused
	}
	task, err := s.bmc.DeleteVolume(q.call, v.Number, when)
	if err != nil {
		return s.refused(err)
	}
	return s.shape.volumeDeleted(s, task)
}
