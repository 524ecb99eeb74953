package httpapi

import (
	"fmt"
	"net/http"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Microversions 1.N that introduced arguments of the driver list.
const (
	dynamicDriversSince = 30 // type, detail and all fields of interfaces
	driverFieldsSince   = 77
)

func (a *api) listDrivers(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	for _, name := range []string{"type", "detail"} {
		if c.query.Has(name) && c.version < dynamicDriversSince {
			return notAcceptable("Argument "+name, dynamicDriversSince)
		}
	}
	detail, err := boolArg(c.query, "detail", false)
	if err != nil {
		return err
	}
	if detail && c.query.Has("fields") {
		return badRequest("Arguments fields and detail cannot be combined.")
	}
	kind := c.query.Get("type")
	if kind != "" && kind != "classic" && kind != "dynamic" {
		return badRequest("Invalid value for argument type: want classic or dynamic, got %q", kind)
	}
	hosts, err := a.hostnames(r)
	if err != nil {
		return err
	}
	documents := []map[string]any{}
	if kind != "classic" && len(hosts) > 0 {
		for _, name := range a.drivers.Names() {
			t, _ := a.drivers.Type(name)
			document, err := pickFields(c, driverFieldsSince, driverDocument(c, t, hosts, detail || c.query.Has("fields")))
			if err != nil {
				return err
			}
			documents = append(documents, document)
		}
	}
	return answerValue(w, map[string]any{"drivers": documents})
}

func (a *api) showDriver(w http.ResponseWriter, r *http.Request) error {
	t, err := a.hardwareType(r)
	if err != nil {
		return err
	}
	hosts, err := a.hostnames(r)
	if err != nil {
		return err
	}
	c := callOf(r)
	document, err := pickFields(c, driverFieldsSince, driverDocument(c, t, hosts, true))
	if err != nil {
		return err
	}
	return answerValue(w, document)
}

func (a *api) showDriverProperties(w http.ResponseWriter, r *http.Request) error {
	t, err := a.hardwareType(r)
	if err != nil {
		return err
	}
	return answerValue(w, a.drivers.Properties(t.Name))
}

func (a *api) hardwareType(r *http.Request) (driver.Type, error) {
	name := r.PathValue("name")
	t, ok := a.drivers.Type(name)
	if !ok {
		return t, &node.NotFoundError{Kind: "Driver", Ident: node.CutText(name)}
	}
	return t, nil
}

// hostnames returns the hosts of the conductors that are alive, which serve the drivers. The driver
// list is empty while there are none.
func (a *api) hostnames(r *http.Request) ([]string, error) {
	conductors, err := a.engine.Conductors(r.Context())
	if err != nil {
		return nil, fmt.Errorf("list conductors: %w", err)
	}
	hosts := []string{}
	for _, conductor := range conductors {
		if conductor.Alive {
			hosts = append(hosts, conductor.Hostname)
		}
	}
	return hosts, nil
}

func driverDocument(c *call, t driver.Type, hosts []string, detail bool) map[string]any {
	path := "drivers/" + t.Name
	document := map[string]any{
		"name": t.Name, "hosts": hosts, "links": linksOf(c, path),
	}
	if c.version >= 14 {
		document["properties"] = linksOf(c, path+"/properties")
	}
	if c.version < dynamicDriversSince {
		return document
	}
	document["type"] = "dynamic"
	for kind := range node.InterfaceCount {
		if c.version < interfaceSince[kind] {
			continue
		}
		var enabled, chosen any
		if detail {
			enabled, chosen = t.Enabled[kind], t.Default[kind]
		}
		document["default_"+kind.Field()] = chosen
		document["enabled_"+kind.Field()+"s"] = enabled
	}
	return document
}

func linksOf(c *call, path string) []link {
	return []link{
		{Href: c.base + "/v1/" + path, Rel: "self"},
		{Href: c.base + "/" + path, Rel: "bookmark"},
	}
}

// pickFields returns the fields of a document that the argument fields selects.
func pickFields(c *call, since int, document map[string]any) (map[string]any, error) {
	if !c.query.Has("fields") {
		return document, nil
	}
	if c.version < since {
		return nil, notAcceptable("Argument fields", since)
	}
	names := listArg(c.query, "fields")
	if len(names) == 0 {
		return document, nil
	}
	picked := make(map[string]any, len(names))
	for _, name := range names {
		value, ok := document[name]
		if !ok {
			return nil, badRequest("Unknown field %q.", name)
		}
		picked[name] = value
	}
	return picked, nil
}
