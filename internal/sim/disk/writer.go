package disk

import (
	"errors"
	"fmt"
	"os"
)

// ErrFull is the error for an image with more bytes than its disk.
var ErrFull = errors.New("no space left on the disk")

// Writer takes the bytes of an image for a disk. Until Commit, the disk keeps what it has. A writer
// is used by one goroutine, and ends with Commit or Abort.
type Writer struct {
	set      *Set
	device   string
	capacity int64
	begin    []byte
	written  int64
	file     *os.File // nil if bytes are not kept
}

// Write begins to write an image to a disk. The capacity of the disk is in bytes.
func (s *Set) Write(device string, capacity int64) (*Writer, error) {
	w := &Writer{set: s, device: device, capacity: capacity}
	if s.folder == "" {
		return w, nil
	}
	var err error
	if w.file, err = os.OpenFile(s.path(device)+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
		return nil, fmt.Errorf("keep what is on %s: %w", device, err)
	}
	return w, nil
}

// Write takes bytes. The error is [ErrFull] or an error of the file.
func (w *Writer) Write(p []byte) (int, error) {
	if w.written+int64(len(p)) > w.capacity {
		return 0, ErrFull
	}
	if missing := headerSize - len(w.begin); missing > 0 {
		w.begin = append(w.begin, p[:min(missing, len(p))]...)
	}
	if w.file != nil && !empty(p) { // zeros stay a hole
		if _, err := w.file.WriteAt(p, w.written); err != nil {
			return 0, fmt.Errorf("keep what is on %s: %w", w.device, err)
		}
	}
	w.written += int64(len(p))
	return len(p), nil
}

func empty(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}

// Image describes the disk after the image, in any format, was converted to it, as far as its bytes
// tell. backing says that the image is incomplete without another one.
func (w *Writer) Image() (i Image, backing bool) {
	h := readHeader(w.begin)
	i = w.Raw()
	if h.format == QCOW2 {
		i.Format, i.Size, i.Bootable = QCOW2, h.size, true
	}
	return i, h.backing
}

// Raw describes the disk after the bytes were written to it as they are, whatever their format is.
func (w *Writer) Raw() Image {
	return Image{Bytes: w.written, Format: Raw, Size: w.written, Bootable: readHeader(w.begin).partitioned}
}

// Commit replaces what is on the disk.
func (w *Writer) Commit(i Image) error {
	if err := w.set.Wipe(w.device); err != nil {
		return errors.Join(err, w.Abort())
	}
	if w.file != nil {
		err := errors.Join(w.file.Truncate(w.written), w.file.Close())
		if err == nil {
			err = os.Rename(w.file.Name(), w.set.path(w.device))
		}
		if err != nil {
			return fmt.Errorf("keep what is on %s: %w", w.device, err)
		}
	}
	w.set.put(w.device, Content{Image: i})
	return nil
}

// Abort discards what was written. The disk keeps what it has.
func (w *Writer) Abort() error {
	if w.file == nil {
		return nil
	}
	return errors.Join(w.file.Close(), os.Remove(w.file.Name()))
}
