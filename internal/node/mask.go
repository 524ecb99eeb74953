package node

import (
	"bytes"
	"slices"
	"strings"
)

// Mask stands for a secret that is not shown.
const Mask = "******"

// MaskURLs masks what may be a credential in the URLs of a text for people, as [AppendMaskedURLs]
// does.
func MaskURLs(text string) string {
	if !strings.Contains(text, "://") && !strings.Contains(text, "?") && !strings.Contains(text, bootPath) {
		return text
	}
	return string(AppendMaskedURLs(nil, []byte(text)))
}

// AppendMaskedURLs appends text with the secrets of each URL masked: the user information, the
// values of the query, and the secrets in paths of the boot service. It also masks a query or such
// a path that stands without the rest of its URL, because libraries report
// "url: /image?signature=…". Masking twice gives the same as masking once.
func AppendMaskedURLs(dst, text []byte) []byte {
	start := len(dst)
	dst = appendMaskedParts(dst, text)
	return append(dst[:start], maskBootSecrets(dst[start:])...)
}

// maskBootSecrets masks, in place, the secrets in paths of the boot service, see
// [RamdiskBoot.Path].
func maskBootSecrets(text []byte) []byte {
	for at := 0; ; {
		next := bytes.Index(text[at:], []byte(bootPath))
		if next < 0 {
			return text
		}
		at += next + len(bootPath)
		if secret, ok := bootSecretAt(text[at:]); ok {
			text = slices.Replace(text, at+secret, at+secret+2*secretBytes, []byte(Mask)...)
		}
	}
}

// bootSecretAt returns where the secret begins in a text that starts with the UUID of a node.
func bootSecretAt(text []byte) (at int, ok bool) {
	const uuid = 36
	if len(text) < uuid+1+2*secretBytes || text[uuid] != '/' {
		return 0, false
	}
	for _, c := range text[uuid+1 : uuid+1+2*secretBytes] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return 0, false
		}
	}
	return uuid + 1, true
}

func appendMaskedParts(dst, text []byte) []byte {
	for {
		scheme, query := bytes.Index(text, []byte("://")), bytes.IndexByte(text, '?')
		switch {
		case scheme >= 0 && (query < 0 || scheme < query):
			dst, text = appendMaskedUser(dst, text, scheme+len("://"))
		case query >= 0:
			dst, text = appendMaskedQuery(dst, text, query+1)
		default:
			return append(dst, text...)
		}
	}
}

// AppendMaskedUsers appends text and masks the user information of each URL in it.
func AppendMaskedUsers(dst, text []byte) []byte {
	for {
		scheme := bytes.Index(text, []byte("://"))
		if scheme < 0 {
			return append(dst, text...)
		}
		dst, text = appendMaskedUser(dst, text, scheme+len("://"))
	}
}

// appendMaskedUser appends text up to the authority of a URL, which begins at start, and the mask
// in place of the user information. User information ends with "@" (RFC 3986, section 3.2) and may
// contain commas, so in a list of hosts all text before the last "@" is masked. It returns the rest
// of text.
func appendMaskedUser(dst, text []byte, start int) (masked, rest []byte) {
	dst, rest = append(dst, text[:start]...), text[start:]
	authority := rest[:endOf(rest, `/?#"<>`)]
	if at := bytes.LastIndexByte(authority, '@'); at >= 0 {
		return append(dst, Mask...), rest[at:]
	}
	return dst, rest
}

// appendMaskedQuery appends text up to a query, which begins at start, and the query with its
// values masked. It returns the rest of text. A comma does not end a query, because signatures may
// contain one.
func appendMaskedQuery(dst, text []byte, start int) (masked, rest []byte) {
	dst, rest = append(dst, text[:start]...), text[start:]
	query := rest[:endOf(rest, `"<>`)]
	rest = rest[len(query):]
	for len(query) > 0 {
		end := bytes.IndexAny(query, "&#") + 1
		if end == 0 {
			end = len(query)
		}
		parameter := query[:end]
		query = query[end:]
		name := bytes.IndexByte(parameter, '=') + 1
		value := bytes.TrimRight(parameter[name:], "&#")
		if name == 0 || len(value) == 0 {
			dst = append(dst, parameter...)
			continue
		}
		dst = append(append(dst, parameter[:name]...), Mask...)
		dst = append(dst, parameter[name+len(value):]...)
	}
	return dst, rest
}

// endOf returns the index of the first space, control character or character of ends in
// text, else its length.
func endOf(text []byte, ends string) int {
	for i, c := range text {
		if c <= ' ' || c == 0x7f || strings.IndexByte(ends, c) >= 0 {
			return i
		}
	}
	return len(text)
}
