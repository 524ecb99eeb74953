package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Names of nodes came with 1.5 as host names; since 1.10 they may use every
// character that RFC 3986 calls unreserved.
const (
	namesSince     = 5
	wideNamesSince = 10
)

var (
	namePattern     = regexp.MustCompile(`^[A-Za-z0-9._~-]+$`)
	hostNamePattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)
)

// reservedNames would hide a path below /v1/nodes.
var reservedNames = []string{
	"detail", "states", "vendor_passthru", "management", "maintenance", "validate", "ports", "portgroups", "volume",
	"traits", "vifs", "bios", "firmware", "inventory", "history", "children", "allocation", "vmedia", "properties",
}

// checkName reports why name cannot be a node's name; "" is no name and fine.
func checkName(name string, version int) error {
	switch {
	case name == "":
		return nil
	case isUUID(name):
		return errors.New("must not look like a UUID")
	case slices.Contains(reservedNames, strings.ToLower(name)):
		return fmt.Errorf("%q is a reserved word", name)
	case version < wideNamesSince && !hostNamePattern.MatchString(name):
		return fmt.Errorf("want a host name before API version 1.%d, got %q", wideNamesSince, name)
	case !namePattern.MatchString(name):
		return fmt.Errorf("want letters, digits and the characters - . _ ~ only, got %q", name)
	}
	return nil
}

// nodeIdent returns the UUID or name that the path addresses a node by.
func nodeIdent(r *http.Request) (string, error) {
	return checkIdent(r.PathValue("ident"), versionOf(r))
}

func checkIdent(ident string, version int) (string, error) {
	switch {
	case isUUID(ident):
		return strings.ToLower(ident), nil
	case version < namesSince:
		return "", &node.NotFoundError{Kind: "Node", Ident: node.CutText(ident)}
	case len(ident) > maxText || !namePattern.MatchString(ident):
		return "", badRequest("Expected the UUID or the name of a node, got %q", node.CutText(ident))
	}
	return ident, nil
}
