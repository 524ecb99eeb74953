package httpapi

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// mask is what clients see in place of a secret.
const mask = "******"

// secretWords mark a key of an open object as secret when they stand anywhere
// in it, in lower case.
var secretWords = [][]byte{
	[]byte("password"), []byte("passphrase"), []byte("secret"), []byte("token"), []byte("credential"),
	[]byte("authorization"), []byte("auth_key"), []byte("priv_key"), []byte("private_key"), []byte("kg_key"),
	[]byte("configdrive"),
}

func isSecretKey(key []byte) bool {
	lower := make([]byte, 0, 64) // stays on the stack for keys of usual length
	for _, c := range key {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower = append(lower, c)
	}
	for _, word := range secretWords {
		if bytes.Contains(lower, word) {
			return true
		}
	}
	return false
}

// appendMasked appends an object with its secrets masked: values of secret keys
// at any depth, and passwords inside URLs. It works on the text, without
// decoding it.
func appendMasked(dst []byte, o node.Object) []byte {
	if len(o) == 0 {
		return append(dst, "{}"...)
	}
	for i := 0; i < len(o); {
		if o[i] != '"' {
			dst = append(dst, o[i])
			i++
			continue
		}
		end := stringEnd(o, i)
		text := o[i:end]
		i = end
		if i >= len(o) || o[i] != ':' {
			dst = appendMaskedURL(dst, text)
			continue
		}
		dst = append(dst, text...)
		if isSecretKey(plainString(text)) {
			end = valueEnd(o, i+1)
			if value := o[i+1 : end]; string(value) == "null" || string(value) == `""` {
				dst = append(append(dst, ':'), value...)
			} else {
				dst = append(dst, `:"`+mask+`"`...)
			}
			i = end
		}
	}
	return dst
}

// stringEnd returns the index behind the JSON string that begins at i.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// valueEnd returns the index behind the JSON value that begins at i.
func valueEnd(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			i = stringEnd(text, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth < 0 {
				return i // the end of a number, boolean or null
			}
			if depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// plainString returns what a JSON string says.
func plainString(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return nil
	}
	return []byte(text)
}

// maskedUser is where the user information of a URL was.
const maskedUser = "://" + mask + "@"

// appendMaskedURL appends a JSON string, with the user information masked when
// it is a URL that has some.
func appendMaskedURL(dst, quoted []byte) []byte {
	scheme := bytes.Index(quoted, []byte("://"))
	if scheme < 0 {
		return append(dst, quoted...)
	}
	host := quoted[scheme+3:]
	if slash := bytes.IndexAny(host, `/?#\`); slash >= 0 {
		host = host[:slash]
	}
	at := bytes.LastIndexByte(host, '@')
	if at < 0 {
		return append(dst, quoted...)
	}
	dst = append(dst, quoted[:scheme+3]...)
	dst = append(dst, mask...)
	return append(dst, quoted[scheme+3+at:]...)
}

// keepMasked puts the stored secrets back where changed has their mask, which
// is what a client does that writes back what it read. A mask without a stored
// secret is a *node.ValidationError.
func keepMasked(field string, stored, changed node.Object) (node.Object, error) {
	if !bytes.Contains(changed, []byte(mask)) {
		return changed, nil
	}
	values, err := unmask(field, stored.Values(), changed.Values())
	if err != nil {
		return nil, err
	}
	return node.ObjectOf(values.(map[string]any)), nil
}

// unmask returns changed with every masked string replaced by what stored has
// in the same place.
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
	if changed != mask || !isSecretKey([]byte(key)) {
		return unmask(path, stored, changed)
	}
	if stored == nil {
		return nil, node.Invalid("%s is %s, which stands for a stored secret, but none is stored. Give the secret itself.", path, mask)
	}
	return stored, nil
}

// maskedText is what clients see of a string value.
func maskedText(text string) string {
	return string(plainString(appendMaskedURL(nil, appendString(nil, text))))
}
