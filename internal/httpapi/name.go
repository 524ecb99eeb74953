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

// Nodes have names since 1.5. Names are host names before 1.10; since then they may have
// every unreserved character of RFC 3986.
const (
	namesSince     = 5
	wideNamesSince = 10
)

var (
	namePattern     = regexp.MustCompile(`^[A-Za-z0-9._~-]+$`)
	hostNamePattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)
)

// reservedNames are words in paths below /v1/nodes, so no node may have them as its name.
var reservedNames = []string{
	"detail", "states", "vendor_passthru", "management", "maintenance", "validate", "ports", "portgroups", "volume",
	"traits", "vifs", "bios", "firmware", "inventory", "history", "children", "allocation", "vmedia", "properties",
}

// checkNodeName is checkName for a node.
func checkNodeName(name string, version int) error {
	if slices.Contains(reservedNames, strings.ToLower(name)) {
		return fmt.Errorf("%q is a reserved word", name)
	}
	return checkName(name, version)
}

// checkName returns why name cannot be a name. It accepts "", which means no name.
func checkName(name string, version int) error {
	switch {
	case name == "":
		return nil
	case isUUID(name):
		return errors.New("must not look like a UUID")
	case name == "." || name == "..":
		return fmt.Errorf("%q has another meaning in a URL and could not be named there", name)
	case strings.EqualFold(name, "detail"):
		return fmt.Errorf("%q is a reserved word", name)
	case version < wideNamesSince && !hostNamePattern.MatchString(name):
		return fmt.Errorf("want a host name before API version 1.%d, got %q", wideNamesSince, name)
	case !namePattern.MatchString(name):
		return fmt.Errorf("want letters, digits and the characters - . _ ~ only, got %q", name)
	}
	return nil
}

// suffixSince is the first microversion 1.N in which ".json" at the end of an identifier belongs to
// the identifier.
const suffixSince = 91

// nodeIdent returns the UUID or name of the node in the path. Before suffixSince it ignores ".json"
// at the end, unless a node has exactly that name.
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

// pathNode returns the node in the path.
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

// checkIdent returns the identifier of a node in the form that the engine uses.
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
