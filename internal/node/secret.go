package node

import (
	"bytes"
	"slices"
)

// secretWords mark a key of an open object as secret when the key contains one of them. Keys are
// compared in lower case and without separators of words, because spellings vary: api_key, apiKey,
// X-Api-Key.
var secretWords = []string{
	"password", "passphrase", "passwd", "passcode", "passkey", "pwd", "secret", "token", "credential",
	"authorization", "authkey", "privkey", "privatekey", "kgkey", "apikey", "accesskey", "sshkey",
	"snmpcommunity", "configdrive", "userdata",
}

// secretLast mark a key as secret when the key ends with one of them, and not with one of its
// exceptions.
var secretLast = []struct {
	ending     string
	exceptions []string
}{
	{"key", []string{"publickey", "pubkey"}},
	{"pass", []string{"bypass"}},
}

// secretEndings has, by first letter, the rest of each secret word. It makes SecretKey fast, which
// looks at every key of every node in a list.
var secretEndings = func() (endings [256][]string) {
	for _, word := range secretWords {
		endings[word[0]] = append(endings[word[0]], word[1:])
	}
	return endings
}()

// SecretKey reports whether the value of a key of an open object is a secret, judged by the words
// in the key.
func SecretKey(key []byte) bool {
	lower := make([]byte, 0, 64) // stays on the stack for keys of usual length
	for _, c := range key {
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c == '_' || c == '-' || c == '.' || c == ' ':
			continue
		}
		lower = append(lower, c)
	}
	for _, last := range secretLast {
		if bytes.HasSuffix(lower, []byte(last.ending)) && !slices.ContainsFunc(last.exceptions, func(e string) bool { return bytes.HasSuffix(lower, []byte(e)) }) {
			return true
		}
	}
	for i, c := range lower {
		for _, ending := range secretEndings[c] {
			if rest := lower[i+1:]; len(rest) >= len(ending) && string(rest[:len(ending)]) == ending {
				return true
			}
		}
	}
	return false
}

// Secrets returns all secret texts in the open dictionaries of a node, that is, the strings below
// secret keys at any depth.
func Secrets(n *Node) []string {
	var secrets []string
	var walk func(value any, secret bool)
	walk = func(value any, secret bool) {
		switch v := value.(type) {
		case string:
			if secret && v != "" {
				secrets = append(secrets, v)
			}
		case []any:
			for _, one := range v {
				walk(one, secret)
			}
		case map[string]any:
			for key, one := range v {
				walk(one, secret || SecretKey([]byte(key)))
			}
		}
	}
	for _, o := range []Object{n.DriverInfo, n.InstanceInfo, n.DriverInternalInfo} {
		walk(o.Values(), false)
	}
	return secrets
}
