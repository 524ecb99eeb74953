package httpapi

import (
	"encoding/json"
	"net/http"
)

// link is one hypertext link of an answer.
type link struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
	Type string `json:"type,omitempty"`
}

// versionDocument describes the only major version of the API.
type versionDocument struct {
	ID         string `json:"id"`
	Status     string `json:"status"`
	MinVersion string `json:"min_version"`
	Version    string `json:"version"`
	Links      []link `json:"links"`
}

func newVersionDocument(base string) versionDocument {
	return versionDocument{
		ID: "v1", Status: "CURRENT", MinVersion: versionText[minVersion], Version: versionText[maxVersion],
		Links: []link{{Href: base + "/v1/", Rel: "self"}},
	}
}

// showRoot answers GET /. Agents and clients read the range of versions there. Scripts look for the
// value of name.
func (a *api) showRoot(w http.ResponseWriter, r *http.Request) error {
	document := newVersionDocument(callOf(r).base)
	return answerValue(w, map[string]any{
		"name":            "OpenStack Ironic API",
		"description":     "Ingot serves the Bare Metal API: it enrols, inspects and provisions bare-metal machines.",
		"default_version": document,
		"versions":        []versionDocument{document},
	})
}

// rootResources are the resources in the answer to GET /v1, by which clients detect features.
var rootResources = []struct {
	name  string
	since int
}{
	{"chassis", 1},
	{"nodes", 1},
	{"ports", 1},
	{"drivers", 1},
	{"lookup", 22},
	{"heartbeat", 22},
	{"portgroups", 23},
	{"volume", 32},
	{"conductors", 49},
	{"allocations", 52},
	{"events", 54},
	{"deploy_templates", 55},
	{"shards", 82},
	{"continue_inspection", 84},
	{"runbooks", 92},
}

// showVersion answers GET /v1.
func (a *api) showVersion(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	document := map[string]any{
		"id":      "v1",
		"version": newVersionDocument(c.base),
		"links": []link{
			{Href: c.base + "/v1/", Rel: "self"},
			{Href: "https://docs.openstack.org/api-ref/baremetal/", Rel: "describedby", Type: "text/html"},
		},
		"media_types": []map[string]string{{
			"base": "application/json", "type": "application/vnd.openstack.ironic.v1+json",
		}},
	}
	for _, res := range rootResources {
		if c.version >= res.since {
			document[res.name] = []link{
				{Href: c.base + "/v1/" + res.name + "/", Rel: "self"},
				{Href: c.base + "/" + res.name + "/", Rel: "bookmark"},
			}
		}
	}
	return answerValue(w, document)
}

// showHealth answers GET /healthcheck for probes.
func (a *api) showHealth(w http.ResponseWriter, r *http.Request) error {
	if err := a.engine.Ready(r.Context()); err != nil {
		return &apiError{status: http.StatusServiceUnavailable, message: "The engine is not ready.", cause: err}
	}
	return answerValue(w, map[string]string{"status": "ok"})
}

// answerValue marshals and sends a small document.
func answerValue(w http.ResponseWriter, document any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}
