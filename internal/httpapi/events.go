package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// networkEvents are the events that a network service may post.
var networkEvents = []string{
	"network.bind_port", "network.unbind_port", "network.attach_port", "network.detach_port", "network.delete_port",
}

// eventKeys has every key of a network event; true marks the required ones.
var eventKeys = map[string]bool{
	"event": true, "port_id": true, "mac_address": true, "status": true,
	"device_id": false, "binding:host_id": false, "binding:vnic_type": false,
}

// postEvents accepts events of a network service and answers 204. No network interface
// of this engine waits for a network service, so events are checked and have no
// effect.
func (a *api) postEvents(w http.ResponseWriter, r *http.Request) error {
	var request struct {
		Events []map[string]json.RawMessage `json:"events"`
	}
	if err := decodeBody(w, r, maxBody, &request); err != nil {
		return err
	}
	if len(request.Events) == 0 {
		return badRequest("The request needs the key events with at least one event.")
	}
	for _, event := range request.Events {
		if err := checkEvent(event); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func checkEvent(event map[string]json.RawMessage) error {
	for key := range event {
		if _, known := eventKeys[key]; !known {
			return badRequest("Unknown key %q in an event.", node.CutText(key))
		}
	}
	for key, needed := range eventKeys {
		text, err := readText(event[key], maxText)
		switch {
		case err != nil:
			return invalidField(key, err)
		case needed && text == "":
			return badRequest("An event needs the key %q.", key)
		case key == "event" && !slices.Contains(networkEvents, text):
			return badRequest("Unknown event %q; the known events are %s.", text, node.Choices(networkEvents))
		}
		if _, ok := node.ParseMAC(text); key == "mac_address" && !ok {
			return badRequest("Invalid value for \"mac_address\": want a MAC address, got %q", text)
		}
	}
	return nil
}
