package checksum

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// MaxFileSize bounds checksum files, in bytes. Those of large mirrors have some hundred
// kilobytes.
const MaxFileSize = 1 << 20

// FromFile finds the checksum of the image at a URL in a checksum file: the lines of GNU
// coreutils ("digits  name", "digits *name"), of BSD and of openssl ("SHA256 (name) =
// digits"), or nothing but a checksum. Comments, signatures and other lines are skipped.
//
// A line is for the image if its name is the last part of the URL's path, with or without
// folders before it. Of several algorithms the strongest is taken. It is an error if the
// file has two different checksums of that algorithm for the image.
func FromFile(file []byte, imageURL string) (Checksum, error) {
	if len(file) > MaxFileSize {
		return Checksum{}, fmt.Errorf("the checksum file has more than %d bytes", MaxFileSize)
	}
	name, err := imageName(imageURL)
	if err != nil {
		return Checksum{}, err
	}
	lines := contentLines(string(file))
	if len(lines) == 1 && len(strings.Fields(lines[0])) == 1 {
		return parseValue(lines[0])
	}
	var found []Checksum
	var refused error
	for _, line := range lines {
		l, ok := parseLine(line)
		if !ok || path.Base(l.name) != name {
			continue
		}
		sum, err := l.checksum()
		if err != nil {
			refused = err
			continue
		}
		found = append(found, sum)
	}
	switch {
	case len(found) > 0:
		return strongest(found, name)
	case refused != nil:
		return Checksum{}, fmt.Errorf("the checksum file has none for %q that can be used: %w", name, refused)
	default:
		return Checksum{}, fmt.Errorf("the checksum file has no line for %q", name)
	}
}

// imageName is the last part of a URL's path.
func imageName(imageURL string) (string, error) {
	u, err := url.Parse(imageURL)
	if err != nil {
		return "", errors.New("the image's URL is not valid") // its text may have credentials
	}
	name := path.Base(u.Path)
	if name == "." || name == "/" {
		return "", errors.New("the image's URL has no file name, which its checksum would be found by")
	}
	return name, nil
}

// contentLines returns the lines of a file that are neither empty nor comments.
func contentLines(file string) []string {
	var lines []string
	for line := range strings.Lines(strings.TrimPrefix(file, "\ufeff")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// line is a line that names a file.
type line struct {
	algorithm string // empty if only the number of digits tells it
	name      string
	value     string
}

// parseLine reads a line of either form.
func parseLine(text string) (line, bool) {
	if space := strings.IndexAny(text, " \t"); space > 0 && isHex(text[:space]) {
		name := strings.TrimLeft(text[space:], " \t")
		return line{name: strings.TrimPrefix(name, "*"), value: text[:space]}, true
	}
	algorithm, rest, ok := strings.Cut(text, "(")
	if !ok {
		return line{}, false
	}
	end := strings.LastIndex(rest, ")")
	if end < 0 {
		return line{}, false
	}
	value, ok := strings.CutPrefix(strings.TrimSpace(rest[end+1:]), "=")
	return line{algorithm: strings.TrimSpace(algorithm), name: rest[:end], value: strings.TrimSpace(value)}, ok
}

// isHex tells a checksum of any algorithm from words.
func isHex(text string) bool {
	return len(text) >= 32 && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

func (l line) checksum() (Checksum, error) {
	if l.algorithm == "" {
		return parseValue(l.value)
	}
	return New(l.algorithm, l.value)
}

// strongest returns the checksum of the strongest algorithm.
func strongest(sums []Checksum, name string) (Checksum, error) {
	rank := func(sum Checksum) int { return len(sum.Value) }
	best := slices.MaxFunc(sums, func(a, b Checksum) int { return rank(a) - rank(b) })
	for _, sum := range sums {
		if sum.Algorithm == best.Algorithm && sum != best {
			return Checksum{}, fmt.Errorf("the checksum file has different checksums of %s for %q", best.Algorithm, name)
		}
	}
	return best, nil
}
