package cli

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// printable escapes characters that a terminal would not simply show: control characters (also C1,
// one of which starts escape sequences), characters that change the direction of text, line
// separators, and bytes that are not UTF-8.
func printable(text string) string {
	if !strings.ContainsFunc(text, active) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case !active(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError:
			writeReplaced(&b, text[i:])
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// writeReplaced writes the first rune of text, which is either a genuine replacement character or a
// byte that is not UTF-8.
func writeReplaced(b *strings.Builder, text string) {
	if _, size := utf8.DecodeRuneInString(text); size > 1 {
		b.WriteRune(utf8.RuneError)
		return
	}
	fmt.Fprintf(b, `\x%02x`, text[0])
}

// active reports whether a terminal acts on r, or cannot show it.
func active(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || r == utf8.RuneError
}

// safeJSON escapes characters in a JSON text that a terminal acts on but that the encoder leaves
// alone. Outside of strings, the only such characters are line breaks, which stay.
func safeJSON(text []byte) []byte {
	return escaped(text, func(r rune) string {
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	})
}

// A key of more than longKey bytes may have more than the 1,024 characters that YAML allows without
// a question mark (section 7.4.2).
const longKey = 1000

// safeYAML is safeJSON for readers of YAML, which accept no surrogates (YAML 1.2.2, section 5.7)
// and no long keys. The text must be indented, so that each key begins a line.
func safeYAML(text []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(escaped(text, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })) {
		begin := len(line) - len(bytes.TrimLeft(line, " "))
		if end := keyEnd(line, begin); end-begin > longKey {
			b.Write(line[:begin])
			b.WriteString("? ")
			line = line[begin:]
		}
		b.Write(line)
	}
	return b.Bytes()
}

// keyEnd returns the index behind the key that begins at index begin of a line of JSON. It returns
// begin if no key begins there.
func keyEnd(line []byte, begin int) int {
	if !bytes.HasPrefix(line[begin:], []byte{'"'}) {
		return begin
	}
	for i := begin + 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			if i+1 < len(line) && line[i+1] == ':' {
				return i + 1
			}
			return begin
		}
	}
	return begin
}

// escaped escapes active characters and those that YAML does not allow. The function long escapes
// characters beyond 16 bits.
func escaped(text []byte, long func(rune) string) []byte {
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case r == '\n' || r == utf8.RuneError || !active(r) && r != 0xfffe && r != 0xffff:
			b.WriteRune(r)
		case r > 0xffff:
			b.WriteString(long(r))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return []byte(b.String())
}
