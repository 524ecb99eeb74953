package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
)

// maxReason is the largest length of a text for people, in characters.
const maxReason = 4096

// uuidOf is a UUID or null, kept in lower case.
func uuidOf[T any](at func(*T) *string) value[T] {
	v := textOf(at)
	v.read = func(item *T, raw json.RawMessage) error {
		text, err := readText(raw, maxText)
		if err != nil {
			return err
		}
		if text != "" && !isUUID(text) {
			return fmt.Errorf("want a UUID, got %q", text)
		}
		*at(item) = strings.ToLower(text)
		return nil
	}
	return v
}

// isUUID accepts the canonical form only, in any case.
func isUUID(text string) bool {
	return len(text) == 36 && uuid.Validate(text) == nil
}

var conductorGroupPattern = regexp.MustCompile(`^[a-zA-Z0-9_.-]*$`)

// conductorGroupValue is a word in lower case. It is never null.
var conductorGroupValue = value[node.Node]{
	append: func(dst []byte, _ *view, n *node.Node) []byte { return appendString(dst, n.ConductorGroup) },
	read: func(n *node.Node, raw json.RawMessage) error {
		text, err := readText(raw, maxText)
		if err != nil {
			return err
		}
		if !conductorGroupPattern.MatchString(text) {
			return errors.New("want letters, digits, '.', '_' and '-' only")
		}
		n.ConductorGroup = strings.ToLower(text)
		return nil
	},
}
