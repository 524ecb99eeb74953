package agent

import (
	"encoding/json"
	"fmt"
	"maps"
)

// imageInfo is the part of an image's description that the simulation uses.
type imageInfo struct {
	ID        string   `json:"id"`
	URLs      []string `json:"urls"`
	Checksum  string   `json:"checksum"`
	HashAlgo  string   `json:"os_hash_algo"`
	HashValue string   `json:"os_hash_value"`
	ImageType string   `json:"image_type"`
}

// imageArgument decodes the argument image_info and returns the fields that were
// given, none when the argument is missing.
func imageArgument(p params) (info imageInfo, given map[string]json.RawMessage, err error) {
	raw, ok := p["image_info"]
	if !ok {
		return info, nil, nil
	}
	if err := json.Unmarshal(raw, &given); err != nil {
		return info, nil, err
	}
	return info, given, json.Unmarshal(raw, &info)
}

// checkImageInfo refuses image descriptions that cannot be installed: without
// an identifier, without a place to get it from, without a checksum.
func checkImageInfo(p params) *fault {
	info, given, err := imageArgument(p)
	for _, field := range []string{"id", "urls"} {
		if _, ok := given[field]; !ok {
			return invalidParamsFault(fmt.Sprintf("Image is missing '%s' field.", field))
		}
	}
	switch {
	case err != nil || len(info.URLs) == 0:
		return invalidParamsFault("Image 'urls' must be a non-empty list of texts.")
	case info.Checksum == "" && (info.HashAlgo == "" || info.HashValue == ""):
		return invalidParamsFault("Image needs 'os_hash_algo' with 'os_hash_value', or 'checksum'.")
	default:
		return nil
	}
}

func cacheImage(a *Agent, p params) (any, *commandError) {
	info, _, _ := imageArgument(p) // checked when the command was accepted
	return map[string]string{"result": fmt.Sprintf("cache_image: image (%s) cached to device %s", info.ID, a.rootDevice())}, nil
}

func prepareImage(a *Agent, p params) (any, *commandError) {
	info, _, _ := imageArgument(p) // checked when the command was accepted
	return a.writeImage(info), nil
}

// writeImage pretends to write an image to the root disk and returns what the
// agent says about it. A partition image leaves identifiers of the partitions
// for get_partition_uuids; a whole-disk image leaves none.
func (a *Agent) writeImage(info imageInfo) map[string]string {
	partitions := map[string]string{}
	rootUUID := "None"
	if info.ImageType == "partition" {
		rootUUID = a.random.uuid()
		partitions["root uuid"] = rootUUID
		partitions["efi system partition uuid"] = a.random.uuid()[:8]
	}
	a.mu.Lock()
	a.partitions = partitions
	a.mu.Unlock()
	return map[string]string{
		"result": fmt.Sprintf("prepare_image: image (%s) written to device %s root_uuid=%s", info.ID, a.rootDevice(), rootUUID),
	}
}

// rootDevice is the disk an image is written to.
func (a *Agent) rootDevice() string {
	var document struct {
		RootDisk struct {
			Name string `json:"name"`
		} `json:"root_disk"`
	}
	if json.Unmarshal(a.config.Document(), &document) != nil || document.RootDisk.Name == "" {
		return "/dev/sda"
	}
	return document.RootDisk.Name
}

func partitionUUIDs(a *Agent, _ params) (any, *commandError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.partitions == nil {
		return map[string]string{}, nil
	}
	return maps.Clone(a.partitions), nil
}
