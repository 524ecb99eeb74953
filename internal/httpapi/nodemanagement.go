package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/ingot-metal/ingot/internal/node"
)

// validatedInterfaces are the interfaces in the answer to GET validate.
var validatedInterfaces = []node.InterfaceKind{
	node.BIOSInterface, node.BootInterface, node.ConsoleInterface, node.DeployInterface, node.FirmwareInterface,
	node.InspectInterface, node.ManagementInterface, node.NetworkInterface, node.PowerInterface, node.RAIDInterface,
	node.RescueInterface, node.StorageInterface,
}

// validationDocument is the result of one interface. Result is null when the node
// does not have the interface.
type validationDocument struct {
	Result *bool  `json:"result"`
	Reason string `json:"reason,omitempty"`
}

func (a *api) validateNode(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	all, err := a.engine.Validate(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("validate node %s: %w", ident, err)
	}
	documents := make(map[string]validationDocument, len(validatedInterfaces))
	for _, kind := range validatedInterfaces {
		documents[kind.String()] = validationDocument(all[kind])
	}
	return answerValue(w, documents)
}

func (a *api) showBootDevice(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	device, err := a.engine.BootDevice(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("read boot device of node %s: %w", ident, err)
	}
	shown := map[string]any{"boot_device": nil, "persistent": device.Persistent}
	if device.Device != "" {
		shown["boot_device"] = device.Device
	}
	return answerValue(w, shown)
}

func (a *api) showBootDevices(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	devices, err := a.engine.BootDevices(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("list boot devices of node %s: %w", ident, err)
	}
	return answerValue(w, map[string]any{"supported_boot_devices": devices})
}

// bootDeviceRequest is the body of PUT management/boot_device.
type bootDeviceRequest struct {
	BootDevice string          `json:"boot_device"`
	Persistent json.RawMessage `json:"persistent"` // default false
}

func (a *api) setBootDevice(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	var request bootDeviceRequest
	if err := decodeBody(w, r, maxBody, &request); err != nil {
		return err
	}
	if request.BootDevice == "" {
		return badRequest("The request needs the key boot_device.")
	}
	persistent, err := readFlag(request.Persistent)
	if err != nil {
		return invalidField("persistent", err)
	}
	if persistent == nil {
		persistent = new(bool)
	}
	device := node.BootDevice{Device: request.BootDevice, Persistent: persistent}
	if err := a.engine.SetBootDevice(r.Context(), ident, device); err != nil {
		return fmt.Errorf("set boot device of node %s: %w", ident, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *api) injectNMI(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	if len(body) > 0 && string(body) != "{}" {
		return badRequest("The body of this request must be empty or {}.")
	}
	if err := a.engine.InjectNMI(r.Context(), ident); err != nil {
		return fmt.Errorf("interrupt node %s: %w", ident, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// noIndicators answers all requests for indicators, which no driver supports.
func (a *api) noIndicators(_ http.ResponseWriter, r *http.Request) error {
	n, err := a.pathNode(r)
	if err != nil {
		return err
	}
	return &node.NotSupportedError{
		Node: n.UUID, What: "indicators",
		Interface: node.ManagementInterface.Field(), Name: n.Interfaces[node.ManagementInterface],
	}
}

func (a *api) showConsole(w http.ResponseWriter, r *http.Request) error {
	n, err := a.pathNode(r)
	if err != nil {
		return err
	}
	var info any
	if n.ConsoleEnabled {
		if usable := a.drivers.Validate(n, node.ConsoleInterface); usable.Result == nil || !*usable.Result {
			return &node.ValidationError{Reason: usable.Reason}
		}
		info = map[string]string{"type": n.Interfaces[node.ConsoleInterface], "url": ""}
	}
	return answerValue(w, map[string]any{"console_enabled": n.ConsoleEnabled, "console_info": info})
}

// consoleRequest is the body of PUT states/console.
type consoleRequest struct {
	Enabled json.RawMessage `json:"enabled"`
}

func (a *api) setConsole(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	var request consoleRequest
	if err := decodeBody(w, r, maxBody, &request); err != nil {
		return err
	}
	on, err := readFlag(request.Enabled)
	switch {
	case err != nil:
		return invalidField("enabled", err)
	case on == nil:
		return badRequest("The request needs the key enabled.")
	}
	if err := a.engine.SetConsole(r.Context(), ident, *on); err != nil {
		return fmt.Errorf("set console of node %s: %w", ident, err)
	}
	acceptedAt(w, c, ident, "/states/console")
	return nil
}
