package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// archiveOf is the name of the archive of an image layout.
func archiveOf(folder string) string { return folder + ".tar" }

// archive writes the archive of an image layout, which container runtimes load: its files in the
// order of their names, without times and owners.
func archive(folder string) (err error) {
	file, err := os.Create(archiveOf(folder))
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	w := tar.NewWriter(file)
	err = fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return addFile(w, filepath.Join(folder, name), name)
	})
	if err := errors.Join(err, w.Close(), file.Close()); err != nil {
		return fmt.Errorf("write archive %s: %w", archiveOf(folder), err)
	}
	return nil
}

func addFile(w *tar.Writer, path, name string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: info.Size(), Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}
