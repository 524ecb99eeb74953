package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// Allowed values of a medium.
var (
	mediumTypes   = []string{"cdrom", "disk", "floppy"}
	mediumSchemes = []string{"http", "https", "nfs", "cifs"}
	mediumSources = []string{"http", "local", "swift"}
)

// maxImageURL is the longest URL of an image, in bytes.
const maxImageURL = 4096

// attachMedium answers 204 when the request is accepted. Whether the machine gets the
// medium shows in the node later.
func (a *api) attachMedium(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	var medium node.Medium
	if err := decodeBody(w, r, maxBody, &medium); err != nil {
		return err
	}
	image, err := url.Parse(medium.ImageURL)
	switch {
	case !slices.Contains(mediumTypes, medium.DeviceType):
		return badRequest("The device_type must be one of %s, got %q.", node.Choices(mediumTypes), node.CutText(medium.DeviceType))
	case medium.ImageURL == "":
		return badRequest("The request needs the key image_url.")
	case err != nil || len(medium.ImageURL) > maxImageURL || image.Host == "" || !slices.Contains(mediumSchemes, image.Scheme):
		return badRequest("The image_url must be a URL of at most %d bytes with one of the schemes %s.", maxImageURL, node.Choices(mediumSchemes))
	case medium.Source != "" && !slices.Contains(mediumSources, medium.Source):
		return badRequest("The image_download_source must be one of %s, got %q.", node.Choices(mediumSources), node.CutText(medium.Source))
	}
	if err := a.engine.AttachMedium(r.Context(), ident, medium); err != nil {
		return fmt.Errorf("attach a medium to node %s: %w", ident, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *api) detachMedia(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	asked, err := readMediaTypes(w, r)
	if err != nil {
		return err
	}
	types := commaLists(append(asked, callOf(r).query["device_types"]...))
	for _, name := range types {
		if !slices.Contains(mediumTypes, name) {
			return badRequest("Each of the device_types must be one of %s, got %q.", node.Choices(mediumTypes), node.CutText(name))
		}
	}
	if err := a.engine.DetachMedia(r.Context(), ident, types); err != nil {
		return fmt.Errorf("detach media of node %s: %w", ident, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// readMediaTypes reads the device types in the body of a request. The body is optional:
// openstacksdk sends the types there, and baremetal sends them in the query.
func readMediaTypes(w http.ResponseWriter, r *http.Request) ([]string, error) {
	body, err := readBody(w, r, maxBody)
	if err != nil || len(body) == 0 {
		return nil, err
	}
	var request struct {
		DeviceTypes json.RawMessage `json:"device_types"`
	}
	if err := decode(body, &request); err != nil {
		return nil, err
	}
	var text string
	var types []string
	switch {
	case len(request.DeviceTypes) == 0, json.Unmarshal(request.DeviceTypes, &types) == nil:
		return types, nil
	case json.Unmarshal(request.DeviceTypes, &text) == nil:
		return []string{text}, nil
	}
	return nil, badRequest("The device_types must be a comma list or a list of texts.")
}

func (a *api) listMedia(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	media, err := a.engine.Media(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("read media of node %s: %w", ident, err)
	}
	masking := maskingFor(callOf(r).role)
	documents := make([]map[string]any, 0, len(media))
	for _, medium := range media {
		documents = append(documents, map[string]any{
			"media_types": []string{medium.DeviceType}, "inserted": medium.ImageURL != "", "image": string(masking.urls(nil, []byte(medium.ImageURL))),
		})
	}
	return answerValue(w, documents)
}
