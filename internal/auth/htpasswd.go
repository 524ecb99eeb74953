package auth

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// bcryptHash matches a bcrypt hash, the only accepted kind, with any of the three
// prefixes of that algorithm. The first group is the cost.
var bcryptHash = regexp.MustCompile(`^\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}$`)

// Bounds of the bcrypt cost. Each step doubles the time of a comparison; cost 15 takes
// some seconds.
const (
	minCost = 4
	maxCost = 15
)

// maxFile is the largest size of an htpasswd file, in bytes; that is about 15,000
// users.
const maxFile = 1 << 20

// readHtpasswd returns the bcrypt hash of every user of a file. An error has the number
// of the line but not its text, which may be a password.
func readHtpasswd(path string) (map[string]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	users, err := parseHtpasswd(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return users, nil
}

// parseHtpasswd reads lines of the form user:hash. It ignores empty lines and lines
// that begin with #.
func parseHtpasswd(content []byte) (map[string]string, error) {
	users := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxFile+1)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimRight(lines.Text(), " \t\r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		user, hash, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if _, twice := users[user]; twice {
			return nil, fmt.Errorf("line %d: the user is on an earlier line, too", number)
		}
		users[user] = hash
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(users) == 0 {
		return nil, errors.New("the file has no user: add one with htpasswd -B")
	}
	return users, nil
}

func parseLine(line string) (user, hash string, err error) {
	user, hash, ok := strings.Cut(line, ":")
	switch {
	case !ok || user == "":
		return "", "", errors.New("want user:hash")
	case !utf8.ValidString(user):
		return "", "", errors.New("the user name is not UTF-8")
	}
	parts := bcryptHash.FindStringSubmatch(hash)
	if parts == nil {
		return "", "", errors.New("want a bcrypt hash ($2y$, $2b$ or $2a$): make the line with htpasswd -B")
	}
	if cost, err := strconv.Atoi(parts[1]); err != nil || cost < minCost || cost > maxCost {
		return "", "", fmt.Errorf("want a bcrypt cost from %d to %d", minCost, maxCost)
	}
	return user, hash, nil
}
