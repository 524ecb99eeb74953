package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

func (a *api) listVendorMethods(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	methods, err := a.engine.VendorMethods(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("list vendor methods of node %s: %w", ident, err)
	}
	return answerValue(w, methodDocuments(methods))
}

func methodDocuments(methods map[string]node.VendorMethod) map[string]any {
	documents := make(map[string]any, len(methods))
	for name, method := range methods {
		documents[name] = map[string]any{
			"http_methods": method.HTTPMethods, "async": method.Async, "attach": method.Attach,
			"description": method.Description, "require_exclusive_lock": method.RequireExclusiveLock,
		}
	}
	return documents
}

// callVendor calls the method that the path or the argument method names.
func (a *api) callVendor(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	call, err := vendorCall(w, r)
	if err != nil {
		return err
	}
	answer, async, err := a.engine.CallVendor(r.Context(), ident, call)
	switch {
	case err != nil:
		return fmt.Errorf("call vendor method %s of node %s: %w", call.Method, ident, err)
	case async:
		acceptedAt(w, c, ident, "")
	default:
		if answer == nil {
			answer = []byte("null")
		}
		writeJSON(w, http.StatusOK, answer)
	}
	return nil
}

// vendorCall reads a call of a vendor method.
func vendorCall(w http.ResponseWriter, r *http.Request) (node.VendorCall, error) {
	name, err := vendorMethod(r)
	if err != nil {
		return node.VendorCall{}, err
	}
	raw, err := readBody(w, r, maxBody)
	if err != nil {
		return node.VendorCall{}, err
	}
	body, err := node.ParseObject(raw)
	if err != nil {
		return node.VendorCall{}, badRequest("The body of a vendor method must be a JSON object: %v", err)
	}
	return node.VendorCall{HTTPMethod: r.Method, Method: name, Body: body}, nil
}

// vendorMethod returns the method that a request names.
func vendorMethod(r *http.Request) (string, error) {
	name := r.PathValue("method")
	if name == "" {
		name = callOf(r).query.Get("method")
	}
	if strings.TrimSpace(name) == "" {
		return "", badRequest("The request needs the name of a vendor method.")
	}
	return name, nil
}

// listDriverMethods lists the vendor methods that need no node. Other vendor methods belong to the
// interfaces of nodes.
func (a *api) listDriverMethods(w http.ResponseWriter, r *http.Request) error {
	t, err := a.hardwareType(r)
	if err != nil {
		return err
	}
	return answerValue(w, methodDocuments(a.engine.DriverMethods(t.Name)))
}

func (a *api) callDriverVendor(w http.ResponseWriter, r *http.Request) error {
	t, err := a.hardwareType(r)
	if err != nil {
		return err
	}
	call, err := vendorCall(w, r)
	if err != nil {
		return err
	}
	answer, err := a.engine.CallDriver(r.Context(), t.Name, call)
	if err != nil {
		return fmt.Errorf("call vendor method %s of driver %s: %w", call.Method, t.Name, err)
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// showLogicalDiskProperties describes the keys of a logical disk in a RAID
// configuration.
func (a *api) showLogicalDiskProperties(w http.ResponseWriter, r *http.Request) error {
	t, err := a.hardwareType(r)
	if err != nil {
		return err
	}
	properties := a.drivers.LogicalDiskProperties(t.Name)
	if properties == nil {
		return &node.NotFoundError{Kind: "RAID of driver", Ident: t.Name}
	}
	return answerValue(w, properties)
}
