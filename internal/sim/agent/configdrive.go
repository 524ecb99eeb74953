package agent

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// maxConfigDrive is the largest config drive, in bytes.
const maxConfigDrive = 64 << 20

// writeConfigDrive writes the config drive of an image, if it has one: the base64 text of a
// gzipped file system, or a URL of such a text.
func (x *execution) writeConfigDrive(info imageInfo, device string, argument json.RawMessage) *commandError {
	var text string
	if len(argument) == 0 || string(argument) == "null" {
		return nil
	}
	if err := json.Unmarshal(argument, &text); err != nil {
		return executionError(fmt.Sprintf("read the config drive: %v", err))
	}
	if strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") {
		var failure *commandError
		if text, failure = x.fetchConfigDrive(text); failure != nil {
			return failure
		}
	}
	node := info.NodeUUID
	if node == "" {
		node = "local"
	}
	packed, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return executionError(fmt.Sprintf("Config drive for node %s is not base64 encoded or the content is malformed. %v.", node, err))
	}
	fileSystem, err := unzip(packed)
	if err != nil {
		return executionError(fmt.Sprintf("Encountered error while decompressing and writing config drive for node %s. Error: %v", node, err))
	}
	if len(fileSystem) > maxConfigDrive {
		return executionError(fmt.Sprintf("Config drive size exceeds maximum limit of 64MiB. Size of the given config drive is more than that for node %s.", node))
	}
	drive, err := x.config.Disks.PutConfigDrive(device, fileSystem)
	if err != nil {
		return executionError(err.Error())
	}
	x.log.Debug("Wrote a config drive", "device", device, "sha256", drive.SHA256, "problem", drive.Problem)
	return nil
}

// unzip returns the content of a gzip file. It stops one byte after the largest size of a config
// drive, which is enough to refuse the content.
func unzip(packed []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(reader, maxConfigDrive+1))
}

func (x *execution) fetchConfigDrive(location string) (string, *commandError) {
	body, failure := x.get(location, location)
	if failure != nil {
		return "", executionError(fmt.Sprintf("Can't download the configdrive content for node from '%s'. Reason: %s", location, failure.Details))
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, 2*maxConfigDrive))
	if err != nil {
		return "", executionError(fmt.Sprintf("Can't download the configdrive content for node from '%s'. Reason: %v", location, err))
	}
	return string(text), nil
}
