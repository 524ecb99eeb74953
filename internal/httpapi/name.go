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
	case name == "." || name == "..":
		return fmt.Errorf("%q means something else in a URL, so that the node could not be reached by it", name)
	case slices.Contains(reservedNames, strings.ToLower(name)):
		return fmt.Errorf("%q is a reserved word", name)
	case version < wideNamesSince && !hostNamePattern.MatchString(name):
		return fmt.Errorf("want a host name before API version 1.%d, got %q", wideNamesSince, name)
	case !namePattern.MatchString(name):
		return fmt.Errorf("want letters, digits and the characters - . _ ~ only, got %q", name)
	}
	return nil
}

// suffixSince is when ".json" behind an identifier began to belong to it.
const suffixSince = 91

// nodeIdent returns the UUID or name that the path addresses a node by. A node
// whose name really ends in ".json" goes before one that the rest names.
func (a *api) nodeIdent(r *http.Request) (string, error) {
	ident, err := checkIdent(r.PathValue("ident"), versionOf(r))
	stem, suffixed := strings.CutSuffix(ident, ".json")
	if err != nil || !suffixed || versionOf(r) >= suffixSince {
		return ident, err
	}
	if _, err := a.engine.Node(r.Context(), ident); errors.Is(err, node.ErrNotFound) {
		return checkIdent(stem, versionOf(r))
	}
	return ident, nil
}

// pathNode returns the node that the path addresses.
func (a *api) pathNode(r *http.Request) (*node.Node, error) {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return nil, err
	}
	n, err := a.engine.Node(r.Context(), ident)
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", ident, err)
	}
	return n, nil
}

// checkIdent returns the identifier of a node as the engine knows it.
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
