package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/ingot-metal/ingot/internal/node"
)

// traitsSince is the microversion 1.N that introduced traits.
const traitsSince = 37

func (a *api) traitRoutes() []route {
	// Older requests get the statuses that Ironic gives them: 406 to GET, 405 to PUT
	// and 404 to DELETE.
	const all, one = "/v1/nodes/{ident}/traits", "/v1/nodes/{ident}/traits/{trait}"
	return []route{
		{method: get, pattern: all, role: reader, since: traitsSince, below: http.StatusNotAcceptable, handler: a.listTraits},
		{method: put, pattern: all, role: operator, since: traitsSince, below: http.StatusMethodNotAllowed, handler: a.setTraits},
		{method: remove, pattern: all, role: operator, since: traitsSince, handler: a.clearTraits},
		{method: put, pattern: one, role: operator, since: traitsSince, below: http.StatusMethodNotAllowed, handler: a.addTrait},
		{method: remove, pattern: one, role: operator, since: traitsSince, handler: a.removeTrait},
	}
}

func (a *api) listTraits(w http.ResponseWriter, r *http.Request) error {
	n, err := a.pathNode(r)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, func(dst []byte) []byte {
		return append(appendWords(append(dst, `{"traits":`...), n.Traits), '}')
	})
}

// setTraits replaces the traits of a node.
func (a *api) setTraits(w http.ResponseWriter, r *http.Request) error {
	var request struct {
		Traits json.RawMessage `json:"traits"` // an array of strings; required
	}
	if err := decodeBody(w, r, maxBody, &request); err != nil {
		return err
	}
	if isNull(request.Traits) {
		return badRequest("The request needs the key traits with an array of strings.")
	}
	traits, err := readWords(request.Traits, node.CheckTrait)
	if err != nil {
		return invalidField("traits", err)
	}
	return a.changeTraits(w, r, func(ident string) error { return a.engine.SetTraits(r.Context(), ident, node.WordsOf(traits...)) })
}

func (a *api) clearTraits(w http.ResponseWriter, r *http.Request) error {
	return a.changeTraits(w, r, func(ident string) error { return a.engine.SetTraits(r.Context(), ident, "") })
}

func (a *api) addTrait(w http.ResponseWriter, r *http.Request) error {
	trait := r.PathValue("trait")
	if err := node.CheckTrait(trait); err != nil {
		return err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	if len(body) > 0 && string(body) != "{}" && string(body) != "null" {
		return badRequest("A request with a trait in its path takes no body; PUT an array to .../traits to replace all traits.")
	}
	return a.changeTraits(w, r, func(ident string) error {
		w.Header().Set("Location", callOf(r).base+"/v1/nodes/"+ident+"/traits/"+trait)
		return a.engine.AddTrait(r.Context(), ident, trait)
	})
}

func (a *api) removeTrait(w http.ResponseWriter, r *http.Request) error {
	return a.changeTraits(w, r, func(ident string) error {
		return a.engine.RemoveTrait(r.Context(), ident, r.PathValue("trait"))
	})
}

func (a *api) changeTraits(w http.ResponseWriter, r *http.Request, change func(ident string) error) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	if err := change(ident); err != nil {
		return fmt.Errorf("change traits of node %s: %w", ident, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
