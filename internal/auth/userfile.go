package auth

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// maxFile is the largest size of a file of users, in bytes. An htpasswd file of that size has about
// 15,000 users.
const maxFile = 1 << 20

// userFile is a kind of file that has a line for each user: the name, a colon and a
// value.
type userFile[T any] struct {
	form   string // of a line, "user:hash"
	advice string // about a file without users
	value  func(text string) (T, error)
}

// read returns the value of every user of a file. An error has the number of the line but not its
// text, because that may be a password.
func (f userFile[T]) read(path string) (map[string]T, error) {
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
	users, err := f.parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return users, nil
}

// parse ignores empty lines and lines that begin with #. A file without users is an error: it locks
// everybody out, and most likely it is not completely written.
func (f userFile[T]) parse(content []byte) (map[string]T, error) {
	users := map[string]T{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxFile+1)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimRight(lines.Text(), " \t\r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		user, value, err := f.parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if _, twice := users[user]; twice {
			return nil, fmt.Errorf("line %d: the user is on an earlier line, too", number)
		}
		users[user] = value
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(users) == 0 {
		return nil, errors.New("the file has no user: " + f.advice)
	}
	return users, nil
}

func (f userFile[T]) parseLine(line string) (user string, value T, err error) {
	user, text, ok := strings.Cut(line, ":")
	switch {
	case !ok || user == "":
		return "", value, errors.New("want " + f.form)
	case !utf8.ValidString(user):
		return "", value, errors.New("the user name is not UTF-8")
	}
	value, err = f.value(text)
	return user, value, err
}
