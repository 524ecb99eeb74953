package imagecache

import (
	"crypto/sha1" //nolint:gosec // it is checked beside what else protects a download
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"strings"
)

// source is a parsed URL of an image.
type source struct {
	url  *url.URL // without the checksum
	key  string   // names the image's files
	sum  []byte   // nil when no checksum is given
	hash func() hash.Hash
	// temporary means that the image is needed for a short time only.
	temporary bool
}

// hashes are the algorithms of checksums by name.
var hashes = map[string]struct {
	new  func() hash.Hash
	size int
}{
	"sha1":   {sha1.New, sha1.Size}, // vendors publish it for firmware
	"sha256": {sha256.New, sha256.Size},
	"sha512": {sha512.New, sha512.Size},
}

// parse reads the URL of an image.
func parse(text string) (source, error) {
	u, err := url.Parse(text)
	if err != nil {
		return source{}, errors.New("is not a URL")
	}
	s := source{url: u}
	switch u.Scheme {
	case "http", "https":
		if u.Hostname() == "" {
			return s, errors.New("has no host")
		}
	case "file":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return s, errors.New("is not of the form file:///folder/name")
		}
	default:
		return s, errors.New("begins with neither http:// nor https://")
	}
	if u.Fragment != "" {
		if err := s.parseSum(u.Fragment); err != nil {
			return s, err
		}
		u.Fragment, u.RawFragment = "", ""
	}
	key := sha256.Sum256([]byte(text))
	s.key = hex.EncodeToString(key[:])
	return s, nil
}

// server returns the key under which downloads share their turns: the host, for all its ports.
func (s *source) server() string {
	return strings.ToLower(strings.TrimSuffix(s.url.Hostname(), "."))
}

// parseSum reads a checksum of the form sha256=HEX.
func (s *source) parseSum(text string) error {
	name, digits, _ := strings.Cut(text, "=")
	algorithm, known := hashes[name]
	sum, err := hex.DecodeString(digits)
	if !known || err != nil || len(sum) != algorithm.size {
		return errors.New("ends with # and no checksum: want #sha256=… or #sha512=… with all its hexadecimal digits")
	}
	s.sum, s.hash = sum, algorithm.new
	return nil
}

// verify compares the checksum of an image with that of its URL.
func (s *source) verify(h hash.Hash) error {
	if h == nil || string(h.Sum(nil)) == string(s.sum) {
		return nil
	}
	return fmt.Errorf("its checksum is %x, not the one that its URL asks for: correct the URL, or the image", h.Sum(nil))
}

// verifyFile compares the checksum of a file with that of its URL. The file must be at its
// beginning, and is there again afterwards.
func (s *source) verifyFile(file io.ReadSeeker) error {
	h := s.hash()
	if _, err := io.Copy(h, file); err != nil {
		return err
	}
	if err := s.verify(h); err != nil {
		return err
	}
	_, err := file.Seek(0, io.SeekStart)
	return err
}
