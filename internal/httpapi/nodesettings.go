package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// settingRequest is the body of PUT states/boot_mode and states/secure_boot.
type settingRequest struct {
	Target json.RawMessage `json:"target"`
}

func (a *api) setBootMode(w http.ResponseWriter, r *http.Request) error {
	return a.setSetting(w, r, func(ident string, target json.RawMessage) error {
		mode, err := readText(target, maxText)
		if err != nil || !slices.Contains(bootModes, mode) {
			return badRequest("The boot mode must be %s, got %s.", strings.Join(bootModes, " or "), node.CutText(string(target)))
		}
		return a.engine.SetBootMode(r.Context(), ident, mode)
	})
}

func (a *api) setSecureBoot(w http.ResponseWriter, r *http.Request) error {
	return a.setSetting(w, r, func(ident string, target json.RawMessage) error {
		on, err := readFlag(target)
		if err != nil || on == nil {
			return badRequest("Secure boot must be true or false, got %s.", node.CutText(string(target)))
		}
		return a.engine.SetSecureBoot(r.Context(), ident, *on)
	})
}

func (a *api) setSetting(w http.ResponseWriter, r *http.Request, set func(ident string, target json.RawMessage) error) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	var request settingRequest
	if err := decodeBody(w, r, maxBody, &request); err != nil {
		return err
	}
	if isNull(request.Target) {
		return badRequest("The request needs the key target.")
	}
	if err := set(ident, request.Target); err != nil {
		return fmt.Errorf("change settings of node %s: %w", ident, err)
	}
	acceptedAt(w, callOf(r), ident, "/states")
	return nil
}

// biosDetailSince is the microversion 1.N that introduced the data of the attribute
// registry and the arguments detail and fields.
const biosDetailSince = 74

func (a *api) listBIOS(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	if c.query.Has("detail") && c.version < biosDetailSince {
		return notAcceptable("Argument detail", biosDetailSince)
	}
	detail, err := boolArg(c.query, "detail", false)
	if err != nil {
		return err
	}
	if detail && c.query.Has("fields") {
		return badRequest("Arguments fields and detail cannot be combined.")
	}
	ident, settings, err := a.biosSettings(r)
	if err != nil {
		return err
	}
	documents := make([]map[string]any, 0, len(settings))
	for _, setting := range settings {
		document, err := pickFields(c, biosDetailSince, biosDocument(c, ident, setting, detail || c.query.Has("fields")))
		if err != nil {
			return err
		}
		documents = append(documents, document)
	}
	return answerValue(w, map[string]any{"bios": documents})
}

func (a *api) showBIOS(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	ident, settings, err := a.biosSettings(r)
	if err != nil {
		return err
	}
	name := r.PathValue("setting")
	for _, setting := range settings {
		if setting.Name == name {
			return answerValue(w, map[string]any{name: biosDocument(c, ident, setting, c.version >= biosDetailSince)})
		}
	}
	return &node.NotFoundError{Kind: "BIOS setting", Ident: node.CutText(name)}
}

// biosSettings returns the identifier and the settings of the node in the path.
func (a *api) biosSettings(r *http.Request) (string, []node.BIOSSetting, error) {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return "", nil, err
	}
	hardware, err := a.engine.Hardware(r.Context(), ident)
	if err != nil {
		return "", nil, fmt.Errorf("read BIOS settings of node %s: %w", ident, err)
	}
	return ident, hardware.BIOS, nil
}

func biosDocument(c *call, ident string, s node.BIOSSetting, detail bool) map[string]any {
	value := s.Value
	if s.AttributeType == "Password" && value != "" {
		value = mask
	}
	document := map[string]any{
		"name": s.Name, "value": value, "links": linksOf(c, "nodes/"+ident+"/bios/"+s.Name),
		"created_at": timeValue(s.CreatedAt), "updated_at": timeValue(s.UpdatedAt),
	}
	if !detail {
		return document
	}
	var kind any
	if s.AttributeType != "" {
		kind = s.AttributeType
	}
	for name, value := range map[string]any{
		"attribute_type": kind, "allowable_values": s.AllowableValues, "lower_bound": s.LowerBound, "upper_bound": s.UpperBound,
		"min_length": s.MinLength, "max_length": s.MaxLength, "read_only": s.ReadOnly, "reset_required": s.ResetRequired, "unique": s.Unique,
	} {
		document[name] = value
	}
	return document
}

// timeValue returns a time for documents that are marshalled from Go values.
func timeValue(t time.Time) json.RawMessage { return appendTime(nil, t) }

// firmwareSince is the microversion 1.N that introduced firmware components.
const firmwareSince = 86

// listFirmware shows all fields of each component, with or without detail.
func (a *api) listFirmware(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	detail, err := boolArg(c.query, "detail", false)
	if err != nil {
		return err
	}
	if detail && c.query.Has("fields") {
		return badRequest("Arguments fields and detail cannot be combined.")
	}
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	hardware, err := a.engine.Hardware(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("read firmware of node %s: %w", ident, err)
	}
	documents := make([]map[string]any, 0, len(hardware.Firmware))
	for _, component := range hardware.Firmware {
		var flashed any
		if component.LastVersionFlashed != "" {
			flashed = component.LastVersionFlashed
		}
		document, err := pickFields(c, firmwareSince, map[string]any{
			"component": component.Component, "initial_version": component.InitialVersion,
			"current_version": component.CurrentVersion, "last_version_flashed": flashed,
			"created_at": timeValue(component.CreatedAt), "updated_at": timeValue(component.UpdatedAt),
		})
		if err != nil {
			return err
		}
		documents = append(documents, document)
	}
	return answerValue(w, map[string]any{"firmware": documents})
}
