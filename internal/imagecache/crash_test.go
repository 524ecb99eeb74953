package imagecache

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// inFolder returns a folder of images with a file of each name, which has its content.
func inFolder(t *testing.T, files map[string]string) *folder {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), ownersOnly); err != nil {
			t.Fatal(err)
		}
	}
	f, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.lock.Close() }) // nothing was written
	return f
}

// A step that fails stops where a process that dies before it would.
func TestImageNeverHasTheNoteOfAnotherVersion(t *testing.T) {
	f := inFolder(t, map[string]string{"k.image": "old", "k.image.json": `{"etag":"old"}`})
	if err := f.complete("k", note{ETag: "new"}); !errors.Is(err, os.ErrNotExist) { // there is no part
		t.Fatalf("error = %v, want that the part is missing", err)
	}
	images, _, err := f.scan()
	if err != nil {
		t.Fatal(err)
	}
	if len(images) > 0 {
		t.Errorf("the next process finds %+v", images)
	}
}

func TestPartNeverHasTheNoteOfAnotherVersion(t *testing.T) {
	f := inFolder(t, map[string]string{"k.part.json": `{"etag":"old"}`})
	if err := os.Mkdir(f.path("k.part"), 0o700); err != nil { // which cannot be opened to be written
		t.Fatal(err)
	}
	d := &download{source: source{key: "k"}, cache: &Cache{contents: &contents{folder: f}}, part: note{ETag: "new"}}
	if err := d.openPart(); err == nil {
		t.Fatal("the part was opened")
	}
	if text, err := os.ReadFile(f.path("k.part.json")); err != nil || string(text) != `{"etag":"old"}` {
		t.Errorf("the note is %s, %v; want the one that was there", text, err)
	}
}
