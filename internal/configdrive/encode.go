package configdrive

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ingot-metal/ingot/internal/iso9660"
)

// Encode returns an image as the API and agents carry it: compressed by gzip, as base64 text.
// The same image makes the same text.
func Encode(image io.Reader) (string, error) {
	var b strings.Builder
	text := base64.NewEncoder(base64.StdEncoding, &b)
	compressed := gzip.NewWriter(text)
	if _, err := io.Copy(compressed, image); err != nil {
		return "", fmt.Errorf("compress a config drive: %w", err)
	}
	if err := errors.Join(compressed.Close(), text.Close()); err != nil {
		return "", fmt.Errorf("compress a config drive: %w", err)
	}
	return b.String(), nil
}

// Decode returns the ISO image in a text that a client has given. It is an error if the text
// is not base64 of gzip, if the image has more than maxSize bytes, and if it is no ISO 9660
// image. Whatever the text expands to, no more than maxSize bytes of it are kept. Lines may
// be broken.
func Decode(text string, maxSize int64) ([]byte, error) {
	var image bytes.Buffer
	if err := decode(&image, text, maxSize); err != nil {
		return nil, err
	}
	return image.Bytes(), nil
}

// Check returns the error of [Decode] without keeping the image.
func Check(text string, maxSize int64) error {
	return decode(io.Discard, text, maxSize)
}

func decode(image io.Writer, text string, maxSize int64) error {
	compressed, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return refuseText(err)
	}
	bounded := io.LimitReader(compressed, maxSize+1)
	head := make([]byte, isoHead)
	n, err := io.ReadFull(bounded, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return refuseText(err)
	}
	if !isISO(head[:n]) {
		return errors.New("the config drive is not an ISO 9660 image, or cut off")
	}
	rest, err := io.Copy(image, io.MultiReader(bytes.NewReader(head), bounded))
	switch {
	case err != nil:
		return refuseText(err)
	case rest > maxSize:
		return tooLarge(maxSize)
	}
	return nil
}

// refuseText says which of the two encodings is wrong.
func refuseText(err error) error {
	var corrupt base64.CorruptInputError
	if errors.As(err, &corrupt) {
		return fmt.Errorf("the config drive is not base64 text: wrong at byte %d", int64(corrupt))
	}
	return errors.New("the config drive is not compressed by gzip, or cut off")
}

// isoHead is how many bytes of an ISO image tell that it is one: up to the end of its
// first volume descriptor (ECMA-119 §8.1).
const (
	isoDescriptor = 16 * iso9660.SectorSize
	isoHead       = isoDescriptor + iso9660.SectorSize
)

// isISO tells whether an image begins with a primary volume descriptor at its place.
func isISO(head []byte) bool {
	return len(head) >= isoHead && bytes.HasPrefix(head[isoDescriptor:], []byte("\x01CD001\x01"))
}
