package fat_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ingot-metal/ingot/internal/fat"
	simfat "github.com/ingot-metal/ingot/internal/sim/fat"
)

// make returns an image, or ends the test.
func made(t *testing.T, content string) *fat.Image {
	t.Helper()
	image, err := fat.New("ir-vfd-dev", "parameters.txt", []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// contents are files of no, one, some and all clusters.
var contents = map[string]string{
	"empty": "", "one byte": "x", "one cluster": strings.Repeat("0123456789abcdef", 32),
	"some clusters": strings.Repeat("a=b\n", 700), "all": strings.Repeat("0123456789abcdef", fat.MaxFile/16),
}

func TestMachineFindsTheFileAndTheLabel(t *testing.T) {
	t.Parallel()
	for name, want := range contents {
		image, err := simfat.Open(made(t, want))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := image.ReadFile("parameters.txt", fat.MaxFile)
		if err != nil || string(got) != want || image.Label() != "ir-vfd-dev" {
			t.Errorf("%s: label %q, %d bytes of %d, %v", name, image.Label(), len(got), len(want), err)
		}
	}
}

func TestImageReadsTheSameAnywhereAndAgain(t *testing.T) {
	t.Parallel()
	image := made(t, contents["some clusters"])
	whole, err := io.ReadAll(image.Reader())
	if err != nil || len(whole) != fat.Size {
		t.Fatalf("%d bytes, %v", len(whole), err)
	}
	if err := iotest.TestReader(image.Reader(), whole); err != nil {
		t.Error(err)
	}
	again, err := io.ReadAll(made(t, contents["some clusters"]).Reader())
	if err != nil || !bytes.Equal(whole, again) {
		t.Errorf("the same file makes other bytes, %v", err)
	}
}

func TestWhatAnImageCannotHaveIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ label, name, content string }{
		{"", "a", ""},
		{"twelve-chars", "a", ""},
		{"a b", "a", ""},
		{"a", "", ""},
		{"a", "a/b", ""},
		{"a", "a.long", ""},
		{"a", "ä", ""},
		{"a", ".a", ""},
		{"a", "a", strings.Repeat("x", fat.MaxFile+1)},
	} {
		if _, err := fat.New(c.label, c.name, []byte(c.content)); err == nil {
			t.Errorf("label %q, name %q, %d bytes: accepted", c.label, c.name, len(c.content))
		}
	}
}

// TestOtherProgramsReadTheImage needs dosfstools and mtools, where they are installed.
func TestOtherProgramsReadTheImage(t *testing.T) {
	t.Parallel()
	for name, want := range contents {
		file := filepath.Join(t.TempDir(), "image")
		whole, err := io.ReadAll(made(t, want).Reader())
		if err == nil {
			err = os.WriteFile(file, whole, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run(t, "/usr/sbin/fsck.fat", "-n", "-v", file); err != nil {
			t.Errorf("%s: fsck.fat: %v\n%s", name, err, out)
		}
		if out, err := run(t, "/usr/sbin/blkid", "-p", "-o", "export", file); err != nil || out != "" && !strings.Contains(out, "LABEL=ir-vfd-dev\n") {
			t.Errorf("%s: blkid: %v\n%s", name, err, out)
		}
		if out, err := run(t, "/usr/bin/mtype", "-i", file, "::parameters.txt"); err != nil || out != "" && out != want {
			t.Errorf("%s: mtype: %v, %d bytes of %d", name, err, len(out), len(want))
		}
	}
}

// run runs a program, and nothing where it is not installed.
func run(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Logf("%s is not installed", program)
		return "", nil
	}
	out, err := exec.CommandContext(t.Context(), program, args...).Output()
	return string(out), err
}

func FuzzHostileImagesEnd(f *testing.F) {
	image, err := fat.New("a", "a.txt", []byte("content"))
	if err != nil {
		f.Fatal(err)
	}
	head := make([]byte, 40*512)
	if _, err := image.ReadAt(head, 0); err != nil {
		f.Fatal(err)
	}
	f.Add(head)
	f.Fuzz(func(_ *testing.T, content []byte) {
		if image, err := simfat.Open(bytes.NewReader(content)); err == nil {
			_, _ = image.ReadFile("a.txt", 1<<20)
		}
	})
}
