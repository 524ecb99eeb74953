package ironic

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

const (
	// newestUnderstood is the highest microversion that this client was written for.
	// With newer engines it uses this version.
	newestUnderstood = microversion(110)
	// oldestUsable is the lowest microversion that has everything this client calls. The inventory
	// came last.
	oldestUsable = microversion(81)
)

// microversion is the minor number of an API version; the major number is always 1. Numbers are
// compared, not texts: 1.9 is older than 1.10.
type microversion int

// String returns the form of a version header, "1.84".
func (v microversion) String() string { return "1." + strconv.Itoa(int(v)) }

func parseVersion(text string) (microversion, error) {
	minor, ok := strings.CutPrefix(text, "1.")
	n, err := strconv.ParseUint(minor, 10, 16)
	if !ok || err != nil {
		return 0, fmt.Errorf("%q is not a version of the Bare Metal API; use 1.N or latest", text)
	}
	return microversion(n), nil
}

// Microversions returns the lowest and the highest microversion of the Bare Metal API that this
// client can use, both included.
func Microversions() (oldest, newest string) {
	return oldestUsable.String(), newestUnderstood.String()
}

// chooseVersion returns the version to use with an engine that offers lowest to highest, as in its
// root document.
func chooseVersion(lowest, highest string) (microversion, error) {
	low, err := parseVersion(lowest)
	if err != nil {
		return 0, err
	}
	high, err := parseVersion(highest)
	if err != nil {
		return 0, err
	}
	if high < oldestUsable {
		return 0, fmt.Errorf("the engine offers API versions %s to %s, at least %s is needed; upgrade the engine", low, high, oldestUsable)
	}
	if low > newestUnderstood {
		return 0, fmt.Errorf("the engine offers API versions %s to %s, this client knows versions up to %s; upgrade the client", low, high, newestUnderstood)
	}
	return min(high, newestUnderstood), nil
}

// Supports reports whether the API version in use is 1.minor or newer.
func (c *Client) Supports(ctx context.Context, minor int) (bool, error) {
	text, err := c.Microversion(ctx)
	if err != nil {
		return false, err
	}
	version, err := parseVersion(text)
	return version >= microversion(minor), err
}
