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

	"github.com/ingot-metal/ingot/internal/baremetal"
)

// inventoryMode is the mode of a saved inventory, less the umask. It holds
// serial numbers and MAC addresses but no secrets, and is made to be read by
// other tools and people.
const inventoryMode = 0o644

// InventorySave writes a node's inventory as indented JSON.
type InventorySave struct {
	// File to write; empty or "-" means standard output. The file appears
	// complete or not at all.
	File string
	// Force replaces an existing file. Without it one is never touched.
	Force bool
}

// Run reads the inventory of the node and writes it to the file or to out.
func (s InventorySave) Run(ctx context.Context, engine *baremetal.Client, ident string, out io.Writer) error {
	toFile := s.File != "" && s.File != "-"
	if toFile {
		// Asked first, so that a refusal costs no request.
		if err := s.mayWrite(); err != nil {
			return err
		}
	}
	inventory, err := engine.Inventory(ctx, ident)
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
	if !toFile {
		_, err := out.Write(safeJSON(content.Bytes()))
		return err
	}
	return s.write(content.Bytes())
}

func (s InventorySave) mayWrite() error {
	info, err := os.Lstat(s.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return s.failure(err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file; choose another --file", s.File)
	case !s.Force:
		return fmt.Errorf("%s exists already; choose another --file or add --force to replace it", s.File)
	}
	return nil
}

// write puts content beside the file and renames it into place.
func (s InventorySave) write(content []byte) (err error) {
	temporary := filepath.Join(filepath.Dir(s.File), "."+filepath.Base(s.File)+"."+uuid.NewString())
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, inventoryMode)
	if err != nil {
		return s.failure(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary)
		}
	}()
	_, writeErr := file.Write(content)
	if err := errors.Join(writeErr, file.Sync(), file.Close()); err != nil {
		return s.failure(err)
	}
	// A file that appeared since the first look is still not replaced.
	if err := s.mayWrite(); err != nil {
		return err
	}
	if err := os.Rename(temporary, s.File); err != nil {
		return s.failure(err)
	}
	return nil
}

// failure names the file that the user gave instead of the temporary one.
func (s InventorySave) failure(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("write %s: %w", s.File, err)
}
