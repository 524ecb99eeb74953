package redfish

import (
	"net/http"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

func (s *Service) showSecureBoot(*request) answer {
	x, state := s.shape, s.bmc.SecureBoot()
	path := x.systemPath() + "/SecureBoot"
	current, mode := "Disabled", "UserMode"
	if state.Current {
		current = "Enabled"
	}
	if !state.Keys {
		mode = "SetupMode"
	}
	return resource(x.document(path, "SecureBoot.v1_1_0.SecureBoot", object{
		"Id": "SecureBoot", "Name": "UEFI Secure Boot", "SecureBootEnable": state.Wanted,
		"SecureBootCurrentBoot": current, "SecureBootMode": mode,
		"Actions": object{"#SecureBoot.ResetKeys": object{
			"target":                                x.id(path + "/Actions/SecureBoot.ResetKeys"),
			"ResetKeysType@Redfish.AllowableValues": bmc.KeysResets,
		}},
	}))
}

func (s *Service) changeSecureBoot(q *request) answer {
	enable, isBool := q.body["SecureBootEnable"].(bool)
	switch {
	case q.body["SecureBootEnable"] == nil:
		return s.problem(problem{http.StatusBadRequest, "PropertyMissing"}, "SecureBootEnable", "")
	case !isBool:
		return s.problem(problem{http.StatusBadRequest, "PropertyValueTypeError"}, "SecureBootEnable", "")
	}
	if err := s.bmc.SetSecureBoot(q.call, enable); err != nil {
		return s.refused(err)
	}
	return s.shape.said("Success")
}

func (s *Service) resetKeys(q *request) answer {
	kind, _ := q.body.text("ResetKeysType")
	if err := s.bmc.ResetSecureBootKeys(q.call, kind); err != nil {
		return s.refused(err)
	}
	return s.shape.done()
}
