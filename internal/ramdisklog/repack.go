package ramdisklog

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Bounds of an archive, in bytes but for files.
const (
	maxFiles   = 500
	maxContent = 32 << 20 // unpacked, of what is read
	maxFile    = 2 << 20  // of one file that is kept: its end
	maxKept    = 16 << 20 // of all files that are kept
	maxPacked  = 4 << 20  // packed again
)

// repack reads an archive of logs (tar, gzip) and returns it without secrets, and with large
// files cut to their ends. It takes nothing that the sender says about sizes for granted.
func repack(archive []byte, secrets []string) ([]byte, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	limited := &io.LimitedReader{R: unpacked, N: maxContent}
	var packed bytes.Buffer
	packing := gzip.NewWriter(&packed)
	files, kept := tar.NewWriter(packing), 0
	reader := tar.NewReader(limited)
	for range maxFiles {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("unpack, after %d bytes: %w", maxContent-limited.N, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return nil, fmt.Errorf("unpack %s, after %d bytes: %w", node.CutText(header.Name), maxContent-limited.N, err)
		}
		content = end(content, min(maxFile, maxKept-kept), secrets)
		kept += len(content)
		if err := files.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: safeName(header.Name), Mode: 0o600, Size: int64(len(content)), ModTime: header.ModTime,
		}); err != nil {
			return nil, fmt.Errorf("pack %s: %w", node.CutText(header.Name), err)
		}
		_, _ = files.Write(content) // into memory
	}
	if err := errors.Join(files.Close(), packing.Close()); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	if packed.Len() > maxPacked {
		return nil, fmt.Errorf("pack: there are %d bytes, more than %d", packed.Len(), maxPacked)
	}
	return packed.Bytes(), nil
}

// margin is how much before the end of a file is masked with it, in bytes, so that a secret that
// is cut in two is not in the rest.
const margin = 64 << 10

// end returns the last bytes of a file without secrets.
func end(content []byte, limit int, secrets []string) []byte {
	before := margin
	for _, secret := range secrets {
		before = max(before, len(secret))
	}
	if len(content) <= limit {
		return tail(masked(content, secrets), limit)
	}
	cut := masked(tail(content, limit+before), secrets)
	return tail(cut[min(before, len(cut)):], limit)
}

// tail returns the last bytes of a text.
func tail(text []byte, limit int) []byte { return text[max(0, len(text)-limit):] }

// safeName is the name of a file within the archive, so that nobody who unpacks it writes
// elsewhere.
func safeName(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+strings.ToValidUTF8(name, "?")), "/")
	if name == "" {
		return "unnamed"
	}
	return node.CutText(name)
}
