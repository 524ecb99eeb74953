package httpapi

import (
	"bytes"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// maskedUser is the masked user information in a URL.
const maskedUser = "://" + mask + "@"

// restoreMasked replaces masks in changed by the stored secrets. A client sends masks
// when it writes back what it read. A mask without a stored secret is a
// *node.ValidationError.
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

// unmask returns changed with every mask replaced by the value at the same place in
// stored.
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
		old, _ := stored.([]any)
		for i, item := range value {
			var before any
			if i < len(old) {
				before = old[i]
			}
			kept, err := unmask(path, before, item)
			if err != nil {
				return nil, err
			}
			value[i] = kept
		}
	case string:
		if !strings.Contains(value, maskedUser) {
			break
		}
		if old, ok := stored.(string); ok && maskedText(old) == value {
			return old, nil
		}
		return nil, node.Invalid("%s has %s in place of the user and password of its URL. Give them again when the URL changes.", path, mask)
	}
	return changed, nil
}

func unmaskItem(path, key string, stored, changed any) (any, error) {
	if changed != mask {
		return unmask(path, stored, changed)
	}
	if !isSecretKey([]byte(key)) && stored != mask { // an earlier version stored it
		return nil, node.Invalid("%s is %s, which stands for a stored secret, but that key holds none. Give the value itself.", path, mask)
	}
	if stored == nil {
		return nil, node.Invalid("%s is %s, which stands for a stored secret, but none is stored. Give the secret itself.", path, mask)
	}
	return stored, nil
}

// maskedText returns a string value as clients see it.
func maskedText(text string) string {
	return string(plainString(appendMaskedURL(nil, appendString(nil, text))))
}
