// Package checksum reads the checksums of images, as clients give them.
package checksum

import (
	"crypto/md5" //nolint:gosec // for images whose publishers offer nothing better; the engine refuses it by default
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
)

// Algorithm is a hash function, named as the agent's os_hash_algo.
type Algorithm string

// The algorithms that agents verify images with.
const (
	MD5    Algorithm = "md5" // broken: anybody can make two images with the same checksum
	SHA256 Algorithm = "sha256"
	SHA512 Algorithm = "sha512"
)

// algorithms lists the weakest first.
var algorithms = []struct {
	name   Algorithm
	digits int
	hash   func() hash.Hash
}{
	{MD5, 2 * md5.Size, md5.New},
	{SHA256, 2 * sha256.Size, sha256.New},
	{SHA512, 2 * sha512.Size, sha512.New},
}

// sha1Digits is the length of SHA-1 checksums. Publishers offer them, so errors name them, but they
// are never accepted.
const sha1Digits = 40

// Checksum is a checksum and its algorithm. Equal values mean the same checksum.
type Checksum struct {
	Algorithm Algorithm
	Value     string // hexadecimal digits, lower case
}

// Parse reads a checksum from a client. It is either hexadecimal digits, in upper or lower case,
// whose number tells the algorithm, or "algorithm:digits", where both must match.
func Parse(text string) (Checksum, error) {
	text = strings.TrimSpace(text)
	algorithm, value, named := strings.Cut(text, ":")
	if !named {
		return parseValue(text)
	}
	return New(algorithm, value)
}

// New returns a checksum from the name of an algorithm and a value, as in image_os_hash_algo and
// image_os_hash_value. The name may be in capitals and have a hyphen.
func New(algorithm, value string) (Checksum, error) {
	name, err := AlgorithmOf(algorithm)
	if err != nil {
		return Checksum{}, err
	}
	sum, err := parseValue(value)
	if err != nil {
		return Checksum{}, err
	}
	if sum.Algorithm != name {
		return Checksum{}, fmt.Errorf("a checksum of %d digits is not one of %s", len(sum.Value), name)
	}
	return sum, nil
}

// IsURL reports whether a text is the URL of a checksum file instead of a checksum.
func IsURL(text string) bool {
	scheme, _, found := strings.Cut(text, "://")
	return found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// Hash returns a new hash of the checksum's algorithm, nil for the zero Checksum.
func (c Checksum) Hash() hash.Hash {
	for _, a := range algorithms {
		if a.name == c.Algorithm {
			return a.hash()
		}
	}
	return nil
}

// Matches reports whether a hash has the value of the checksum.
func (c Checksum) Matches(h hash.Hash) bool {
	return hex.EncodeToString(h.Sum(nil)) == c.Value
}

// String returns "algorithm:digits", which [Parse] reads.
func (c Checksum) String() string {
	return string(c.Algorithm) + ":" + c.Value
}

// parseValue reads hexadecimal digits.
func parseValue(text string) (Checksum, error) {
	text = strings.TrimSpace(text)
	if _, err := hex.DecodeString(text); err != nil || text == "" {
		return Checksum{}, fmt.Errorf("checksum %.20q is not hexadecimal", text)
	}
	for _, a := range algorithms {
		if a.digits == len(text) {
			return Checksum{Algorithm: a.name, Value: strings.ToLower(text)}, nil
		}
	}
	if len(text) == sha1Digits {
		return Checksum{}, fmt.Errorf("checksums of sha1 are not accepted; give one of sha256 or sha512")
	}
	return Checksum{}, fmt.Errorf("a checksum of %d digits; those of md5 have 32, of sha256 64, of sha512 128", len(text))
}

// AlgorithmOf returns the algorithm of a name, which may be in capitals and have a hyphen.
func AlgorithmOf(text string) (Algorithm, error) {
	name := strings.ToLower(text)
	if length, ok := strings.CutPrefix(name, "sha2-"); ok { // openssl 3
		name = "sha" + length
	}
	name = strings.ReplaceAll(name, "-", "")
	for _, a := range algorithms {
		if string(a.name) == name {
			return a.name, nil
		}
	}
	return "", fmt.Errorf("checksum algorithm %.20q is not one of md5, sha256, sha512", text)
}
