package redfish

import (
	"errors"
	"net/http"
	"strings"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// problem is the status of an error answer, with the message that explains it.
type problem struct {
	status  int
	message string // a key of messages or of the shape's own messages
}

// message is one entry of a message registry. In its text, %p stands for the property that is wrong
// and %v for its value. They are the arguments of the message, in the order in which the text has
// them.
type message struct {
	text, severity, resolution string
}

// messages are the messages of DMTF's Base registry that are used here.
var messages = map[string]message{
	"Success":                       {"The request was successful.", "OK", "None"},
	"GeneralError":                  {"An error has occurred. See ExtendedInfo for details.", "Critical", "See ExtendedInfo."},
	"InternalError":                 {"The service failed to process the request.", "Critical", "Send the request again, or reset the service."},
	"ServiceTemporarilyUnavailable": {"The service is not available now. Try again in %p seconds.", "Critical", "Wait and try again."},
	"ResourceInUse":                 {"The resource is in use or is changing, so it was not changed.", "Warning", "Try again later."},
	"ResourceInStandby":             {"The resource is in standby, so the request was not performed.", "Critical", "Power the resource on first."},
	"ResourceMissingAtURI":          {"There is no resource at %p.", "Critical", "Use a URI that exists."},
	"OperationNotAllowed":           {"The method is not allowed on this resource.", "Critical", "Use a method that is."},
	"MalformedJSON":                 {"The body of the request is no valid JSON.", "Critical", "Correct the body."},
	"ActionParameterMissing":        {"The action needs the parameter %p.", "Critical", "Add the parameter."},
	"ActionParameterNotSupported":   {"The action has no parameter %p.", "Warning", "Remove the parameter."},
	"ActionParameterValueNotInList": {"The value %v of the parameter %p is not one of its values.", "Warning", "Choose one of the allowed values."},
	"ActionParameterValueFormatError": {
		"The value %v of the parameter %p has the wrong format.", "Warning", "Correct the value.",
	},
	"PropertyMissing":        {"The property %p is required.", "Warning", "Add the property."},
	"PropertyUnknown":        {"There is no property %p.", "Warning", "Remove the property."},
	"PropertyNotWritable":    {"The property %p is read-only.", "Warning", "Remove the property."},
	"PropertyValueNotInList": {"The value %v of the property %p is not one of its values.", "Warning", "Choose one of the allowed values."},
	"PropertyValueTypeError": {"The value %v of the property %p has the wrong type.", "Warning", "Correct the value."},
	"NoValidSession":         {"There is no valid session for this request.", "Critical", "Create a session."},
	"SessionLimitExceeded":   {"The service has as many sessions as it can.", "Critical", "Delete sessions that are not needed."},
	"CreateLimitReachedForResource": {
		"No more of these resources can be created.", "Critical", "Delete some of them.",
	},
	"PreconditionFailed":   {"The ETag of the request is not that of the resource.", "Critical", "Read the resource again."},
	"PreconditionRequired": {"The request needs an ETag in the header If-Match.", "Critical", "Add the header."},
}

// render returns a message as the vendor writes it.
func (s *shape) render(id, property, value string) object {
	m, own := s.messages[id]
	registry := s.registry
	if !own {
		m, registry = messages[id], s.base
	}
	text, args := m.text, []string{}
	for i := range len(m.text) - 1 {
		switch m.text[i : i+2] {
		case "%p":
			args, text = append(args, property), strings.Replace(text, "%p", property, 1)
		case "%v":
			args, text = append(args, value), strings.Replace(text, "%v", value, 1)
		}
	}
	out := object{"MessageId": registry + "." + id}
	if s.terse {
		if len(args) > 0 {
			out["MessageArgs"] = args
		}
		return out
	}
	out["Message"], out["MessageArgs"], out["Resolution"] = text, args, m.resolution
	out[s.severity] = m.severity
	if s.counts {
		out["MessageArgs@odata.count"], out["RelatedProperties@odata.count"] = len(args), 0
		out["RelatedProperties"] = []string{}
	}
	return out
}

// extended returns a body with a message, in the format of errors. Vendors use it for success, too.
func (s *shape) extended(message object) object {
	return object{"error": object{
		"code": s.errorCode, "message": s.errorText, "@Message.ExtendedInfo": []object{message},
	}}
}

// problem returns an error answer.
func (s *Service) problem(p problem, property, value string) answer {
	return answer{status: p.status, body: s.shape.extended(s.shape.render(p.message, property, value))}
}

// refused returns the answer to an error of the model.
func (s *Service) refused(err error) answer {
	var refusal *bmc.RefusedError
	if !errors.As(err, &refusal) {
		return s.problem(problem{http.StatusInternalServerError, "InternalError"}, "", "")
	}
	p, ok := s.shape.problems[refusal.Reason]
	if !ok {
		p = problems[refusal.Reason]
	}
	value := refusal.Value
	if state, found := powers[refusal.Reason]; found {
		value = state
	}
	return s.problem(p, refusal.Property, value)
}

// powers has the arguments of messages about the power state.
var powers = map[bmc.Reason]string{bmc.AlreadyOn: "Power is on", bmc.AlreadyOff: "Power is off"}

// problems has the answers to refusals. Tables of vendors override it.
var problems = map[bmc.Reason]problem{
	bmc.AlreadyOn:          {http.StatusConflict, "ResourceInUse"},
	bmc.AlreadyOff:         {http.StatusServiceUnavailable, "ResourceInStandby"},
	bmc.UnknownReset:       {http.StatusBadRequest, "ActionParameterValueNotInList"},
	bmc.UnknownTarget:      {http.StatusBadRequest, "PropertyValueNotInList"},
	bmc.UnknownEnabled:     {http.StatusBadRequest, "PropertyValueNotInList"},
	bmc.UnknownMode:        {http.StatusBadRequest, "PropertyValueNotInList"},
	bmc.FixedMode:          {http.StatusBadRequest, "PropertyNotWritable"},
	bmc.NotContinuous:      {http.StatusBadRequest, "PropertyValueNotInList"},
	bmc.DuringPOST:         {http.StatusServiceUnavailable, "ServiceTemporarilyUnavailable"},
	bmc.UnknownAttribute:   {http.StatusBadRequest, "PropertyUnknown"},
	bmc.ReadOnlyAttribute:  {http.StatusBadRequest, "PropertyNotWritable"},
	bmc.BadAttribute:       {http.StatusBadRequest, "PropertyValueNotInList"},
	bmc.PendingBIOSJob:     {http.StatusBadRequest, "ResourceInUse"},
	bmc.NothingPending:     {http.StatusBadRequest, "ResourceInUse"},
	bmc.SlotOccupied:       {http.StatusBadRequest, "ResourceInUse"},
	bmc.SlotEmpty:          {http.StatusBadRequest, "ResourceInStandby"},
	bmc.BadImage:           {http.StatusBadRequest, "ActionParameterValueFormatError"},
	bmc.UnknownKeysReset:   {http.StatusBadRequest, "ActionParameterValueNotInList"},
	bmc.UnknownComponent:   {http.StatusBadRequest, "ActionParameterValueNotInList"},
	bmc.UnknownTransferURI: {http.StatusBadRequest, "ActionParameterValueFormatError"},
	bmc.UnknownApplyTime:   {http.StatusBadRequest, "PropertyValueNotInList"},
	bmc.UnknownRAIDType:    {http.StatusBadRequest, "PropertyValueNotInList"},
	bmc.BadDrives:          {http.StatusBadRequest, "PropertyValueNotInList"},
	bmc.DriveInUse:         {http.StatusBadRequest, "ResourceInUse"},
	bmc.BadCapacity:        {http.StatusBadRequest, "PropertyValueNotInList"},
	bmc.BadDestination:     {http.StatusBadRequest, "PropertyValueNotInList"},
	bmc.PendingVolumeJob:   {http.StatusBadRequest, "ResourceInUse"},
	bmc.VolumeBusy:         {http.StatusBadRequest, "ResourceInUse"},
}
