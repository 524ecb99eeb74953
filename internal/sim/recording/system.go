package recording

import (
	"net/http"
	"slices"
)

// system is a recorded system whose power and boot override can be changed.
type system struct {
	path    string
	body    object   // body of its document; changes when the system is changed
	resetAt string   // path of the reset action; empty if there is none
	resets  []string // reset types that the system lists; empty if it lists none
	chassis []object // documents of its chassis, which show its power, too
}

// newSystem reads which changes a recorded system allows.
func (s *Service) newSystem(path string) *system {
	found := &system{path: path, body: s.body(path)}
	actions, _ := found.body["Actions"].(object)
	if action, ok := actions["#ComputerSystem.Reset"].(object); ok {
		target, _ := action["target"].(string)
		found.resetAt = bare(target)
		found.resets = texts(action["ResetType@Redfish.AllowableValues"])
		if at, ok := action["@Redfish.ActionInfo"].(string); ok && len(found.resets) == 0 {
			found.resets = s.listedResets(at)
		}
	}
	if links, ok := found.body["Links"].(object); ok {
		for _, at := range linksOf(links["Chassis"]) {
			if _, shows := s.body(at)["PowerState"]; shows {
				found.chassis = append(found.chassis, s.body(at))
			}
		}
	}
	return found
}

// listedResets returns the reset types that a document about the action lists (DSP0268,
// ActionInfo).
func (s *Service) listedResets(at string) []string {
	parameters, _ := s.body(at)["Parameters"].([]any)
	for _, one := range parameters {
		if parameter, ok := one.(object); ok && parameter["Name"] == "ResetType" {
			return texts(parameter["AllowableValues"])
		}
	}
	return nil
}

// texts returns the texts in a list.
func texts(value any) []string {
	list, _ := value.([]any)
	var all []string
	for _, one := range list {
		if text, ok := one.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// after has the power states after resets; "" leaves the power as it is. reset handles the power
// button itself: it inverts the power.
var after = map[string]string{
	"On": "On", "ForceOn": "On", "ForceOff": "Off", "GracefulShutdown": "Off", "ForceRestart": "On", "GracefulRestart": "On", "PowerCycle": "On",
	"FullPowerCycle": "On", "Nmi": "", "PushPowerButton": "",
}

// reset changes the power, at once.
func (s *Service) reset(r *http.Request, one *system) document {
	body, ok := decode(r)
	kind, _ := body["ResetType"].(string)
	state, known := after[kind]
	if !ok || !known || len(one.resets) > 0 && !slices.Contains(one.resets, kind) {
		return refusal(http.StatusBadRequest, "ActionParameterValueNotInList", "The system does not have the reset type "+kind+".")
	}
	if kind == "PushPowerButton" {
		state = map[any]string{"On": "Off"}[one.body["PowerState"]]
		if state == "" {
			state = "On"
		}
	}
	if state != "" {
		one.body["PowerState"] = state
		for _, chassis := range one.chassis {
			chassis["PowerState"] = state
		}
	}
	return document{Status: http.StatusNoContent}
}

// overrideProperties are the properties of Boot that can be changed.
var overrideProperties = []string{"BootSourceOverrideTarget", "BootSourceOverrideEnabled", "BootSourceOverrideMode"}

// boots reports whether the system shows a boot override.
func (x *system) boots() bool {
	boot, _ := x.body["Boot"].(object)
	return slices.ContainsFunc(overrideProperties, func(name string) bool { _, ok := boot[name]; return ok })
}

// override changes the boot override. It refuses values that the system does not list.
func (s *Service) override(r *http.Request, one *system) document {
	body, ok := decode(r)
	wanted, isObject := body["Boot"].(object)
	if !ok || !isObject || len(body) != 1 {
		return refusal(http.StatusNotImplemented, "PropertyNotWritable", "Of a recorded system only Boot can be changed.")
	}
	boot, _ := one.body["Boot"].(object)
	for name, value := range wanted {
		text, isText := value.(string)
		allowed := texts(boot[name+"@Redfish.AllowableValues"])
		switch {
		case !slices.Contains(overrideProperties, name):
			return refusal(http.StatusNotImplemented, "PropertyNotWritable", "Of Boot only the override can be changed, not "+name+".")
		case !isText, len(allowed) > 0 && !slices.Contains(allowed, text):
			return refusal(http.StatusBadRequest, "PropertyValueNotInList", "The system does not list this value of "+name+".")
		}
	}
	changed := object{}
	for name, value := range boot {
		changed[name] = value
	}
	for name, value := range wanted {
		changed[name] = value
	}
	one.body["Boot"] = changed
	return document{Status: http.StatusNoContent}
}
