package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// writeFields writes the fields of a kind of resource in the newest version. since is
// the microversion 1.N that introduced the kind.
func writeFields[T any](page *strings.Builder, title string, t *table[T], filters []filter, since int) {
	fmt.Fprintf(page, "\n### %s\n\n| Field | Since | Create | Patch | Sort | Short list | Filter since | Role |\n|---|---|---|---|---|---|---|---|\n", title)
	mark := func(ok bool) string {
		if ok {
			return "yes"
		}
		return ""
	}
	for _, f := range t.fields {
		if f.since > maxVersion {
			continue
		}
		change := mark(f.access == patchable)
		switch {
		case f.lateOperations:
			change = "yes; before, by any operation but the first"
		case f.access == patchable && f.clearSince > 0:
			change = fmt.Sprintf("yes; removed since %s", versionText[f.clearSince])
		case f.append == nil && f.instead != "":
			change = fmt.Sprintf("never shown; in place of `%s`", f.instead)
		case f.append == nil:
			change = "never shown"
		}
		filtered := ""
		for _, own := range filters {
			if own.name == f.name && own.since <= maxVersion {
				filtered = versionText[max(own.since, since)]
			}
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", f.name, versionText[max(f.since, since, minVersion)],
			mark(f.access != readOnly), change, mark(!f.noSort && f.append != nil), mark(f.brief), filtered, roleText(f.role))
	}
	writeOtherFilters(page, t, filters, since)
}

// writeOtherFilters lists the filters that are not fields.
func writeOtherFilters[T any](page *strings.Builder, t *table[T], filters []filter, since int) {
	var others []string
	for _, f := range filters {
		if t.byName[f.name] == nil && f.since <= maxVersion {
			others = append(others, fmt.Sprintf("`%s` (%s)", f.name, versionText[max(f.since, since)]))
		}
	}
	if len(others) > 0 {
		fmt.Fprintf(page, "\nFilters that are not fields: %s.\n", strings.Join(others, ", "))
	}
}

func writeCollectionFields[T any](page *strings.Builder, title string, s *collection[T]) {
	if s.since <= maxVersion {
		writeFields(page, title, s.table, s.filters, s.since)
	}
}

func writeAllFields(page *strings.Builder) {
	a := &api{}
	writeFields(page, "Fields of a node", nodeTable, nodeFilters, minVersion)
	writeFields(page, "Fields of a port", portTable, portFilters, minVersion)
	writeCollectionFields(page, "Fields of a port group", a.portgroups())
	writeCollectionFields(page, "Fields of a chassis", a.chassis())
	writeCollectionFields(page, "Fields of an allocation", a.allocations())
	writeCollectionFields(page, "Fields of a deploy template", a.deployTemplates())
	writeCollectionFields(page, "Fields of a runbook", a.runbooks())
	writeCollectionFields(page, "Fields of a volume connector", a.volumeConnectors())
	writeCollectionFields(page, "Fields of a volume target", a.volumeTargets())
}

// writeVerbs writes the provision verbs and the states that accept them. A state in
// which a conductor works accepts none, because the node is locked.
func writeVerbs(page *strings.Builder) {
	page.WriteString("| `target` | Since | From | To | then |\n|---|---|---|---|---|\n")
	for _, verb := range node.Verbs() {
		if verb.Since > maxVersion {
			continue
		}
		type end struct{ to, target node.State }
		var ends []end
		from := map[end][]string{}
		for _, t := range node.Transitions() {
			if t.On != verb.On || t.From.Class() == node.Working || hiddenAbort(t) {
				continue
			}
			e := end{t.To, t.Target}
			if from[e] == nil {
				ends = append(ends, e)
			}
			from[e] = append(from[e], stateText(t))
		}
		for _, e := range ends {
			fmt.Fprintf(page, "| `%s` | %s | %s | %s | %s |\n", verb.Name, versionText[verb.Since], strings.Join(from[e], ", "), e.to, e.target)
		}
	}
}

func hiddenAbort(t node.Transition) bool {
	return t.On == node.OnAbort && t.From == node.DeployWait && abortDeploymentSince > maxVersion
}

// stateText returns a state, with the microversion in which the verb became possible
// there when it is newer than the verb.
func stateText(t node.Transition) string {
	switch {
	case t.On == node.OnAbort && t.From == node.InspectWait:
		return fmt.Sprintf("%s (1.%d)", t.From, abortInspectionSince)
	case t.On == node.OnAbort && t.From == node.DeployWait:
		return fmt.Sprintf("%s (1.%d)", t.From, abortDeploymentSince)
	}
	return string(t.From)
}

func writeVerbKeys(page *strings.Builder) {
	page.WriteString("| Key | Since | Verbs |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(provisionKeys)) {
		key := provisionKeys[name]
		var targets []string
		for _, target := range key.targets {
			if verb, ok := node.VerbNamed(target); ok && verb.Since <= maxVersion {
				targets = append(targets, "`"+target+"`")
			}
		}
		if key.since <= maxVersion && len(targets) > 0 {
			fmt.Fprintf(page, "| `%s` | %s | %s |\n", name, versionText[key.since], strings.Join(targets, ", "))
		}
	}
}

func writePowerTargets(page *strings.Builder) {
	page.WriteString("| `target` | Since |\n|---|---|\n")
	for _, state := range slices.Sorted(maps.Keys(powerTargets)) {
		fmt.Fprintf(page, "| `%s` | %s |\n", state, versionText[powerTargets[state]])
	}
}

// errorBody returns the body of an error.
func errorBody(form errorForm) string {
	return string((&apiError{status: http.StatusNotFound, form: form, message: "Node n could not be found."}).body())
}
