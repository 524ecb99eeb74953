//go:build fault

package fault_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// hostNames names the writes of a host's operator by what they change, and by the state of the
// host.
type hostNames struct {
	kube      client.Client // past the proxy
	namespace string
	prefix    string // of the names
}

func (n hostNames) name(r *http.Request) string {
	a, is := askedOf(r, "/namespaces/"+n.namespace+"/")
	if !is {
		return ""
	}
	return fmt.Sprintf("%s%s %s, host %s%s", n.prefix, a.verb, a.resource, n.state(r.Context()), changesIn(a.verb, a.body))
}

// state returns the provisioning state of the host, which is the only one in its namespace.
func (n hostNames) state(ctx context.Context) string {
	var hosts v1alpha1.BareMetalHostList
	if err := n.kube.List(ctx, &hosts, client.InNamespace(n.namespace)); err != nil || len(hosts.Items) == 0 {
		return "absent"
	}
	h := hosts.Items[0]
	if h.Status.Provisioning.State == "" {
		return "new"
	}
	return string(h.Status.Provisioning.State)
}

// asking is a record of a request in a patch.
type asking struct {
	Request  *string `json:"request"`
	Accepted *bool   `json:"accepted"`
}

// changesIn returns which of the decisive fields a patch writes.
func changesIn(verb string, body []byte) string {
	var patch struct {
		Status struct {
			Provisioning struct {
				State string  `json:"state"`
				ID    *string `json:"ID"`
			} `json:"provisioning"`
			OperationalStatus string          `json:"operationalStatus"`
			GoodCredentials   json.RawMessage `json:"goodCredentials"`
			Operation         asking          `json:"operation"`
			Updates           json.RawMessage `json:"updates"`
			PowerOffHolds     json.RawMessage `json:"powerOffHolds"`
		} `json:"status"`
		Metadata map[string]json.RawMessage `json:"metadata"`
		Spec     map[string]json.RawMessage `json:"spec"`
	}
	if verb != "patch" || json.Unmarshal(body, &patch) != nil {
		return ""
	}
	delete(patch.Metadata, "resourceVersion")
	delete(patch.Metadata, "uid")
	var changes []string
	if s := patch.Status.Provisioning; s.State != "" {
		changes = append(changes, "becomes "+s.State)
	}
	if patch.Status.Provisioning.ID != nil {
		changes = append(changes, "gets a node")
	}
	if s := patch.Status.OperationalStatus; s != "" {
		changes = append(changes, "is "+s)
	}
	if patch.Status.GoodCredentials != nil {
		changes = append(changes, "has good credentials")
	}
	changes = append(changes, patch.Status.Operation.change("")...)
	changes = append(changes, updatesIn(patch.Status.Updates)...)
	switch holds := string(patch.Status.PowerOffHolds); {
	case holds == "":
	case holds == "null":
		changes = append(changes, forgetsHold)
	case strings.Contains(holds, `"confirmedAt"`):
		changes = append(changes, confirmsHold)
	default:
		changes = append(changes, recordsHold)
	}
	for _, fields := range []map[string]json.RawMessage{patch.Metadata, patch.Spec} {
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			changes = append(changes, field+annotationsIn(field, fields[field]))
		}
	}
	if len(changes) == 0 {
		return ""
	}
	return ": " + strings.Join(changes, ", ")
}

// annotationsIn returns the names of the annotations that a patch of metadata writes, for the end
// of the name of the field.
func annotationsIn(field string, written json.RawMessage) (names string) {
	var annotations map[string]json.RawMessage
	if field != "annotations" || json.Unmarshal(written, &annotations) != nil {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		names += " " + key[strings.LastIndexByte(key, '/')+1:]
	}
	return names
}

// change returns what is asked for, or that it was accepted.
func (a asking) change(by string) []string {
	switch {
	case a.Request != nil && *a.Request != "":
		return []string{by + "asks " + *a.Request}
	case a.Accepted != nil && *a.Accepted:
		return []string{by + "accepted"}
	default:
		return nil
	}
}

// updatesIn returns what a patch writes about settings and firmware. In a host that is a record of
// several kinds; in HostFirmwareComponents it is the list of updates that have begun.
func updatesIn(written json.RawMessage) (changes []string) {
	var updates struct {
		Settings, Components struct{ Requested, Applied *int64 }
		Service              asking
	}
	if len(written) == 0 || json.Unmarshal(written, &updates) != nil {
		return nil
	}
	for _, o := range []struct {
		name string
		is   *int64
	}{
		{"settings requested", updates.Settings.Requested},
		{"settings applied", updates.Settings.Applied},
		{"firmware requested", updates.Components.Requested},
		{"firmware applied", updates.Components.Applied},
	} {
		if o.is != nil {
			changes = append(changes, o.name)
		}
	}
	return append(changes, updates.Service.change("live update: ")...)
}
