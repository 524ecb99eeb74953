package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// inventoryMode is the mode of a new file with an inventory, before the umask.
// An inventory holds serial numbers and MAC addresses but no secrets, and is meant
// to be read by other tools and people.
const inventoryMode = 0o644

// InventorySave writes a node's inventory as indented JSON.
type InventorySave struct {
	// File is the file to write; empty or "-" means standard output. As with other clients of this
	// API, an existing file is replaced and keeps its mode. A process that reads the file meanwhile
	// sees the old content or the new content, never a mixture.
	File string
}

// Run reads the inventory of the node and writes it to the file or to out.
func (s InventorySave) Run(ctx context.Context, engine *ironic.Client, ident string, out io.Writer) error {
	inventory, err := readInventory(ctx, engine, ident)
	if err != nil {
		return err
	}
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(inventory); err != nil {
		return fmt.Errorf("encode inventory of node %s: %w", ident, err)
	}
	if s.File == "" || s.File == "-" {
		_, err := out.Write(safeJSON(content.Bytes()))
		return err
	}
	if err := writeFile(s.File, content.Bytes()); err != nil {
		return fmt.Errorf("write %s: %w", s.File, withoutPath(err))
	}
	return nil
}

// writeFile replaces the file of that name; it follows links. If the file is not regular, such as a
// pipe or a terminal, writeFile writes to it instead.
func writeFile(name string, content []byte) error {
	target, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) {
		return replaceFile(name, content, inventoryMode)
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(target)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a folder; name a file")
	case info.Mode().IsRegular():
		return replaceFile(target, content, info.Mode().Perm())
	}
	file, err := os.OpenFile(target, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// replaceFile writes the content to a temporary file in the same folder and renames that file to
// name.
func replaceFile(name string, content []byte, mode fs.FileMode) (err error) {
	temporary := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+uuid.NewString())
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary)
		}
	}()
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, name)
}

// withoutPath returns the cause of a file error without the file's name, which may be the name of a
// temporary file.
func withoutPath(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
