package httpapi

import (
	"bytes"
	"slices"

	"github.com/ingot-metal/ingot/internal/jsonscan"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/role"
)

// mask is shown to clients in place of a secret.
const mask = node.Mask

// isSecretFromOperators is node.SecretKey for roles that may not read driver_info. It also hides
// the keys that say where BMCs are and what machines boot.
func isSecretFromOperators(key []byte) bool {
	return string(key) == "lookup_bmc_addresses" || string(key) == node.RamdiskBootKey || string(key) == node.FirmwareFileKey || node.SecretKey(key)
}

// rescueKeys are keys of instance_info that the engine itself writes. They exist until the agent
// has the password.
var rescueKeys = []string{node.RescueHashKey, node.RescuePasswordKey}

// masking says which parts of an object are masked.
type masking struct {
	secret func(key []byte) bool // reports whether the value of a key is masked
	urls   func(dst, text []byte) []byte
}

// Maskings of the objects of the API.
var (
	maskSecrets = masking{isSecretFromOperators, node.AppendMaskedURLs}
	// keepQueries is for administrators. It keeps the queries of URLs, because clients compare the
	// URLs of images with those that they wrote.
	keepQueries = masking{node.SecretKey, node.AppendMaskedUsers}
	// keepWritten masks nothing that clients wrote.
	keepWritten = masking{
		func(key []byte) bool { return slices.Contains(rescueKeys, string(key)) },
		func(dst, text []byte) []byte { return append(dst, text...) },
	}
)

// maskingFor returns the masking of objects with secrets for a role.
func maskingFor(r role.Role) masking {
	if r >= admin {
		return keepQueries
	}
	return maskSecrets
}

// appendMasked appends an object with its secrets masked: the values of secret keys
// at any depth, and credentials in URLs. It works on the text and does not decode it.
func appendMasked(dst []byte, o node.Object, m masking) []byte {
	if len(o) == 0 {
		return append(dst, "{}"...)
	}
	for i := 0; i < len(o); {
		if o[i] != '"' {
			dst = append(dst, o[i])
			i++
			continue
		}
		end := jsonscan.StringEnd(o, i)
		text := o[i:end]
		i = end
		if i >= len(o) || o[i] != ':' {
			dst = appendMaskedText(dst, text, m)
			continue
		}
		dst = append(dst, text...)
		if m.secret(jsonscan.Unquote(text)) {
			end = jsonscan.ValueEnd(o, i+1)
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

// appendMaskedText appends a JSON string and masks credentials in the URLs in it.
func appendMaskedText(dst, quoted []byte, m masking) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		if bytes.IndexByte(quoted, '@') < 0 && bytes.IndexByte(quoted, '?') < 0 {
			return append(dst, quoted...)
		}
		return m.urls(dst, quoted)
	}
	plain := jsonscan.Unquote(quoted)
	if masked := m.urls(nil, plain); !bytes.Equal(masked, plain) {
		return appendString(dst, string(masked))
	}
	return append(dst, quoted...)
}
