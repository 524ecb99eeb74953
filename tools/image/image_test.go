package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	oci "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const certificate = "-----BEGIN CERTIFICATE-----\nmilk\n-----END CERTIFICATE-----\n"

// optionsFor are those of an image in a new folder, whose program is only a text.
func optionsFor(t *testing.T, platforms ...string) options {
	t.Helper()
	folder := t.TempDir()
	bundle := filepath.Join(folder, "ca.pem")
	if err := os.WriteFile(bundle, []byte(certificate), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := parse([]string{
		"-name", "registry.example:5000/metal/ingot:v9", "-version", "v9.8.7", "-commit", "0123abcd", "-created", "1700000000",
		"-platforms", strings.Join(platforms, ","), "-ca-bundle", bundle, "-output", filepath.Join(folder, "out", "image"),
	})
	if err != nil {
		t.Fatal(err)
	}
	opts.build = func(_ context.Context, p oci.Platform, file string) error {
		return os.WriteFile(file, []byte("program for "+p.String()), 0o600)
	}
	return opts
}

func mustWrite(t *testing.T, opts options) oci.Hash {
	t.Helper()
	digest, err := write(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// extract unpacks an archive, and returns what its headers say.
func extract(t *testing.T, archive io.Reader, folder string) map[string]*tar.Header {
	t.Helper()
	headers := map[string]*tar.Header{}
	for files := tar.NewReader(archive); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[header.Name] = header
		path, mode := filepath.Join(folder, header.Name), header.FileInfo().Mode()
		if mode.IsDir() {
			err = os.MkdirAll(path, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(files); err == nil {
				err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o600))
			}
		}
		err = errors.Join(err, os.Chmod(path, mode.Perm()))
		if os.Geteuid() == 0 {
			err = errors.Join(err, os.Chown(path, header.Uid, header.Gid))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// readBack reads the only image of an archive.
func readBack(t *testing.T, opts options) oci.Image {
	t.Helper()
	file, err := os.Open(archiveOf(opts.output))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	folder := t.TempDir()
	extract(t, file, folder)
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("index %+v, %v", manifest, err)
	}
	got := manifest.Manifests[0]
	if got.Annotations[tagAnnotation] != "v9" || got.Annotations[nameAnnotation] != "registry.example:5000/metal/ingot:v9" {
		t.Errorf("the image has the names %v", got.Annotations)
	}
	image, err := index.Image(got.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Errorf("the image is not valid: %v", err)
	}
	return image
}

func TestTheImageHasTheProgramAndWhatItNeeds(t *testing.T) {
	opts := optionsFor(t, "linux/arm64")
	digest := mustWrite(t, opts)
	image := readBack(t, opts)
	if got, err := image.Digest(); err != nil || got != digest {
		t.Errorf("digest %s, %v, want %s", got, err, digest)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if config.OS != "linux" || config.Architecture != "arm64" || !config.Created.Equal(time.Unix(1700000000, 0)) ||
		c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/local/bin/ingot"}) ||
		c.Labels["org.opencontainers.image.version"] != "v9.8.7" || c.Labels["org.opencontainers.image.revision"] != "0123abcd" {
		t.Errorf("configuration %+v", config)
	}
	root := t.TempDir()
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	headers := extract(t, content, root)
	for name, want := range map[string]string{"usr/local/bin/ingot": "program for linux/arm64", "etc/ssl/certs/ca-certificates.crt": certificate} {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]struct {
		mode int64
		uid  int
	}{"usr/local/bin/ingot": {0o755, 0}, "var/lib/ingot": {0o700, 65532}, "tmp": {0o1777, 0}, "etc/passwd": {0o644, 0}} {
		h := headers[name]
		if h == nil {
			h = headers[name+"/"]
		}
		if h == nil || h.Mode != want.mode || h.Uid != want.uid || h.Gid != want.uid {
			t.Errorf("%s has the header %+v, want %+v", name, h, want)
		}
	}
}

func TestTheSameInputGivesTheSameImage(t *testing.T) {
	first, second := optionsFor(t, "linux/amd64"), optionsFor(t, "linux/amd64")
	if a, b := mustWrite(t, first), mustWrite(t, second); a != b {
		t.Errorf("digests %s and %s", a, b)
	}
	a, err := os.ReadFile(archiveOf(first.output))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(archiveOf(second.output))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("the archives differ")
	}
}

func TestEachPlatformOfTheIndexHasItsOwnProgram(t *testing.T) {
	opts := optionsFor(t, "linux/amd64", "linux/arm64")
	digest := mustWrite(t, opts)
	layoutIndex, err := layout.ImageIndexFromPath(opts.output)
	if err != nil {
		t.Fatal(err)
	}
	index, err := layoutIndex.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the index is not valid: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		content := mutate.Extract(image)
		extract(t, content, root)
		_ = content.Close()
		program, err := os.ReadFile(filepath.Join(root, programPath))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Platform.String()+": "+string(program))
	}
	want := []string{"linux/amd64: program for linux/amd64", "linux/arm64: program for linux/arm64"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestAFailedBuildLeavesTheImageBeforeIt(t *testing.T) {
	opts := optionsFor(t, "linux/amd64")
	mustWrite(t, opts)
	opts.build = func(context.Context, oci.Platform, string) error { return errors.New("no space left") }
	if _, err := write(t.Context(), opts); err == nil || err.Error() != "no space left" {
		t.Errorf("error = %v", err)
	}
	readBack(t, opts)
}

func TestPlatformsThatCannotWorkAreRefused(t *testing.T) {
	for _, platform := range []string{"", "linux", "windows/amd64", "linux/arm/v7"} {
		if _, err := parse([]string{"-output", t.TempDir(), "-platforms", "linux/amd64," + platform}); err == nil || !strings.Contains(err.Error(), "-platforms") {
			t.Errorf("%q: error = %v", platform, err)
		}
	}
}

// TestTheProgramOfTheImageRunsInIt builds Ingot and starts it from the image that was read back:
// as its user and with nothing but its files, where the test may do that.
func TestTheProgramOfTheImageRunsInIt(t *testing.T) {
	opts := optionsFor(t, "linux/"+runtime.GOARCH)
	opts.build = goBuild(opts.version, opts.commit) // as "make build" does, whose packages are in the cache
	mustWrite(t, opts)
	root := t.TempDir()
	content := mutate.Extract(readBack(t, opts))
	extract(t, content, root)
	_ = content.Close()

	cmd := exec.CommandContext(t.Context(), filepath.Join(root, programPath), "version")
	if os.Geteuid() == 0 {
		for dir := root; dir != "/"; dir = filepath.Dir(dir) { // the way to the program
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o5 != 0o5 {
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		cmd.Path, cmd.Dir = "/"+programPath, "/"+dataFolder
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: userID, Gid: userID}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "v9.8.7") || !strings.Contains(string(out), "0123abcd") {
		t.Errorf("version: %v\n%s", err, out)
	}
}

func TestTheContainerfileMakesTheSameImage(t *testing.T) {
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	file := read("Containerfile")
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read("go.mod"))
	if version == nil {
		t.Fatal("go.mod has no version of Go")
	}
	for _, want := range []string{
		"FROM docker.io/library/golang:" + version[1], "USER 65532:65532", `ENTRYPOINT ["/usr/local/bin/ingot"]`, "WORKDIR /var/lib/ingot", "/etc/ssl/certs/ca-certificates.crt",
	} {
		if !strings.Contains(file, want) {
			t.Errorf("Containerfile lacks %q", want)
		}
	}
}
