package disk

import "slices"

// Paths of the files of a config drive that [Set.ReadFile] returns.
const (
	UserData = "openstack/latest/user_data"
	MetaData = "openstack/latest/meta_data.json"
)

// Ignition is the path of the Ignition configuration on a disk to which CoreOS was installed.
const Ignition = "boot/ignition/config.ign"

// WriteFile keeps a file on a disk until the disk is wiped or gets another image. The disk need not
// have an image. Files are kept in memory only.
func (s *Set) WriteFile(device, path string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeFile(device, path, content)
}

func (s *Set) writeFile(device, path string, content []byte) {
	if s.files == nil {
		s.files = map[string]map[string][]byte{}
	}
	if s.files[device] == nil {
		s.files[device] = map[string][]byte{}
	}
	s.files[device][path] = slices.Clone(content)
}

// ReadFile returns a file of a disk or of its config drive. It returns false if there is none.
func (s *Set) ReadFile(device, path string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.files[device][path]
	return slices.Clone(content), ok
}
