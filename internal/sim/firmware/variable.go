package firmware

import (
	"encoding/hex"
	"net/url"
	"strings"
)

// maxExpanded is the length in bytes at which a word with nested variables is not expanded further.
const maxExpanded = 64 << 10

// settings returns the variables that scripts can read, by name.
func (id Identity) settings() map[string]string {
	platform := "pcbios"
	if id.UEFI {
		platform = "efi"
	}
	settings := map[string]string{
		"uuid": id.UUID, "buildarch": id.Architecture, "platform": platform, "hostname": id.Hostname,
		"serial": id.Serial, "manufacturer": id.Manufacturer, "product": id.Product,
	}
	if id.Architecture == "aarch64" {
		settings["buildarch"] = "arm64"
	}
	for _, prefix := range []string{"", "net0/", "netX/"} { // the only interface is the one that boots
		settings[prefix+"mac"], settings[prefix+"ip"] = id.MAC, id.Address
	}
	return settings
}

// expand replaces ${name} and ${name:type}, the innermost first.
func (r *run) expand(word string) string {
	for len(word) < maxExpanded {
		end := strings.IndexByte(word, '}')
		if end < 0 {
			break
		}
		begin := strings.LastIndex(word[:end], "${")
		if begin < 0 {
			break
		}
		word = word[:begin] + r.value(word[begin+2:end]) + word[end+1:]
	}
	return word
}

// value returns the value of a variable in a format; "" if the variable is not set.
func (r *run) value(name string) string {
	name, format, _ := strings.Cut(name, ":")
	value := r.settings[name]
	if value == "" {
		return ""
	}
	convert, ok := formats[format]
	if !ok {
		return value
	}
	return convert(value)
}

// formats are the types of settings. The type decides how a value is printed.
var formats = map[string]func(string) string{
	"hex":       func(v string) string { return digits(v, ":") },
	"hexhyp":    func(v string) string { return digits(v, "-") },
	"hexraw":    func(v string) string { return digits(v, "") },
	"uristring": url.QueryEscape,
}

// digits prints the bytes of a MAC address, of a UUID or of text as hexadecimal digits.
func digits(value, separator string) string {
	raw, err := hex.DecodeString(strings.NewReplacer(":", "", "-", "").Replace(value))
	if err != nil {
		raw = []byte(value)
	}
	pairs := make([]string, len(raw))
	for i, b := range raw {
		pairs[i] = hex.EncodeToString([]byte{b})
	}
	return strings.Join(pairs, separator)
}
