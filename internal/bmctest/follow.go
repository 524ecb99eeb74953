package bmctest

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// exclusion is a kind of resource that is not read.
type exclusion struct {
	part  string // part of a segment of the path, in lower case
	whole bool   // the part is the whole segment
	why   string
}

// exclusions are the resources that tell much about a machine's users but nothing that a driver
// needs.
var exclusions = []exclusion{
	{"account", false, "user accounts"},
	{"sessions", true, "sessions of users"},
	{"logservice", false, "log entries"},
	{"logs", true, "log entries"},
	{"certificate", false, "certificates"},
	{"securebootdatabases", true, "certificates"},
	{"license", false, "license keys"},
	{"keys", true, "keys"},
	{"sshkeys", true, "keys"},
	{"keyservice", true, "keys"},
	{"subscriptions", true, "receivers of events"},
	{"telemetryservice", true, "measurements"},
	{"jobs", true, "jobs, which are a log"},
	{"dellattributes", true, "settings of the BMC with accounts and addresses"},
	{"attributes", true, "settings of the BMC with accounts and addresses"},
}

// excludedTypes are types of resources that are not recorded, whatever their paths.
var excludedTypes = map[string]string{
	"ManagerAccount": "user accounts", "AccountService": "user accounts", "Session": "sessions of users", "LogEntry": "log entries", "LogEntryCollection": "log entries",
	"Certificate": "certificates", "License": "license keys", "Key": "keys", "EventDestination": "receivers of events",
}

// excluded returns why a path is not read, empty if it is.
func excluded(path string) string {
	bare, _, _ := strings.Cut(path, "?")
	for segment := range strings.SplitSeq(strings.ToLower(bare), "/") {
		for _, e := range exclusions {
			if segment == e.part || !e.whole && strings.Contains(segment, e.part) {
				return e.why
			}
		}
	}
	return ""
}

// excludedType returns why a document is not recorded, empty if it is.
func excludedType(body any) string {
	document, _ := body.(map[string]any)
	kind, _ := document["@odata.type"].(string)
	kind, _, _ = strings.Cut(strings.TrimPrefix(kind, "#"), ".")
	return excludedTypes[kind]
}

// linksOf returns the paths that a document links to, in the order of the names of their
// properties.
func linksOf(value any) []string {
	var all []string
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if text, ok := value[name].(string); ok {
				if path := pathOf(name, text); path != "" {
					all = append(all, path)
				}
				continue
			}
			all = append(all, linksOf(value[name])...)
		}
	case []any:
		for _, inner := range value {
			all = append(all, linksOf(inner)...)
		}
	}
	return all
}

// pathOf returns the path in a property that is a link, empty for any other property.
func pathOf(property, text string) string {
	isLink := property == "@odata.id" || property == "Uri" || strings.HasSuffix(property, "@odata.nextLink") || strings.HasSuffix(property, "@Redfish.ActionInfo")
	if !isLink || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Host != "" || strings.Contains(u.Path, "..") {
		return ""
	}
	u.Fragment = "" // the fragment is a part of the document
	return u.RequestURI()
}

// sameResource returns a path that is the same for all forms of a resource's path. Services differ
// in whether a path ends with a slash.
func sameResource(path string) string { return strings.TrimRight(path, "/") }
