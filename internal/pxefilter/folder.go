package pxefilter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Names of files in a folder of hosts. dnsmasq ignores names that begin with a dot.
const (
	unknownFile = "unknown_hosts_filter"
	lockFile    = ".ingot-pxe-filter.lock"

	temporaryPrefix, temporarySuffix = ".ingot-pxe-filter-", ".tmp"
)

// content returns the content of a file, in the syntax of dnsmasq's --dhcp-host.
func content(name string, v Verdict) string {
	if name == unknownFile {
		name = "*:*:*:*:*:*"
	}
	if v == Deny {
		return name + ",ignore\n"
	}
	return name + "\n"
}

// folder is a folder of hosts that dnsmasq reads, with the content of its files. It ignores files
// whose names are not of the form that it writes itself.
type folder struct {
	dir   string
	files map[string]Verdict // empty for content in another form than ours
	seen  map[string]stamp   // files as they were when they were last read or written

	listed  time.Time // modification time of the folder itself at the last listing
	scanned time.Time // time of the last listing
}

// stamp identifies the version of a file that was read or written.
type stamp struct {
	size     int64
	modified time.Time
}

func newFolder(dir string) *folder {
	return &folder{dir: dir, files: map[string]Verdict{}, seen: map[string]stamp{}}
}

// trusted is how long a folder counts as unchanged while no file in it is added, removed or
// replaced. If somebody writes into an existing file, that is noticed only after this time.
const trusted = 10 * time.Minute

// scan looks at every file and reads those that somebody else has touched.
func (f *folder) scan(now time.Time) error {
	info, err := os.Stat(f.dir)
	if err != nil {
		return f.problem("read", err)
	}
	if info.ModTime().Equal(f.listed) && now.Sub(f.scanned) < trusted {
		return nil
	}
	if err := f.list(); err != nil {
		return err
	}
	f.listed, f.scanned = info.ModTime(), now
	return nil
}

// list looks at every file.
func (f *folder) list() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return f.problem("read", err)
	}
	present := make(map[string]bool, len(entries))
	for _, entry := range entries {
		name := entry.Name()
		if name != unknownFile && !isMAC(name) {
			continue
		}
		present[name] = true
		if err := f.check(name, entry); err != nil {
			return f.problem("read "+name+" in", err)
		}
	}
	for name := range f.files {
		if !present[name] {
			f.forget(name)
		}
	}
	return nil
}

// check notes what a file says.
func (f *folder) check(name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if errors.Is(err, fs.ErrNotExist) { // deleted in between
		f.forget(name)
		return nil
	}
	if err != nil {
		return err
	}
	if s, known := f.seen[name]; known && s == stampOf(info) {
		return nil
	}
	f.files[name], f.seen[name] = "", stampOf(info)
	if !info.Mode().IsRegular() {
		return nil // the file is replaced
	}
	f.files[name], err = f.read(name)
	if errors.Is(err, fs.ErrPermission) {
		return nil // the file is replaced, too
	}
	return err
}

// read returns the verdict in a file, empty if the file has any other content than we write.
func (f *folder) read(name string) (Verdict, error) {
	file, err := os.Open(filepath.Join(f.dir, name))
	if err != nil {
		return "", err
	}
	defer file.Close()
	const longer = 64 // longer than any content that we write
	data, err := io.ReadAll(io.LimitReader(file, longer))
	if err != nil {
		return "", err
	}
	for _, v := range []Verdict{Allow, Deny} {
		if bytes.Equal(data, []byte(content(name, v))) {
			return v, nil
		}
	}
	return "", nil
}

// write replaces the content of a file in one step, so dnsmasq never sees half of it. It does not
// sync the file to disk, because everything is compared at the next start.
func (f *folder) write(name string, v Verdict) error {
	file, err := os.CreateTemp(f.dir, temporaryPrefix+"*"+temporarySuffix)
	if err != nil {
		return f.problem("write "+name+" in", err)
	}
	s, err := fill(file, content(name, v))
	if err == nil {
		err = os.Rename(file.Name(), filepath.Join(f.dir, name))
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the next start tries again
		return f.problem("write "+name+" in", err)
	}
	f.files[name], f.seen[name] = v, s
	return nil
}

// readable is the mode of files. dnsmasq runs as another user and must be able to read them.
const readable = 0o644

// fill writes a new file, closes it and returns its stamp.
func fill(file *os.File, text string) (stamp, error) {
	_, err := file.WriteString(text)
	if err == nil {
		err = file.Chmod(readable)
	}
	var info os.FileInfo
	if err == nil {
		info, err = file.Stat()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return stamp{}, err
	}
	return stampOf(info), nil
}

// remove deletes a file. dnsmasq does not notice that by itself.
func (f *folder) remove(name string) error {
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.problem("remove "+name+" from", err)
	}
	f.forget(name)
	return nil
}

func (f *folder) forget(name string) {
	delete(f.files, name)
	delete(f.seen, name)
}

// sweep removes files that a killed process has left half written.
func (f *folder) sweep() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return f.problem("read", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, temporaryPrefix) && strings.HasSuffix(name, temporarySuffix) {
			if err := f.remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime()} }

// remedies say what an operator can do about errors of a folder.
var remedies = []struct {
	err error
	do  string
}{
	{fs.ErrNotExist, "create it, and give it to dnsmasq as dhcp-hostsdir"},
	{fs.ErrPermission, "let the user of this process write to it"},
	{syscall.EROFS, "let this process write to it"},
	{syscall.ENOSPC, "make space on its disk"},
	{syscall.EDQUOT, "make space on its disk"},
	{syscall.EISDIR, "remove what is in the way"},
	{syscall.EEXIST, "remove what is in the way"},
	{syscall.ENOTDIR, "name a folder"},
}

// problem describes an error of the folder.
func (f *folder) problem(what string, err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch { // our own words name the path
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	for _, r := range remedies {
		if errors.Is(err, r.err) {
			return fmt.Errorf("%s folder %s: %w: %s", what, f.dir, err, r.do)
		}
	}
	return fmt.Errorf("%s folder %s: %w", what, f.dir, err)
}
