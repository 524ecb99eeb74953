// Package ramdisklog keeps the logs of machines' ramdisks in a folder. They are archives (tar,
// gzip) without secrets. The number for each node and the total size are limited.
package ramdisklog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// perNode is how many archives of a node are kept. They are the newest.
const perNode = 3

// atOnce is how many archives are processed at once. Each takes some ten megabytes of memory.
const atOnce = 2

// suffix ends the names of archives.
const suffix = ".tar.gz"

// timeLayout is the form of the time before the suffix. It marks a file as one of this package.
const timeLayout = "2006-01-02-15-04-05"

// unfinished matches the names of files that are being written.
const unfinished = ".new-*"

// writtenWithin is longer than any process takes to write a file of some megabytes.
const writtenWithin = time.Hour

// Folder is a folder of archives. It is safe for concurrent use, also by several processes.
type Folder struct {
	dir   string
	limit int64
	slots chan struct{}
}

// Open returns a folder for archives of limit bytes in total. It creates the folder if necessary.
func Open(dir string, limit int64) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of logs: %w", err)
	}
	f := &Folder{dir: dir, limit: limit, slots: make(chan struct{}, atOnce)}
	if err := f.sweep(time.Now()); err != nil {
		return nil, err
	}
	return f, nil
}

// Name returns the name of the archive of a node, with its instance if there is one. The Bare Metal
// service uses the same form.
func Name(node, instance string, at time.Time) string {
	parts := []string{node, instance, at.UTC().Format(timeLayout)}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "_") + suffix
}

// isName reports whether a file has a name in the form of Name.
func isName(name string) bool {
	name, isArchive := strings.CutSuffix(name, suffix)
	before := strings.LastIndexByte(name, '_')
	_, err := time.Parse(timeLayout, name[before+1:])
	return isArchive && before > 0 && err == nil
}

// Keep stores an archive of a node, without secrets. The name must begin with the node's UUID. The
// oldest archives make room. Keep waits while others are stored, until ctx ends. It fails if the
// archive cannot be stored, for example if the sender's data is no archive at all.
func (f *Folder) Keep(ctx context.Context, name string, archive []byte, secrets []string) error {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	kept, err := repack(ctx, archive, secrets)
	if err != nil {
		return fmt.Errorf("keep the logs: %w", err)
	}
	if err := f.write(name, kept); err != nil {
		return fmt.Errorf("keep the logs: %w", err)
	}
	if err := f.prune(name); err != nil {
		return fmt.Errorf("remove old logs: %w", err)
	}
	return f.sweep(time.Now())
}

// write writes a file into the folder completely or not at all.
func (f *Folder) write(name string, content []byte) error {
	file, err := os.CreateTemp(f.dir, unfinished)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), filepath.Join(f.dir, filepath.Base(name)))
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the first error is more useful
	}
	return err
}

// sweep removes unfinished files of killed processes. It only removes files that are too old for
// any process to be writing them.
func (f *Folder) sweep(now time.Time) error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("look for logs that were not written to their end: %w", err)
	}
	for _, entry := range entries {
		if mine, _ := filepath.Match(unfinished, entry.Name()); !mine {
			continue
		}
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > writtenWithin {
			err = os.Remove(filepath.Join(f.dir, entry.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may be sweeping, too
			return fmt.Errorf("remove logs that were not written to their end: %w", err)
		}
	}
	return nil
}

// archiveFile is an archive in the folder.
type archiveFile struct {
	name string
	size int64
	at   time.Time
}

// prune removes archives beyond the limits, the oldest first: archives of the node of the added
// archive that exceed perNode, and archives of all nodes that exceed the size. The added archive
// stays.
func (f *Folder) prune(added string) error {
	archives, err := f.archives()
	if err != nil {
		return err
	}
	owner, _, _ := strings.Cut(added, "_")
	var size int64
	ofNode := 0
	for _, a := range archives { // the newest first
		mine := strings.HasPrefix(a.name, owner+"_")
		if mine {
			ofNode++
		}
		size += a.size
		if a.name == added || size <= f.limit && (!mine || ofNode <= perNode) {
			continue
		}
		size -= a.size
		if err := os.Remove(filepath.Join(f.dir, a.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// archives lists the archives in the folder, the newest first. It ignores other files.
func (f *Folder) archives() ([]archiveFile, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, err
	}
	var archives []archiveFile
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || !isName(entry.Name())) {
			continue
		}
		if err != nil {
			return nil, err
		}
		archives = append(archives, archiveFile{entry.Name(), info.Size(), info.ModTime()})
	}
	slices.SortFunc(archives, func(a, b archiveFile) int {
		if c := b.at.Compare(a.at); c != 0 {
			return c
		}
		return strings.Compare(b.name, a.name)
	})
	return archives, nil
}
