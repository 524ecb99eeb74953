package bmc

import (
	"errors"
	"strings"
)

// Errors for credentials, to be tested with errors.Is.
var (
	// ErrNoUsername means that the Secret has no user name.
	ErrNoUsername = errors.New("the Secret has no value for the key username; add it")
	// ErrNoPassword means that the Secret has no password.
	ErrNoPassword = errors.New("the Secret has no value for the key password; add it")
)

// Credentials are those of a BMC.
type Credentials struct {
	Username, Password string
}

// ReadCredentials reads the keys username and password of a Secret. White space around
// the values is removed, because files and `echo` end with a line feed. The error is
// ErrNoUsername, ErrNoPassword, or both joined.
func ReadCredentials(data map[string][]byte) (Credentials, error) {
	c := Credentials{
		Username: strings.TrimSpace(string(data["username"])),
		Password: strings.TrimSpace(string(data["password"])),
	}
	var errs []error
	if c.Username == "" {
		errs = append(errs, ErrNoUsername)
	}
	if c.Password == "" {
		errs = append(errs, ErrNoPassword)
	}
	return c, errors.Join(errs...)
}
