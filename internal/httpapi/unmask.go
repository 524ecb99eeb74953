package httpapi

import (
	"bytes"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// Masked parts of a URL.
const (
	maskedUser  = "://" + mask + "@"
	maskedValue = "=" + mask // in its query
)

// restoreMasked replaces masks in changed with the stored secrets. A client sends masks when it
// writes back what it read. A mask without a stored secret is a *node.ValidationError.
func restoreMasked(field string, stored, changed node.Object) (node.Object, error) {
	if !bytes.Contains(changed, []byte(mask)) {
		return changed, nil
	}
	values, err := unmask(field, stored.Values(), changed.Values())
	if err != nil {
		return nil, err
	}
	return node.ObjectOf(values.(map[string]any)), nil
}

// unmask returns changed with every mask replaced by the stored value at the same place.
func unmask(path string, stored, changed any) (any, error) {
	switch value := changed.(type) {
	case map[string]any:
		old, _ := stored.(map[string]any)
		for key, item := range value {
			kept, err := unmaskItem(path+"/"+key, key, old[key], item)
			if err != nil {
				return nil, err
			}
			value[key] = kept
		}
	case []any:
		return unmaskList(path, stored, value)
	case string:
		if !hasMaskedURL(value) {
			break
		}
		if old, ok := stored.(string); ok && isMaskedFrom(value, old) {
			return old, nil
		}
		return nil, node.Invalid("%s has %s in place of credentials of its URL. Give them again when the URL changes.", path, mask)
	}
	return changed, nil
}

// unmaskList returns the stored list when changed is the masked form of it that a client reads.
// Elements can change their places, so it refuses another list with masks.
func unmaskList(path string, stored any, changed []any) (any, error) {
	const key = "list"
	given, before := node.ObjectOf(map[string]any{key: changed}), node.ObjectOf(map[string]any{key: stored})
	if !bytes.Contains(given, []byte(mask)) {
		return changed, nil
	}
	for _, read := range []masking{maskSecrets, keepQueries, keepWritten} {
		if sameValue(given, appendMasked(nil, before, read)) {
			return stored, nil
		}
	}
	return nil, node.Invalid("%s has %s in place of a secret. Give the secrets themselves when the list changes.", path, mask)
}

func unmaskItem(path, key string, stored, changed any) (any, error) {
	if changed != mask {
		return unmask(path, stored, changed)
	}
	if !node.SecretKey([]byte(key)) && stored != mask { // an earlier version stored a mask
		return nil, node.Invalid("%s is %s, which stands for a stored secret, but that key holds none. Give the value itself.", path, mask)
	}
	if stored == nil {
		return nil, node.Invalid("%s is %s, which stands for a stored secret, but none is stored. Give the secret itself.", path, mask)
	}
	return stored, nil
}

// hasMaskedURL reports whether a text has a mask at a place where URLs are masked.
func hasMaskedURL(text string) bool {
	_, query, found := strings.Cut(text, "?")
	return strings.Contains(text, maskedUser) || found && strings.Contains(query, maskedValue)
}

// isMaskedFrom reports whether value is the stored text in the form that one of the roles reads.
func isMaskedFrom(value, stored string) bool {
	text := []byte(stored)
	return string(node.AppendMaskedUsers(nil, text)) == value || string(node.AppendMaskedURLs(nil, text)) == value
}
