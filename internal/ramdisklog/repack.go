package ramdisklog

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Limits of an archive, in bytes except for files and time.
const (
	maxFiles     = 500
	maxUnpacked  = 256 << 20 // bytes that are read
	unpackWithin = 15 * time.Second
	maxFile      = 2 << 20  // bytes of one file that are kept: its end
	maxKept      = 16 << 20 // bytes of all files that are kept
	maxPacked    = 4 << 20  // bytes after packing again
)

// incompleteName is a file in an archive. It says that the archive was not read to its end.
const incompleteName = "INCOMPLETE.txt"

// repack reads an archive of logs (tar, gzip) and returns it without secrets, and with large files
// cut to their ends. It trusts no size that the sender states. If the archive is too large or takes
// too long, repack returns what was read so far, and a file in it says so.
func repack(ctx context.Context, archive []byte, secrets []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, unpackWithin)
	defer cancel()
	unpacked, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	var packed bytes.Buffer
	packing := gzip.NewWriter(&packed)
	p := packer{files: tar.NewWriter(packing), secrets: secrets}
	err = p.packAll(&bounded{unpacked, maxUnpacked, ctx.Err}, ctx.Err)
	var reached bound
	if errors.As(err, &reached) {
		err = p.pack(incompleteName, time.Time{}, fmt.Appendf(nil, "The archive of the ramdisk has %s. The last file ends where reading it ended; what came behind it is missing.\n", reached))
	}
	if err := errors.Join(err, p.files.Close(), packing.Close()); err != nil {
		return nil, err
	}
	if packed.Len() > maxPacked {
		return nil, fmt.Errorf("pack: there are %d bytes, more than %d", packed.Len(), maxPacked)
	}
	return packed.Bytes(), nil
}

// packer packs files into an archive.
type packer struct {
	files   *tar.Writer
	secrets []string
	kept    int // bytes of all files so far
}

// packAll packs the ends of the files of an archive. When a limit is reached, it packs what was
// read so far and returns a bound. over returns an error when the time is over.
func (p *packer) packAll(archive *bounded, over func() error) error {
	reader, last := tar.NewReader(archive), &ending{limit: maxFile + p.before()}
	content := &bounded{reader, maxUnpacked, over} // a file may have holes, whose bytes are not in the archive
	for entries := 0; ; entries++ {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack, after %d bytes: %w", maxUnpacked-archive.left, err)
		}
		if entries == maxFiles {
			return bound(fmt.Sprintf("more than %d files", maxFiles))
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		last.kept = last.kept[:0]
		_, err = io.Copy(last, content)
		var reached bound
		if err != nil && !errors.As(err, &reached) {
			return fmt.Errorf("unpack %s, after %d bytes: %w", node.CutText(header.Name), maxUnpacked-archive.left, err)
		}
		if err := errors.Join(p.pack(safeName(header.Name), header.ModTime, last.kept), err); err != nil {
			return err
		}
	}
}

// pack packs the end of a file.
func (p *packer) pack(name string, at time.Time, content []byte) error {
	content = end(content, min(maxFile, maxKept-p.kept), p.before(), p.secrets)
	p.kept += len(content)
	if err := p.files.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: at}); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	_, err := p.files.Write(content)
	return err
}

// before returns how many bytes before the end of a file are searched for secrets that the cut may
// have halved.
func (p *packer) before() int {
	before := margin
	for _, secret := range p.secrets {
		before = max(before, len(secret))
	}
	return before
}

// margin is how many bytes before the kept end of a file are masked together with it. So the end
// contains no part of a secret that the cut has halved.
const margin = 64 << 10

// end returns the last bytes of a file without secrets. No secret is longer than before.
func end(content []byte, limit, before int, secrets []string) []byte {
	if len(content) <= limit {
		return tail(masked(content, secrets), limit)
	}
	cut := masked(tail(content, limit+before), secrets)
	return tail(cut[min(before, len(cut)):], limit)
}

// tail returns the last bytes of a text.
func tail(text []byte, limit int) []byte { return text[max(0, len(text)-limit):] }

// safeName returns the name of a file for the archive, so that nobody who unpacks it writes
// elsewhere.
func safeName(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+strings.ToValidUTF8(name, "?")), "/")
	if name == "" {
		return "unnamed"
	}
	return node.CutText(name)
}
