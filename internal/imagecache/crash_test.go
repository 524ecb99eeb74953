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

// someKey is the key of an image.
const someKey = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// A step that fails leaves the folder as a process that dies before the step would.
func TestImageNeverHasTheNoteOfAnotherVersion(t *testing.T) {
	f := inFolder(t, map[string]string{someKey + ".image": "old", someKey + ".image.json": `{"etag":"old"}`})
	if err := f.complete(someKey, note{ETag: "new"}); !errors.Is(err, os.ErrNotExist) { // there is no part
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
	f := inFolder(t, map[string]string{someKey + ".part.json": `{"etag":"old"}`})
	if err := os.Mkdir(f.path(someKey+".part"), 0o700); err != nil { // which cannot be opened to be written
		t.Fatal(err)
	}
	d := &download{source: source{key: someKey}, cache: &Cache{contents: &contents{folder: f}}, part: note{ETag: "new"}}
	if err := d.openPart(); err == nil {
		t.Fatal("the part was opened")
	}
	if text, err := os.ReadFile(f.path(someKey + ".part.json")); err != nil || string(text) != `{"etag":"old"}` {
		t.Errorf("the note is %s, %v; want the one that was there", text, err)
	}
}

// After a loss of power a file may be longer than what was written to the disk, with zeros
// at its end.
func TestOnlyBytesThatAreOnTheDiskCountForTheNextProcess(t *testing.T) {
	f := inFolder(t, map[string]string{
		someKey + ".part": "synced\x00\x00\x00\x00", someKey + ".part.json": `{"etag":"a","synced":6}`,
	})
	_, parts, err := f.scan()
	if err != nil || len(parts) != 1 || parts[0].size != 6 {
		t.Fatalf("found %+v, %v; want one part of 6 bytes", parts, err)
	}
	if text, err := os.ReadFile(f.path(someKey + ".part")); err != nil || string(text) != "synced" {
		t.Errorf("the part is %q, %v", text, err)
	}
}

func TestPartOfWhichNothingIsOnTheDiskForCertainIsRemoved(t *testing.T) {
	for name, text := range map[string]string{"of an earlier release": `{"etag":"a"}`, "shorter than its note says": `{"etag":"a","synced":60}`} {
		f := inFolder(t, map[string]string{someKey + ".part": "0123456789", someKey + ".part.json": text})
		if _, parts, err := f.scan(); err != nil || len(parts) > 0 {
			t.Errorf("%s: found %+v, %v", name, parts, err)
		}
		if _, err := os.Stat(f.path(someKey + ".part")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the part is still there: %v", name, err)
		}
	}
}
