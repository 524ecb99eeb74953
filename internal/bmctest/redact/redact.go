// Package redact replaces data that identify a machine, its owner or its users in the documents of
// a Redfish service: credentials and names of users, serial numbers, UUIDs, MAC and IP addresses,
// hosts, URLs, certificates, and the location of the machine.
//
// A value is recognized by the name of its property (keys.go) or by its form (forms.go) in any
// document. It is replaced wherever it is in any other document, also in paths and names of
// properties. The same value always gets the same replacement, which has the same form. So links
// still lead to the same documents, and equal values stay equal. Replacements cannot be traced
// back, because they depend on a key that nobody keeps.
//
// Values that mean "no value", such as "N/A", stay. Short texts occur in others by chance: texts of
// fewer than four bytes are replaced in their own property only, and texts of fewer than eight
// bytes only where they are a word. In names of properties, words without a digit stay. Names of
// users without a digit, dot or at sign are replaced in their own property only. Such names of
// hosts and places are also replaced where they are a whole value, and from eight bytes on where
// they are a word.
package redact

import (
	"encoding/json"
	"strings"
)

// Document is what a service has at a path. The body has the form in which encoding/json decodes
// with UseNumber; nil means that there is none.
type Document struct {
	Path    string
	Headers map[string]string
	Body    any
}

// Known has the secrets that are known before the documents are read. Each may be empty.
type Known struct {
	User, Password string
	Host           string // of the service, without a port
	// Key determines the replacements. It should be random.
	Key []byte
}

// Documents returns copies of documents without data that identify anything.
func Documents(documents []Document, known Known) []Document {
	s := &secrets{key: known.Key, replaced: map[string]string{}, used: map[string]bool{}, finder: newFinder(), versions: map[string]bool{}, words: map[string]bool{}}
	s.addWord(credential, known.Password)
	s.addWord(name, known.User)
	s.addWord(host, known.Host)
	for _, d := range documents { // versions first: they can be told from addresses only when all are known
		s.noteVersions("", d.Body)
	}
	for _, d := range documents {
		s.collect("", d.Body)
		s.forms(d.Path)
		for _, value := range d.Headers {
			s.forms(value)
		}
	}
	s.finder.sort()
	out := make([]Document, len(documents))
	for i, d := range documents {
		out[i] = Document{Path: s.text(d.Path), Body: s.rewrite("", d.Body)}
		if d.Headers != nil {
			out[i].Headers = map[string]string{}
		}
		for name, value := range d.Headers {
			if strings.EqualFold(name, "ETag") {
				out[i].Headers[name] = s.tag(value)
				continue
			}
			out[i].Headers[name] = s.text(value)
		}
	}
	return out
}

// noteVersions remembers versions that look like addresses.
func (s *secrets) noteVersions(property string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			s.noteVersions(name, inner)
		}
	case []any:
		for _, inner := range value {
			s.noteVersions(property, inner)
		}
	case string:
		if isVersion(property) {
			for _, found := range ipv4.FindAllString(value, -1) {
				s.versions[found] = true
			}
		}
	}
}

// collect finds the secrets in a document.
func (s *secrets) collect(property string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			s.forms(name)
			s.collect(name, inner)
		}
	case []any:
		for _, inner := range value {
			s.collect(property, inner)
		}
	case string:
		if class := classOf(property); class != open {
			s.add(class, value)
		}
		if !isVersion(property) {
			s.forms(value)
		}
	case json.Number:
		if classOf(property) == identity {
			s.add(identity, value.String())
		}
	}
}

// rewrite returns a document with the replacements.
func (s *secrets) rewrite(property string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, inner := range value {
			out[s.finder.replaceNamed(name)] = s.rewrite(name, inner)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, inner := range value {
			out[i] = s.rewrite(property, inner)
		}
		return out
	case string:
		if replaced, ok := s.own(classOf(property), value); ok {
			return replaced
		}
		if property == "@odata.type" {
			return s.finder.replaceNamed(value)
		}
		return s.text(value)
	case json.Number:
		if replaced, ok := s.own(classOf(property), value.String()); ok && classOf(property) == identity {
			return json.Number(replaced)
		}
	}
	return value
}

// root begins the paths of a service (DSP0266). It is not changed.
const root = "/redfish/v1"

// text replaces the secrets in a text or a path.
func (s *secrets) text(value string) string {
	if rest, ok := strings.CutPrefix(value, root); ok {
		return root + s.finder.replace(rest)
	}
	if replaced, ok := s.own(open, value); ok {
		return replaced
	}
	if strings.Contains(value, pemBegin) {
		return "(left out: PEM)"
	}
	value = links.ReplaceAllStringFunc(value, s.link)
	return s.finder.replace(value)
}

// tag replaces an entity tag, because it may be computed from the original document.
func (s *secrets) tag(value string) string {
	begin := strings.Index(value, `"`) + 1 // behind W/, if it is weak
	return value[:begin] + s.once("tag "+value, func(random []byte) string { return like(lower(value[begin:]), random) })
}
