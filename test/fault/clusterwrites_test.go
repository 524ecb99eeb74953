//go:build fault

package fault_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// clusterNames names the writes of a cluster's operator by what they change, in which fields.
type clusterNames struct {
	// prefix comes before the resource in paths.
	prefix string
	// title is the prefix of the names; it may be empty.
	title string
	// client and server reach the API server past the proxy.
	client *http.Client
	server string
}

// thereTitle is the prefix of the names of writes by the operator to which a cluster has moved.
const thereTitle = "there: "

// managementNames names the writes in a namespace of a management cluster.
func managementNames(t *testing.T, config *rest.Config, namespace, title string) clusterNames {
	t.Helper()
	return newClusterNames(t, config, "/namespaces/"+namespace+"/", title)
}

// workloadNames names the writes of Nodes in a workload cluster.
func workloadNames(t *testing.T, config *rest.Config, title string) clusterNames {
	t.Helper()
	return newClusterNames(t, config, "/api/v1/", title+"workload cluster: ")
}

func newClusterNames(t *testing.T, config *rest.Config, prefix, title string) clusterNames {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return clusterNames{prefix: prefix, title: title, client: client, server: config.Host}
}

// ingotAgent is how the operator introduces itself to workload clusters.
const ingotAgent = "ingot-operator"

// ofIngot is name for a proxy that other clients use, too.
func (n clusterNames) ofIngot(r *http.Request) string {
	if !strings.HasPrefix(r.UserAgent(), ingotAgent) {
		return ""
	}
	return n.name(r)
}

// name returns what a request writes, as "VERB RESOURCE[/SUBRESOURCE]: FIELDS".
func (n clusterNames) name(r *http.Request) string {
	a, is := askedOf(r, n.prefix)
	if !is {
		return ""
	}
	name := n.title + a.verb + " " + a.resource
	if a.verb != "patch" {
		return name
	}
	if a.resource == "baremetalhosts/status" { // named by what happens to the machine
		return name + changesIn(a.verb, a.body)
	}
	var patch map[string]any
	if json.Unmarshal(a.body, &patch) != nil {
		return name
	}
	fields := fieldsOf(patch, "", 0)
	if i := slices.Index(fields, conditionsField); i >= 0 {
		fields[i] += n.changedCondition(r, patch)
	}
	return name + ": " + strings.Join(fields, ", ")
}

const (
	// conditionsField is a field that every write of a condition writes completely.
	conditionsField = "status.conditions"
	// nameDepth is how deep names tell fields apart.
	nameDepth = 2
)

// unnamedFields are fields that nearly every patch has.
var unnamedFields = []string{"metadata.resourceVersion", "metadata.uid", "status.lastUpdated"}

// uids matches the UIDs in the keys of some annotations.
var uids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// fieldsOf returns the fields that a patch changes, sorted. It marks those that the patch removes.
func fieldsOf(patch map[string]any, path string, depth int) (fields []string) {
	for key, value := range patch {
		field := strings.TrimPrefix(path+"."+key, ".")
		below, more := value.(map[string]any)
		switch {
		case slices.Contains(unnamedFields, field):
		case more && (field == "metadata.annotations" || field == "metadata.labels"):
			fields = append(fields, fieldsOf(below, key, nameDepth)...)
		case more && depth+1 < nameDepth:
			fields = append(fields, fieldsOf(below, field, depth+1)...)
		case value == nil:
			fields = append(fields, "-"+uids.ReplaceAllString(field, "UID"))
		default:
			fields = append(fields, uids.ReplaceAllString(field, "UID"))
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// condition is the part of a condition by which names differ.
type condition struct{ Type, Status, Reason string }

// withConditions is an object with conditions.
type withConditions struct {
	Status struct{ Conditions []condition }
}

// changedCondition returns the type and the status of the condition that a patch changes. It
// returns "" if the patch does not change exactly one condition.
func (n clusterNames) changedCondition(r *http.Request, patch map[string]any) string {
	var next, now withConditions
	body, err := json.Marshal(patch)
	if err != nil || json.Unmarshal(body, &next) != nil || n.read(r.Context(), strings.TrimSuffix(r.URL.Path, "/status"), &now) != nil {
		return ""
	}
	var changed []condition
	for _, c := range next.Status.Conditions {
		if !slices.Contains(now.Status.Conditions, c) {
			changed = append(changed, c)
		}
	}
	if len(changed) != 1 {
		return ""
	}
	return fmt.Sprintf("[%s=%s]", changed[0].Type, changed[0].Status)
}

// read reads an object.
func (n clusterNames) read(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.server+path, nil)
	if err != nil {
		return err
	}
	answer, err := n.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return json.NewDecoder(answer.Body).Decode(into)
}
