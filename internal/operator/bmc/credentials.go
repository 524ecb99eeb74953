package bmc

import (
	"errors"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Errors for credentials, to be tested with errors.Is.
var (
	// ErrNoUsername means that the Secret has no user name.
	ErrNoUsername = errors.New("the Secret has no value for the key username; add it")
	// ErrNoPassword means that the Secret has no password.
	ErrNoPassword = errors.New("the Secret has no value for the key password; add it")
	// ErrMasked means that the Secret has the mask that the engine shows instead of a stored
	// secret.
	ErrMasked = errors.New("the Secret has " + node.Mask + " for the key username or password, which stands for a stored secret; write the value itself")
)

// Credentials are the credentials of a BMC.
type Credentials struct {
	Username, Password string
}

// ReadCredentials reads the keys username and password of a Secret. It trims white space, because
// files and `echo` end with a line feed. The error joins all of ErrNoUsername, ErrNoPassword and
// ErrMasked that apply. A mask is refused because the engine would take it for the secret that it
// has stored, and send that to the BMC that the host names.
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
	if c.Username == node.Mask || c.Password == node.Mask {
		errs = append(errs, ErrMasked)
	}
	return c, errors.Join(errs...)
}
