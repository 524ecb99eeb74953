package cloudinit

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// missing is what cloud-init writes before the name of a variable that does not exist.
const missing = "CI_MISSING_JINJA_VAR/"

var (
	expression = regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}`)
	comment    = regexp.MustCompile(`(?s)\{#.*?#\}`)
	statement  = regexp.MustCompile(`\{%.*?%\}`)
	// access is a variable and the keys that follow it: ds.meta_data['local-hostname'].
	access = regexp.MustCompile(`^\w+(\.\w+|\[\s*'[^']*'\s*\]|\[\s*"[^"]*"\s*\])*$`)
	key    = regexp.MustCompile(`\w[^.\[\]'"]*`)
)

// variables returns what templates can read: the metadata of the data source under ds.meta_data,
// and the keys that all data sources have, under v1 and at the top.
func variables(metaData MetaData) map[string]any {
	source := map[string]any{}
	maps.Copy(source, metaData)
	common := map[string]any{"platform": "openstack", "cloud_name": "openstack"}
	if name := metaData.Hostname(); name != "" {
		source["local-hostname"], common["local_hostname"] = name, name
	}
	if id, ok := metaData["uuid"]; ok {
		source["instance-id"], common["instance_id"] = id, id
	}
	all := map[string]any{"ds": map[string]any{"meta_data": source}, "v1": common}
	maps.Copy(all, common)
	return all
}

// render fills in the expressions in a template. It refuses expressions that do more than read a
// variable, and statements.
func render(text string, variables map[string]any) (string, error) {
	text = comment.ReplaceAllString(text, "")
	if found := statement.FindString(text); found != "" {
		return "", fmt.Errorf("the statement %s is not supported here", found)
	}
	var failure error
	text = expression.ReplaceAllStringFunc(text, func(found string) string {
		name := expression.FindStringSubmatch(found)[1]
		if !access.MatchString(name) {
			failure = fmt.Errorf("the expression %s is not supported here, only variables are", found)
			return found
		}
		return value(name, variables)
	})
	return text, failure
}

// value returns the text of a variable.
func value(name string, variables map[string]any) string {
	var at any = variables
	for _, k := range key.FindAllString(name, -1) {
		object, _ := at.(map[string]any)
		next, ok := object[k]
		if !ok { // keys with a hyphen have an alias that can follow a dot
			next, ok = aliased(object, k)
		}
		if !ok {
			return missing + name
		}
		at = next
	}
	switch v := at.(type) {
	case string:
		return v
	case nil:
		return "None"
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case json.Number:
		return v.String()
	default:
		text, err := json.Marshal(v)
		if err != nil {
			return missing + name
		}
		return string(text)
	}
}

func aliased(object map[string]any, alias string) (any, bool) {
	for k, v := range object {
		if strings.ReplaceAll(k, "-", "_") == alias {
			return v, true
		}
	}
	return nil, false
}
