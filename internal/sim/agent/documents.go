package agent

import "net/http"

const docsURL = "https://docs.openstack.org/ironic-python-agent/"

// link is one hyperlink of a document.
type link struct {
	HREF string `json:"href"`
	Rel  string `json:"rel"`
	Type string `json:"type,omitempty"`
}

// versionDocument describes version 1 of the API.
type versionDocument struct {
	ID    string `json:"id"`
	Links []link `json:"links"`
}

func rootURL(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

func version1Of(r *http.Request) versionDocument {
	return versionDocument{ID: "v1", Links: []link{
		{HREF: rootURL(r) + "/v1", Rel: "self"},
		{HREF: docsURL, Rel: "describedby", Type: "text/html"},
	}}
}

func (a *Agent) root(r *http.Request) (any, *fault) {
	v := version1Of(r)
	return struct {
		Name           string            `json:"name"`
		Description    string            `json:"description"`
		Versions       []versionDocument `json:"versions"`
		DefaultVersion versionDocument   `json:"default_version"`
	}{
		"OpenStack Ironic Python Agent API", "Ironic Python Agent is a provisioning agent for OpenStack Ironic",
		[]versionDocument{v},
		v,
	}, nil
}

func (a *Agent) version1(r *http.Request) (any, *fault) {
	resource := func(name string) []link {
		return []link{
			{HREF: rootURL(r) + "/v1/" + name, Rel: "self"},
			{HREF: rootURL(r) + "/" + name, Rel: "bookmark"},
		}
	}
	return struct {
		versionDocument
		Commands   []link              `json:"commands"`
		Status     []link              `json:"status"`
		MediaTypes []map[string]string `json:"media_types"`
	}{
		version1Of(r), resource("commands"), resource("status"),
		[]map[string]string{{"base": "application/json", "type": "application/vnd.openstack.ironic-python-agent.v1+json"}},
	}, nil
}

func (a *Agent) status(*http.Request) (any, *fault) {
	return struct {
		StartedAt float64 `json:"started_at"` // Unix time in seconds
		Version   string  `json:"version"`
	}{float64(a.started.UnixMicro()) / 1e6, a.version}, nil
}
