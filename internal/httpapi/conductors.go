package httpapi

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

var conductorListArgs = slices.Clone(pageArgs)

func (a *api) listConductors(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	detail, err := boolArg(c.query, "detail", false)
	if err != nil {
		return err
	}
	if detail && c.query.Has("fields") {
		return badRequest("Arguments fields and detail cannot be combined.")
	}
	conductors, err := a.engine.Conductors(r.Context())
	if err != nil {
		return fmt.Errorf("list conductors: %w", err)
	}
	conductors, limit, err := conductorPage(c, conductors)
	if err != nil {
		return err
	}
	documents := []map[string]any{}
	for _, conductor := range conductors {
		document, err := pickFields(c, conductorSince, conductorDocument(c, conductor))
		if err != nil {
			return err
		}
		if !detail && !c.query.Has("fields") {
			delete(document, "drivers")
		}
		documents = append(documents, document)
	}
	list := map[string]any{"conductors": documents}
	if len(documents) == limit {
		query := maps.Clone(c.query)
		query.Set("marker", conductors[limit-1].Hostname)
		next := c.base + "/v1/conductors?" + query.Encode()
		links := []link{{Href: next, Rel: "next"}}
		// Some clients read the key in the plural, others in the singular.
		list["next"], list["conductors_links"], list["conductor_links"] = next, links, links
	}
	return answerValue(w, list)
}

// conductorPage returns the requested page of conductors, ordered by host name, and
// the length of a full page. The marker of this list is a host name.
func conductorPage(c *call, conductors []node.Conductor) ([]node.Conductor, int, error) {
	limit, desc, err := pageOrder(c)
	if err != nil {
		return nil, 0, err
	}
	if key := c.query.Get("sort_key"); key != "" && key != "hostname" && key != "id" {
		return nil, 0, badRequest("A list of conductors cannot be sorted by %q.", key)
	}
	conductors = slices.Clone(conductors)
	slices.SortFunc(conductors, func(a, b node.Conductor) int { return cmp.Compare(a.Hostname, b.Hostname) })
	if desc {
		slices.Reverse(conductors)
	}
	if marker := c.query.Get("marker"); marker != "" {
		i := slices.IndexFunc(conductors, func(conductor node.Conductor) bool { return conductor.Hostname == marker })
		if i < 0 {
			return nil, 0, &node.NotFoundError{Kind: "Conductor", Ident: node.CutText(marker)}
		}
		conductors = conductors[i+1:]
	}
	return conductors[:min(limit, len(conductors))], limit, nil
}

func (a *api) showConductor(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	conductors, err := a.engine.Conductors(r.Context())
	if err != nil {
		return fmt.Errorf("list conductors: %w", err)
	}
	hostname := r.PathValue("hostname")
	for _, conductor := range conductors {
		if conductor.Hostname != hostname {
			continue
		}
		document, err := pickFields(c, conductorSince, conductorDocument(c, conductor))
		if err != nil {
			return err
		}
		return answerValue(w, document)
	}
	return &node.NotFoundError{Kind: "Conductor", Ident: node.CutText(hostname)}
}

func conductorDocument(c *call, conductor node.Conductor) map[string]any {
	return map[string]any{
		"hostname": conductor.Hostname, "conductor_group": conductor.Group, "alive": conductor.Alive,
		"drivers": conductor.Drivers, "links": linksOf(c, "conductors/"+conductor.Hostname),
		"created_at": timeValue(conductor.CreatedAt), "updated_at": timeValue(conductor.UpdatedAt),
	}
}
