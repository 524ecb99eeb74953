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

// Encode returns an image in the form that the API and agents carry: compressed by gzip, as base64
// text. The same image makes the same text.
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

// Decode returns the ISO image in a text from a client. It fails if the text is not base64 of gzip,
// if the image has more than maxSize bytes, or if it is no ISO 9660 image. Whatever the text
// expands to, no more than maxSize bytes of it are kept. The text may have line breaks.
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

// refuseText returns an error that says which of the two encodings is wrong.
func refuseText(err error) error {
	var corrupt base64.CorruptInputError
	if errors.As(err, &corrupt) {
		return fmt.Errorf("the config drive is not base64 text: wrong at byte %d", int64(corrupt))
	}
	return errors.New("the config drive is not compressed by gzip, or cut off")
}

// isoHead is how many bytes at the start of an image show whether it is an ISO image. They end with
// its first volume descriptor (ECMA-119 §8.1).
const (
	isoDescriptor = 16 * iso9660.SectorSize
	isoHead       = isoDescriptor + iso9660.SectorSize
)

// isISO reports whether an image has a primary volume descriptor at its place.
func isISO(head []byte) bool {
	return len(head) >= isoHead && bytes.HasPrefix(head[isoDescriptor:], []byte("\x01CD001\x01"))
}
