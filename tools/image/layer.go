package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	oci "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Paths in the image.
const (
	programPath = "usr/local/bin/ingot"
	dataFolder  = "var/lib/ingot"
	trustedPath = "etc/ssl/certs/ca-certificates.crt" // where Go looks for it first
)

// userID is the user and the group of the program. Its name is ingot; Kubernetes can tell
// only from a number that it is not root.
const userID = 65532

// entry is a file or, if its mode says so, a folder of a layer.
type entry struct {
	name    string
	mode    os.FileMode
	owner   int    // user and group
	content []byte // of a small file
	file    string // on this machine, with the content of a large one
}

// program is the layer that is new with each version.
func program(file string) []entry {
	return []entry{
		{name: "usr", mode: os.ModeDir | 0o755},
		{name: "usr/local", mode: os.ModeDir | 0o755},
		{name: "usr/local/bin", mode: os.ModeDir | 0o755},
		{name: programPath, mode: 0o755, file: file},
	}
}

// surroundings is the layer that the program needs around it.
func surroundings(trusted []byte) []entry {
	entries := []entry{
		{name: "etc", mode: os.ModeDir | 0o755},
		{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:0::/root:/sbin/nologin\ningot:x:%d:%d::/%s:/sbin/nologin\n", userID, userID, dataFolder)},
		{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\ningot:x:%d:\n", userID)},
		{name: "tmp", mode: os.ModeDir | os.ModeSticky | 0o777},
		{name: "var", mode: os.ModeDir | 0o755},
		{name: "var/lib", mode: os.ModeDir | 0o755},
		{name: dataFolder, mode: os.ModeDir | 0o700, owner: userID},
	}
	if trusted == nil {
		return entries
	}
	return append(entries,
		entry{name: "etc/ssl", mode: os.ModeDir | 0o755},
		entry{name: "etc/ssl/certs", mode: os.ModeDir | 0o755},
		entry{name: trustedPath, mode: 0o644, content: trusted},
	)
}

// layer writes entries to the file name and returns the layer, which reads the file when it
// is used. All of them have the same time.
func layer(name string, entries []entry, at time.Time) (oci.Layer, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	archive := tar.NewWriter(file)
	for _, e := range entries {
		err = errors.Join(err, e.write(archive, at))
	}
	if err := errors.Join(err, archive.Close(), file.Close()); err != nil {
		return nil, fmt.Errorf("write layer %s: %w", filepath.Base(name), err)
	}
	return tarball.LayerFromFile(name, tarball.WithMediaType(types.OCILayer))
}

func (e entry) write(archive *tar.Writer, at time.Time) error {
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: e.name, Mode: int64(e.mode.Perm()), Uid: e.owner, Gid: e.owner, ModTime: at,
		Size: int64(len(e.content)), Format: tar.FormatUSTAR,
	}
	if e.mode.IsDir() {
		header.Typeflag, header.Name = tar.TypeDir, e.name+"/"
	}
	if e.mode&os.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	if e.file == "" {
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(e.content)
		return err
	}
	file, err := os.Open(e.file)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header.Size = info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
