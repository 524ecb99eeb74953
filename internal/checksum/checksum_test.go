package checksum

import (
	"strings"
	"testing"
)

// Checksums of the empty file.
const (
	md5Sum    = "d41d8cd98f00b204e9800998ecf8427e"
	sha1Sum   = "da39a3ee5e6b4b0d3255bfef95601890afd80709"
	sha256Sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	sha512Sum = "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e"
)

func TestChecksumsTellTheirAlgorithm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Checksum{
		md5Sum:                            {MD5, md5Sum},
		strings.ToUpper(sha256Sum):        {SHA256, sha256Sum},
		" " + sha512Sum + "\n":            {SHA512, sha512Sum},
		"sha256:" + sha256Sum:             {SHA256, sha256Sum},
		"SHA-512:" + sha512Sum:            {SHA512, sha512Sum},
		"md5: " + strings.ToUpper(md5Sum): {MD5, md5Sum},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%.20s: %v, %v", text, got, err)
			continue
		}
		if again, err := Parse(got.String()); again != got || err != nil {
			t.Errorf("%s: %v, %v", got, again, err)
		}
		if !got.Matches(got.Hash()) {
			t.Errorf("%s does not match the empty file", got)
		}
		h := got.Hash()
		h.Write([]byte("x"))
		if got.Matches(h) {
			t.Errorf("%s matches another file", got)
		}
	}
}

func TestOtherChecksumsAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                    "not hexadecimal",
		"sha256:":             "not hexadecimal",
		"hunter2":             "not hexadecimal",
		"abcdef":              "of 6 digits",
		sha1Sum:               "sha1 are not accepted",
		"sha1:" + sha1Sum:     `algorithm "sha1" is not one of`,
		"sha3-256:" + md5Sum:  `algorithm "sha3-256" is not one of`,
		"sha512:" + sha256Sum: "64 digits is not one of sha512",
		"http://h/SHA256SUMS": `algorithm "http" is not one of`,
	} {
		if sum, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", text, sum, err, want)
		}
	}
}

func TestURLsAreToldFromChecksums(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"http://h/SUMS": true, "HTTPS://h/SUMS": true, "ftp://h/SUMS": false, sha256Sum: false, "sha256:" + sha256Sum: false,
	} {
		if got := IsURL(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
