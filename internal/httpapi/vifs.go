package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/ingot-metal/ingot/internal/node"
)

const (
	vifsSince     = 28
	vifPlaceSince = 67 // port_uuid and portgroup_uuid
)

func (a *api) vifRoutes() []route {
	const all = "/v1/nodes/{ident}/vifs"
	return []route{
		{method: get, pattern: all, role: reader, since: vifsSince, handler: a.listVIFs},
		{method: post, pattern: all, role: operator, since: vifsSince, handler: a.attachVIF},
		{method: remove, pattern: all + "/{vif}", role: operator, since: vifsSince, handler: a.detachVIF},
	}
}

func (a *api) listVIFs(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	ids, err := a.engine.VIFs(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("list VIFs of node %s: %w", ident, err)
	}
	return answer(w, http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"vifs":[`...)
		for i, id := range ids {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(append(dst, `{"id":`...), id), '}')
		}
		return append(dst, "]}"...)
	})
}

func (a *api) attachVIF(w http.ResponseWriter, r *http.Request) error {
	request, err := readVIF(w, r)
	if err != nil {
		return err
	}
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	if err := a.engine.AttachVIF(r.Context(), ident, request); err != nil {
		return fmt.Errorf("attach VIF %s to node %s: %w", request.ID, ident, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// readVIF reads a VIF. It ignores unknown keys, which are for network services.
func readVIF(w http.ResponseWriter, r *http.Request) (request node.VIFRequest, err error) {
	var values map[string]json.RawMessage
	if err := decodeBody(w, r, maxBody, &values); err != nil {
		return request, err
	}
	for _, key := range []struct {
		name  string
		since int
		into  *string
		uuid  bool
	}{
		{"id", vifsSince, &request.ID, false},
		{"port_uuid", vifPlaceSince, &request.PortUUID, true},
		{"portgroup_uuid", vifPlaceSince, &request.PortgroupUUID, true},
	} {
		raw, ok := values[key.name]
		if ok && versionOf(r) < key.since {
			return request, notAcceptable("The key "+key.name+" of a VIF", key.since)
		}
		if *key.into, err = readText(raw, maxText); err != nil {
			return request, invalidField(key.name, err)
		}
		if key.uuid && *key.into != "" && !isUUID(*key.into) {
			return request, badRequest("Invalid value for %q: want a UUID, got %q", key.name, *key.into)
		}
	}
	switch {
	case request.ID == "":
		return request, badRequest("A VIF needs an id.")
	case request.PortUUID != "" && request.PortgroupUUID != "":
		return request, badRequest("A VIF can be attached to a port or to a port group, not to both.")
	}
	return request, nil
}

func (a *api) detachVIF(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	if err := a.engine.DetachVIF(r.Context(), ident, r.PathValue("vif")); err != nil {
		return fmt.Errorf("detach VIF from node %s: %w", ident, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
