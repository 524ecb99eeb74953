package iso9660

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxDepth is how many directories ECMA-119 §6.8.2.1 allows on a path, including the root.
const maxDepth = 8

// nameForm is the allowed form of names. ISO 9660 level 2 allows thirty characters.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,30}$`)

// labelForm is the allowed form of labels. Joliet has space for 16 characters.
var labelForm = regexp.MustCompile(`^[!-~]{1,16}$`)

// entry is a file, or a directory if file is nil.
type entry struct {
	name     string
	file     *File
	sector   uint32 // of a file: where its content begins
	parent   *entry // the root is its own parent
	children []*entry
}

// newTree returns the root of the tree of all files.
func newTree(files []File) (*entry, error) {
	root := &entry{}
	root.parent = root
	for k := range files {
		if err := root.add(&files[k]); err != nil {
			return nil, fmt.Errorf("file %q: %w", files[k].Path, err)
		}
	}
	return root, nil
}

func checkLabel(label string) error {
	if !labelForm.MatchString(label) {
		return fmt.Errorf("label %q is not 1 to 16 printable ASCII characters", label)
	}
	return nil
}

// add puts a file into the tree below a root, with the directories on its path.
func (e *entry) add(file *File) error {
	if file.Size < 0 || file.Size >= MaxFileSize {
		return fmt.Errorf("its size is %d bytes, want 0 to %d", file.Size, int64(MaxFileSize)-1)
	}
	names := strings.Split(file.Path, "/")
	if len(names) > maxDepth {
		return fmt.Errorf("it is in more than %d directories", maxDepth-1)
	}
	at := e
	for k, name := range names {
		if !nameForm.MatchString(name) || strings.Trim(name, ".") == "" {
			return fmt.Errorf("an image cannot have the name %q", name)
		}
		child := at.child(name)
		switch last := k == len(names)-1; {
		case child == nil:
			child = &entry{name: name, parent: at}
			if last {
				child.file = file
			}
			at.children = append(at.children, child)
		case last || child.file != nil || child.name != name:
			return fmt.Errorf("the image has %q already", child.name)
		}
		at = child
	}
	return nil
}

// child returns the child whose name ISO 9660 cannot tell from a name, or nil.
func (e *entry) child(name string) *entry {
	for _, child := range e.children {
		if directoryName(child.name) == directoryName(name) {
			return child
		}
	}
	return nil
}

// find returns the entry at a path below a root, or nil.
func (e *entry) find(path string) *entry {
	at := e
	for name := range strings.SplitSeq(path, "/") {
		if at = at.child(name); at == nil || at.name != name {
			return nil
		}
	}
	return at
}

// directories returns all directories of a tree level by level, in the order of path tables
// (ECMA-119 §6.9.1): by parent, then by identifier.
func (e *entry) directories(names naming) []*entry {
	dirs := []*entry{e}
	for k := 0; k < len(dirs); k++ {
		for _, child := range dirs[k].sorted(names) {
			if child.file == nil {
				dirs = append(dirs, child)
			}
		}
	}
	return dirs
}

// sorted returns the children in the order of their identifiers.
func (e *entry) sorted(names naming) []*entry {
	return slices.SortedFunc(slices.Values(e.children), func(a, b *entry) int {
		return slices.Compare(names.identifier(a), names.identifier(b))
	})
}

// files returns all files of a tree, sorted by path.
func (e *entry) files() []*entry {
	var files []*entry
	for _, dir := range e.directories(rockRidge{}) {
		for _, child := range dir.sorted(rockRidge{}) {
			if child.file != nil {
				files = append(files, child)
			}
		}
	}
	return files
}
