// Package iso9660test reads ISO 9660 images in tests, with a library that shares no code
// with package iso9660.
package iso9660test

import (
	"io"
	"testing"

	"github.com/kdomanski/iso9660"
)

// Read returns the volume label of an image and its files by their paths, as Linux sees them.
func Read(t testing.TB, image io.ReaderAt) (label string, files map[string]string) {
	t.Helper()
	opened, err := iso9660.OpenImage(image)
	if err != nil {
		t.Fatalf("open the image: %v", err)
	}
	if label, err = opened.Label(); err != nil {
		t.Fatalf("read the label: %v", err)
	}
	root, err := opened.RootDir()
	if err != nil {
		t.Fatalf("read the root: %v", err)
	}
	files = map[string]string{}
	readDirectory(t, root, "", files)
	return label, files
}

func readDirectory(t testing.TB, directory *iso9660.File, path string, files map[string]string) {
	t.Helper()
	children, err := directory.GetChildren()
	if err != nil {
		t.Fatalf("read the directory %q: %v", path, err)
	}
	for _, child := range children {
		name := path + child.Name()
		if child.IsDir() {
			readDirectory(t, child, name+"/", files)
			continue
		}
		content, err := io.ReadAll(child.Reader())
		if err != nil {
			t.Fatalf("read %s: %v", name, err)
		}
		files[name] = string(content)
	}
}
