package redfish

import (
	"net/http"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

func (s *Service) showSecureBoot(*request) answer {
	x, state := s.shape, s.bmc.SecureBoot()
	path := x.systemPath() + "/SecureBoot"
	enabled, current, mode := state.Wanted, "Disabled", "UserMode"
	if x.profile.BIOSJobs { // the setting shows the change when the job has ended
		enabled = state.Current
	}
	if state.Current {
		current = "Enabled"
	}
	if !state.Keys {
		mode = "SetupMode"
	}
	return resource(x.document(path, "SecureBoot.v1_1_0.SecureBoot", object{
		"Id": "SecureBoot", "Name": "UEFI Secure Boot", "SecureBootEnable": enabled,
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
	job, err := s.bmc.SetSecureBoot(q.call, enable)
	switch {
	case err != nil:
		return s.refused(err)
	case !s.shape.profile.BIOSJobs:
		return s.shape.said("Success")
	case job == nil:
		job = &bmc.Task{} // the BMC lies
	}
	return s.accepted(job)
}

func (s *Service) resetKeys(q *request) answer {
	kind, _ := q.body.text("ResetKeysType")
	if err := s.bmc.ResetSecureBootKeys(q.call, kind); err != nil {
		return s.refused(err)
	}
	return s.shape.done()
}
