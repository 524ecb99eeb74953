package conversion

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// rule says how one kind is converted.
type rule struct{ up, down mapping }

// row is one difference between the versions: a value with another name, another form, or no place
// in the other version.
type row struct {
	v1beta1, v1beta2 field
	// up and down return the value in the form of the other version, or false if it has none there.
	// If they are nil, the value keeps its form.
	up, down func(any) (any, bool)
}

// rules has the rule of every kind. What no row names is the same in both versions.
var rules = map[string]rule{
	"Metal3Cluster": ruleOf(clusterSpec("spec"), conditionRows, []row{
		{v1beta1: "status.failureDomains", v1beta2: "status.failureDomains", up: domainList, down: domainMap},
	}),
	"Metal3ClusterTemplate": ruleOf(clusterSpec("spec.template.spec"), []row{
		{v1beta2: "spec.template.metadata"},
	}),
	"Metal3Machine": ruleOf(machineSpec("spec"), conditionRows, []row{
		{v1beta1: "status.renderedData", v1beta2: "status.renderedData", up: nameOnly, down: same},
		{v1beta1: "status.phase"},
		{v1beta2: "status.failureDomain"},
	}),
	"Metal3MachineTemplate": ruleOf(machineSpec("spec.template.spec"), []row{
		{v1beta2: "spec.template.metadata"},
		{v1beta2: "status"},
	}),
	"Metal3Remediation": ruleOf([]row{
		{v1beta1: "spec.strategy", v1beta2: "spec.strategy", up: timeoutSeconds, down: timeoutDuration},
		{v1beta2: "status.conditions"},
		{v1beta2: "status.releasedAt"},
	}),
	"Metal3RemediationTemplate": ruleOf([]row{
		{v1beta1: "spec.template.spec.strategy", v1beta2: "spec.template.spec.strategy", up: timeoutSeconds, down: timeoutDuration},
		{v1beta2: "status.status.conditions"},
		{v1beta2: "status.status.releasedAt"},
	}),
	"Metal3DataTemplate": ruleOf([]row{
		{v1beta1: "spec.templateReference"},
		{v1beta1: "spec.metaData.ipAddressesFromIPPool", v1beta2: "spec.metaData.ipAddressesFromPool"},
		{v1beta1: "spec.metaData.prefixesFromIPPool", v1beta2: "spec.metaData.prefixesFromPool"},
		{v1beta1: "spec.metaData.gatewaysFromIPPool", v1beta2: "spec.metaData.gatewaysFromPool"},
		{v1beta1: "spec.metaData.dnsServersFromIPPool", v1beta2: "spec.metaData.dnsServersFromPool"},
		{v1beta1: bondParameters, v1beta2: bondParameters, up: parameterList, down: parameterMap},
		{v1beta1: bridgeParameters, v1beta2: bridgeParameters, up: parameterList, down: parameterMap},
		{v1beta1: "status.indexes", v1beta2: "status.indexes", up: indexList, down: indexMap},
	}),
	"Metal3Data":      ruleOf([]row{{v1beta1: "spec.templateReference"}}),
	"Metal3DataClaim": ruleOf(),
}

const (
	bondParameters   field = "spec.networkData.links.bonds[].parameters"
	bridgeParameters field = "spec.networkData.links.bridges[].parameters"
)

// conditionRows are the rows for the status of the kinds that Cluster API waits for.
var conditionRows = []row{
	{v1beta1: "status.v1beta2.conditions", v1beta2: "status.conditions"},
	{v1beta1: "status.conditions", v1beta2: "status.deprecated.v1beta1.conditions"},
	{v1beta1: "status.failureReason", v1beta2: "status.deprecated.v1beta1.failureReason"},
	{v1beta1: "status.failureMessage", v1beta2: "status.deprecated.v1beta1.failureMessage"},
	{v1beta1: "status.ready", v1beta2: "status.initialization.provisioned"},
	{v1beta1: "status.v1beta2"},
	{v1beta2: "status.deprecated"},
	{v1beta2: "status.initialization"},
}

// clusterSpec returns the rows for the spec of a Metal3Cluster at the given path.
func clusterSpec(at field) []row {
	endpoint, domains := at+".controlPlaneEndpoint", at+".failureDomains"
	return []row{
		{v1beta1: endpoint, v1beta2: endpoint, up: unlessEmpty("host"), down: same},
		{v1beta1: domains, v1beta2: domains, up: domainList, down: domainMap},
		{v1beta1: at, v1beta2: at, up: withoutNoCloudProvider, down: withNoCloudProvider},
	}
}

// machineSpec returns the rows for the spec of a Metal3Machine at the given path.
func machineSpec(at field) []row {
	image, deploy, data := at+".image", at+".customDeploy", at+".dataTemplate"
	return []row{
		{v1beta1: image, v1beta2: image, up: imageUp, down: imageDown},
		{v1beta1: deploy, v1beta2: deploy, up: unlessEmpty("method"), down: same},
		{v1beta1: data, v1beta2: data, up: nameOnly, down: same},
	}
}

// ruleOf makes the two mappings from rows.
func ruleOf(lists ...[]row) rule {
	rows := slices.Concat(lists...)
	return rule{
		up:   func(content map[string]any) map[string]any { return apply(rows, content, row.upward) },
		down: func(content map[string]any) map[string]any { return apply(rows, content, row.downward) },
	}
}

// step is a row in one direction.
type step struct {
	from, to field
	convert  func(any) (any, bool)
}

func (r row) upward() step   { return step{r.v1beta1, r.v1beta2, r.up} }
func (r row) downward() step { return step{r.v1beta2, r.v1beta1, r.down} }

// apply returns the content with all rows applied in one direction. It takes all values that move
// from their places before it puts any of them into its new place, because conditions swap places.
func apply(rows []row, content map[string]any, direction func(row) step) map[string]any {
	content = clone(content)
	moved := map[field]any{}
	for _, r := range rows {
		s := direction(r)
		if s.from == "" {
			continue
		}
		s.from.each(content, false, func(parent map[string]any, key string) {
			value, there := parent[key]
			if !there {
				return
			}
			keep := s.to != ""
			if s.convert != nil {
				value, keep = s.convert(value)
			}
			delete(parent, key)
			switch {
			case keep && s.to == s.from:
				parent[key] = value
			case keep:
				moved[s.to] = value
			}
		})
	}
	for _, to := range slices.Sorted(maps.Keys(moved)) {
		to.each(content, true, func(parent map[string]any, key string) { parent[key] = moved[to] })
	}
	return content
}

// same keeps a value as it is.
func same(value any) (any, bool) { return value, true }

// unlessEmpty keeps an object unless the text under a key is empty. Clients written in Go send such
// objects if they are not set.
func unlessEmpty(key string) func(any) (any, bool) {
	return func(value any) (any, bool) {
		values, _ := value.(map[string]any)
		text, set := values[key].(string)
		return value, !set || text != ""
	}
}

// nameOnly keeps the name and the namespace of a reference.
func nameOnly(value any) (any, bool) {
	values, ok := value.(map[string]any)
	if !ok {
		return value, true
	}
	kept := map[string]any{}
	for _, key := range []string{"name", "namespace"} {
		if text, there := values[key]; there {
			kept[key] = text
		}
	}
	return kept, true
}

func imageUp(value any) (any, bool) {
	if _, keep := unlessEmpty("url")(value); !keep {
		return nil, false
	}
	return renamed(value, "format", "diskFormat"), true
}

func imageDown(value any) (any, bool) { return renamed(value, "diskFormat", "format"), true }

// renamed returns an object with another name for one of its keys.
func renamed(value any, from, to string) any {
	values, ok := value.(map[string]any)
	if !ok {
		return value
	}
	values = clone(values)
	if old, there := values[from]; there {
		delete(values, from)
		values[to] = old
	}
	return values
}

// withoutNoCloudProvider removes noCloudProvider, the older of two names of one setting.
func withoutNoCloudProvider(value any) (any, bool) {
	values, ok := value.(map[string]any)
	if !ok {
		return value, true
	}
	values = clone(values)
	no, there := values["noCloudProvider"].(bool)
	delete(values, "noCloudProvider")
	if _, set := values["cloudProviderEnabled"]; there && !set {
		values["cloudProviderEnabled"] = !no
	}
	return values, true
}

// withNoCloudProvider writes both names of the setting, because clients may know only the older
// one.
func withNoCloudProvider(value any) (any, bool) {
	values, ok := value.(map[string]any)
	if !ok {
		return value, true
	}
	values = clone(values)
	if enabled, set := values["cloudProviderEnabled"].(bool); set {
		values["noCloudProvider"] = !enabled
	}
	return values, true
}

// domainList turns failure domains by name into a list, sorted by name.
func domainList(value any) (any, bool) {
	domains, ok := value.(map[string]any)
	if !ok {
		return value, true
	}
	list := make([]any, 0, len(domains))
	for _, name := range slices.Sorted(maps.Keys(domains)) {
		domain, _ := domains[name].(map[string]any)
		domain = clone(domain)
		domain["name"] = name
		list = append(list, domain)
	}
	return list, true
}

func domainMap(value any) (any, bool) {
	return byKey(value, "name", func(domain map[string]any) any {
		domain = clone(domain)
		delete(domain, "name")
		return domain
	})
}

// byKey turns a list of objects into a map, by the text that each object has under a key.
func byKey(value any, key string, rest func(map[string]any) any) (any, bool) {
	list, ok := value.([]any)
	if !ok {
		return value, true
	}
	values := map[string]any{}
	for _, entry := range list {
		if entry, ok := entry.(map[string]any); ok {
			if name, ok := entry[key].(string); ok {
				values[name] = rest(entry)
			}
		}
	}
	return values, true
}

// parameterList turns parameters by name into a list, sorted by name.
func parameterList(value any) (any, bool) {
	parameters, ok := value.(map[string]any)
	if !ok {
		return value, true
	}
	list := make([]any, 0, len(parameters))
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		list = append(list, map[string]any{"name": name, "value": parameters[name]})
	}
	return list, true
}

func parameterMap(value any) (any, bool) {
	return byKey(value, "name", func(parameter map[string]any) any { return parameter["value"] })
}

// indexList turns indexes by name of their user into a list, sorted by index.
func indexList(value any) (any, bool) {
	indexes, ok := value.(map[string]any)
	if !ok {
		return value, true
	}
	list := make([]any, 0, len(indexes))
	for _, name := range slices.Sorted(maps.Keys(indexes)) {
		list = append(list, map[string]any{"name": name, "index": indexes[name]})
	}
	slices.SortStableFunc(list, func(a, b any) int { return cmp.Compare(indexOf(a), indexOf(b)) })
	return list, true
}

func indexOf(entry any) int64 {
	values, _ := entry.(map[string]any)
	index, _ := values["index"].(int64)
	return index
}

func indexMap(value any) (any, bool) {
	return byKey(value, "name", func(entry map[string]any) any { return entry["index"] })
}

// timeoutSeconds writes the timeout of a strategy as seconds, rounded up.
func timeoutSeconds(value any) (any, bool) {
	values, ok := value.(map[string]any)
	if !ok {
		return value, true
	}
	values = clone(values)
	text, _ := values["timeout"].(string)
	delete(values, "timeout")
	if timeout, err := time.ParseDuration(text); err == nil {
		values["timeoutSeconds"] = int64(min(math.Ceil(timeout.Seconds()), math.MaxInt32))
	}
	return values, true
}

// timeoutDuration writes the timeout of a strategy in Go's form of durations.
func timeoutDuration(value any) (any, bool) {
	values, ok := value.(map[string]any)
	if !ok {
		return value, true
	}
	values = clone(values)
	seconds, there := values["timeoutSeconds"].(int64)
	delete(values, "timeoutSeconds")
	if there {
		values["timeout"] = (time.Duration(seconds) * time.Second).String()
	}
	return values, true
}
