package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"github.com/ingot-metal/ingot/internal/sim/iso9660"
)

// ConfigDrive is a config drive on a disk.
type ConfigDrive struct {
	SHA256 string `json:"sha256"` // of the file system
	Bytes  int64  `json:"bytes"`
	Label  string `json:"label"` // config-2 on a proper config drive
	// UUID and Name are those of the instance, from openstack/latest/meta_data.json; empty if it
	// has none.
	UUID string `json:"uuid,omitempty"`
	Name string `json:"name,omitempty"`
	// Problem says why an operating system would not understand the config drive; empty if it
	// would.
	Problem string `json:"problem,omitempty"`
}

const (
	configDriveSuffix = "-config"
	maxMetadata       = 1 << 20
	maxUserData       = 16 << 20
)

// PutConfigDrive writes a config drive to a disk, which must have an image.
func (s *Set) PutConfigDrive(device string, fileSystem []byte) (ConfigDrive, error) {
	drive, files := readConfigDrive(fileSystem)
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.contents[device]
	if !ok {
		return drive, fmt.Errorf("write a config drive to %s: the disk is empty", device)
	}
	if s.folder != "" {
		if err := os.WriteFile(s.path(device)+configDriveSuffix, fileSystem, 0o600); err != nil {
			return drive, fmt.Errorf("keep the config drive on %s: %w", device, err)
		}
	}
	for path, file := range files {
		s.writeFile(device, path, file)
	}
	content.ConfigDrive = &drive
	s.contents[device] = content
	return drive, nil
}

// readConfigDrive reads a config drive as an operating system does. It returns the description of
// the config drive, and the files in it that an instance needs.
func readConfigDrive(fileSystem []byte) (ConfigDrive, map[string][]byte) {
	sum := sha256.Sum256(fileSystem)
	drive := ConfigDrive{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(fileSystem))}
	image, err := iso9660.Open(bytes.NewReader(fileSystem))
	if err != nil {
		drive.Problem = err.Error()
		return drive, nil
	}
	drive.Label = image.Label()
	text, err := image.ReadFile(MetaData, maxMetadata)
	var metadata struct {
		UUID string `json:"uuid"`
		Name string `json:"name"`
	}
	if err == nil {
		err = json.Unmarshal(text, &metadata)
	}
	if err != nil {
		drive.Problem = err.Error()
	}
	drive.UUID, drive.Name = metadata.UUID, metadata.Name
	files := map[string][]byte{MetaData: text}
	if userData, err := image.ReadFile(UserData, maxUserData); err == nil {
		files[UserData] = userData
	}
	return drive, files
}
