package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
)

// maintenanceRequest is the body of PUT maintenance. It is optional.
type maintenanceRequest struct {
	Reason *string `json:"reason"` // for people; null means ""
}

func (a *api) startMaintenance(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	var request maintenanceRequest
	if len(bytes.TrimSpace(body)) > 0 {
		if err := decode(body, &request); err != nil {
			return err
		}
	}
	reason := ""
	if request.Reason != nil {
		reason = *request.Reason
	}
	if len(reason) > maxReason {
		return badRequest("The reason must have at most %d bytes, got %d.", maxReason, len(reason))
	}
	return a.setMaintenance(w, r, ident, true, reason)
}

func (a *api) endMaintenance(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	return a.setMaintenance(w, r, ident, false, "")
}

func (a *api) setMaintenance(w http.ResponseWriter, r *http.Request, ident string, on bool, reason string) error {
	if err := a.engine.SetMaintenance(r.Context(), ident, on, reason); err != nil {
		return fmt.Errorf("set maintenance of node %s: %w", ident, err)
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}
