package ramdisk

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/checksum"
	"github.com/ingot-metal/ingot/internal/configdrive"
	"github.com/ingot-metal/ingot/internal/node"
)

// diskFormats are the formats of images that agents write.
var diskFormats = []string{"raw", "qcow2"}

// imageInfo returns what the agent is told of the image to write (ironic-python-agent, standby
// extension, image_info). A checksum may be MD5 when that is allowed. The error is a
// *node.ValidationError that says what the node's instance_info lacks.
func imageInfo(n *node.Node, allowMD5 bool) (map[string]any, error) {
	source := n.InstanceInfo.Text("image_source")
	parsed, err := url.Parse(source)
	switch {
	case source == "":
		return nil, node.Invalid("Node %s has no image: set image_source in its instance_info to the URL of a whole-disk image.", n.UUID)
	case err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https":
		return nil, node.Invalid("The image_source of node %s is no http or https URL.", n.UUID)
	}
	format := cmp.Or(n.InstanceInfo.Text("image_disk_format"), formatOf(parsed.Path))
	if format != "" && !slices.Contains(diskFormats, format) {
		return nil, node.Invalid("The image of node %s has the format %q: set image_disk_format in its instance_info to one of %s.",
			n.UUID, node.CutText(format), node.Choices(diskFormats))
	}
	if kind := n.InstanceInfo.Text("image_type"); kind != "" && kind != "whole-disk" && kind != "whole-disk-image" {
		return nil, node.Invalid("The image_type of node %s is %q; only whole-disk images can be written.", n.UUID, node.CutText(kind))
	}
	info := map[string]any{
		"id": imageID(n.InstanceInfo, parsed), "urls": []string{source}, "container_format": "bare",
		"image_type": "whole-disk", "stream_raw_images": format == "raw", "node_uuid": n.UUID,
	}
	if format != "" {
		info["disk_format"] = format
	}
	return info, addChecksum(n, info, allowMD5)
}

// maxImageName bounds what imageID takes of a URL, in bytes. Names of files have 255 at most.
const maxImageName = 128

// imageID returns the name of an image for the agent. The agent downloads an image that is not
// streamed into a file of that name in /tmp. It does not write an image again whose name is that of
// the image before, so the name differs with the URL and with the checksum.
func imageID(info node.Object, source *url.URL) string {
	sum := sha256.Sum256([]byte(source.String() + "\n" + info.Text("image_os_hash_value") + "\n" + info.Text("image_checksum")))
	return imageName(source) + "-" + hex.EncodeToString(sum[:4])
}

// imageName returns the last part of the path of an image's URL as a name for a file, or "image"
// when there is none.
func imageName(source *url.URL) string {
	name := path.Base(source.Path)
	if name == "." || name == ".." || name == "/" {
		return "image"
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), maxImageName)]
}

// addChecksum adds what the agent compares the image with.
func addChecksum(n *node.Node, info map[string]any, allowMD5 bool) error {
	text := n.InstanceInfo.Text("image_checksum")
	algorithm, value := n.InstanceInfo.Text("image_os_hash_algo"), n.InstanceInfo.Text("image_os_hash_value")
	var sum checksum.Checksum
	var err error
	switch {
	case algorithm != "" && checksum.IsURL(value): // which the agent fetches, too
		sum.Value = value
		sum.Algorithm, err = checksum.AlgorithmOf(algorithm)
	case algorithm != "" && value != "":
		sum, err = checksum.New(algorithm, value)
	case checksum.IsURL(text): // the agent fetches it and finds the line of the image
		info["checksum"] = text
		return nil
	case text != "":
		sum, err = checksum.Parse(text)
	default:
		return node.Invalid("The image of node %s has no checksum: set image_os_hash_algo and image_os_hash_value, or image_checksum, in its instance_info.", n.UUID)
	}
	switch {
	case err != nil:
		return node.Invalid("The checksum of the image of node %s cannot be used: %s.", n.UUID, node.CutText(err.Error()))
	case sum.Algorithm == checksum.MD5 && !allowMD5:
		return node.Invalid("The checksum of the image of node %s is MD5, which does not show that an image was forged: use SHA-256 or SHA-512, "+
			"or set agent.allow_md5_checksum in the configuration.", n.UUID)
	case sum.Algorithm == checksum.MD5: // every agent takes it in this place
		info["checksum"] = sum.Value
		return nil
	}
	info["os_hash_algo"], info["os_hash_value"] = string(sum.Algorithm), sum.Value
	return nil
}

// configDrive returns the config drive of the instance as agents take it, nil for none. The error
// is a *node.ValidationError.
func configDrive(n *node.Node) (any, error) {
	raw := n.InstanceInfo.Fields()["configdrive"]
	drive, err := configdrive.ForAgent(raw, configdrive.Instance{UUID: n.UUID, Name: n.Name}, configdrive.DefaultMaxSize)
	switch {
	case err != nil:
		return nil, node.Invalid("The config drive of node %s cannot be used: %s.", n.UUID, node.CutText(err.Error()))
	case drive == "":
		return nil, nil
	}
	return drive, nil
}

// formatOf returns the format of an image that the end of its path tells. It returns an empty text
// when the end tells none: then the agent looks for itself. Images of both formats end with .img,
// so that tells none; a wrong guess of raw would not be seen, because an agent does not look at a
// raw image that it streams.
func formatOf(path string) string {
	for _, format := range diskFormats {
		if strings.HasSuffix(strings.ToLower(path), "."+format) {
			return format
		}
	}
	return ""
}
