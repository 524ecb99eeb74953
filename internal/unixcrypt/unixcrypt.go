// Package unixcrypt hashes passwords with SHA-256 and SHA-512 as crypt(3) of GNU libc does. The
// hashes have the form of /etc/shadow: "$5$SALT$HASH" and "$6$SALT$HASH" (Ulrich Drepper, "Unix
// crypt using SHA-256 and SHA-512", https://www.akkadia.org/drepper/SHA-crypt.txt).
package unixcrypt

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"

	"github.com/go-crypt/x/crypt"
)

// Algorithm is how a password is hashed.
type Algorithm string

// The algorithms, with the names of the Bare Metal service's configuration.
const (
	SHA256 Algorithm = "sha256"
	SHA512 Algorithm = "sha512"
)

// Algorithms lists all algorithms.
var Algorithms = []Algorithm{SHA256, SHA512}

// MaxPassword is the longest password that can be hashed, in bytes. The time for hashing grows with
// the length.
const MaxPassword = 512

const (
	rounds     = 5000 // the default; the hash does not name it
	saltLength = 16   // the longest that crypt(3) uses
	saltDigits = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Hash hashes a password with a random salt. It uses some milliseconds of CPU time. It fails for an
// unknown algorithm, and for a password that is empty or too long.
func Hash(algorithm Algorithm, password string) (string, error) {
	if password == "" || len(password) > MaxPassword {
		return "", fmt.Errorf("hash a password of %d bytes: want 1 to %d", len(password), MaxPassword)
	}
	return hashWith(algorithm, password, newSalt())
}

func hashWith(algorithm Algorithm, password, salt string) (string, error) {
	var id string
	var with func() hash.Hash
	switch algorithm {
	case SHA256:
		id, with = "5", sha256.New
	case SHA512:
		id, with = "6", sha512.New
	default:
		return "", fmt.Errorf("hash a password: there is no algorithm %q", algorithm)
	}
	return "$" + id + "$" + salt + "$" + string(crypt.KeySHACrypt(with, []byte(password), []byte(salt), rounds)), nil
}

// newSalt returns 96 random bits.
func newSalt() string {
	var salt [saltLength]byte
	_, _ = rand.Read(salt[:]) // never fails, see crypto/rand
	for i, b := range salt {
		salt[i] = saltDigits[int(b)%len(saltDigits)]
	}
	return string(salt[:])
}
