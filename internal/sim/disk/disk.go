// Package disk keeps what is on the disks of simulated machines: which image was written to them,
// whether a machine boots from it, and the config drive. If there is a folder for them, the bytes
// are kept too, in sparse files.
package disk

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Image is an image as it was written to a disk.
type Image struct {
	URL       string `json:"url"`
	Algorithm string `json:"algorithm"` // of the checksum, such as sha256
	Checksum  string `json:"checksum"`  // of the downloaded bytes, in hexadecimal digits
	Bytes     int64  `json:"bytes"`     // how many were downloaded
	Format    Format `json:"format"`
	Size      int64  `json:"size"` // on the disk, in bytes
	// Bootable says that the image has a partition table, or that the agent made one around it.
	Bootable bool `json:"bootable"`
}

// Content is what is on a disk.
type Content struct {
	Image       Image        `json:"image"`
	ConfigDrive *ConfigDrive `json:"config_drive,omitempty"` // nil without one
	// BootEntry says that the boot order of the machine's firmware begins with this disk.
	BootEntry bool `json:"boot_entry,omitempty"`
}

// Set has the disks of one machine, by the names of their devices. The disks are empty at first. It
// is safe for concurrent use.
type Set struct {
	folder string
	prefix string // of file names

	mu       sync.Mutex
	contents map[string]Content           // of the disks that are not empty; nil before the first write
	files    map[string]map[string][]byte // by device and path; nil before the first write
}

// NewSet returns the disks of a machine. Their bytes are kept in folder, in files whose names begin
// with prefix; without a folder, no bytes are kept.
func NewSet(folder, prefix string) *Set { return &Set{folder: folder, prefix: prefix} }

// Contents returns what is on the disks that are not empty.
func (s *Set) Contents() map[string]Content {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.contents)
}

// Bootable returns the first disk from which a machine boots, by its name. It returns false if
// there is none.
func (s *Set) Bootable() (device string, content Content, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.contents)) {
		if s.contents[name].Image.Bootable {
			return name, s.contents[name], true
		}
	}
	return "", Content{}, false
}

// AddBootEntry puts a disk at the start of the boot order of the machine's firmware, until the disk
// is wiped or written again. It does nothing for an empty disk, which has no boot loader.
func (s *Set) AddBootEntry(device string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if content, ok := s.contents[device]; ok {
		content.BootEntry = true
		s.contents[device] = content
	}
}

// BootEntry reports whether the boot order of the machine's firmware begins with a disk.
func (s *Set) BootEntry() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, content := range s.contents {
		if content.BootEntry {
			return true
		}
	}
	return false
}

// Wipe empties disks.
func (s *Set) Wipe(devices ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, device := range devices {
		delete(s.contents, device)
		delete(s.files, device)
		if s.folder == "" {
			continue
		}
		for _, path := range []string{s.path(device), s.path(device) + configDriveSuffix} {
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
				return fmt.Errorf("wipe %s: %w", device, err)
			}
		}
	}
	return nil
}

// put records the new content of a disk.
func (s *Set) put(device string, c Content) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.contents == nil {
		s.contents = map[string]Content{}
	}
	s.contents[device] = c
}

// path returns the path of the file of a disk.
func (s *Set) path(device string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.TrimPrefix(device, "/dev/"))
	return filepath.Join(s.folder, s.prefix+"-"+name)
}
