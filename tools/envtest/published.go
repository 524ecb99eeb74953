package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/remote"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/versions"
)

// maxArchive and maxProgram bound what is written to the disk, in bytes. An archive has
// about 50 MB, and its largest program 100 MB.
const maxArchive, maxProgram = 500 << 20, 500 << 20

// source is where published programs come from: an index in the format of
// setup-envtest. It names the archive and the SHA-512 checksum of each version and
// platform.
type source struct {
	index      string // URL
	kubernetes string // version, without the leading "v"
	platform   versions.Platform

	indexTimeout, stallTimeout, downloadTimeout time.Duration
}

// fetch puts the named programs of the archive into dir; those that it lacks are not there
// then. It returns an error after a bounded time, with nothing in dir, when the index or the
// archive cannot be read, lacks the version or the platform, or does not have the checksum.
func (s source) fetch(ctx context.Context, dir string, names []string) error {
	spec, err := versions.FromExpr(s.kubernetes)
	if err != nil {
		return fmt.Errorf("version %q of Kubernetes: %w", s.kubernetes, err)
	}
	version := spec.AsConcrete()
	if version == nil {
		return fmt.Errorf("%q is not one version of Kubernetes", s.kubernetes)
	}
	archive, err := os.CreateTemp("", "envtest-archive-")
	if err != nil {
		return err
	}
	defer os.Remove(archive.Name()) //nolint:errcheck // a temporary file
	defer archive.Close()
	if err := s.download(ctx, *version, archive); err != nil {
		return err
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := unpack(archive, dir, names); err != nil {
		for _, name := range names {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
		}
		return fmt.Errorf("unpack the archive that %s names: %w", s.index, err)
	}
	return nil
}

// download writes the archive of a version to w and verifies its checksum.
func (s source) download(ctx context.Context, version versions.Concrete, w io.Writer) error {
	client := &remote.HTTPClient{Log: logr.Discard(), IndexURL: s.index}
	item := versions.PlatformItem{Platform: s.platform}
	inTime, cancel := context.WithTimeoutCause(ctx, s.indexTimeout, fmt.Errorf("no answer from %s within %s", s.index, s.indexTimeout))
	defer cancel()
	if err := client.FetchSum(inTime, version, &item); err != nil {
		return clearer(inTime, err)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, s.downloadTimeout, fmt.Errorf("the download takes longer than %s", s.downloadTimeout))
	defer cancel()
	downloading, stop := context.WithCancelCause(bounded)
	defer stop(nil)
	stalled := time.AfterFunc(s.stallTimeout, func() { stop(fmt.Errorf("nothing has come for %s", s.stallTimeout)) })
	defer stalled.Stop()
	to := &watched{w: w, room: maxArchive, progress: func() { stalled.Reset(s.stallTimeout) }}
	return clearer(downloading, client.GetVersion(downloading, version, item, to))
}

// clearer returns the reason for which ctx ended instead of err, which only says that it did.
func clearer(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// watched is a writer with limited room that reports progress.
type watched struct {
	w        io.Writer
	room     int64 // in bytes
	progress func()
}

func (w *watched) Write(p []byte) (int, error) {
	if w.room -= int64(len(p)); w.room < 0 {
		return 0, fmt.Errorf("it has more than %d bytes", maxArchive)
	}
	w.progress()
	return w.w.Write(p)
}

// unpack writes the named programs of a compressed archive into dir.
func unpack(archive io.Reader, dir string, names []string) error {
	compressed, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	for files := tar.NewReader(compressed); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Base(header.Name)
		if header.Typeflag != tar.TypeReg || !slices.Contains(names, name) {
			continue
		}
		if header.Size > maxProgram {
			return fmt.Errorf("%s has %d bytes, which is more than %d", name, header.Size, int64(maxProgram))
		}
		if err := writeProgram(filepath.Join(dir, name), files); err != nil {
			return err
		}
	}
}

func writeProgram(name string, content io.Reader) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755) //nolint:gosec // a program for everybody on the machine
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, content); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}
