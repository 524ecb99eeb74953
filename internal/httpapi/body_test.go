package httpapi

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestBodyOfAnySizeIsReadWhole(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, trustedLength, trustedLength + bytes.MinRead, 3*trustedLength + 7} {
		want := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		for name, from := range map[string]io.Reader{
			"at once": bytes.NewReader(want), "byte by byte": iotest.OneByteReader(bytes.NewReader(want)), "with its end": iotest.DataErrReader(bytes.NewReader(want)),
		} {
			if got, err := readParts(from, bytes.MinRead); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes %s: %d bytes, %v", size, name, len(got), err)
			}
		}
	}
	if _, err := readParts(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("abc"))), 1); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("a body that breaks off: %v, want its error", err)
	}
}
