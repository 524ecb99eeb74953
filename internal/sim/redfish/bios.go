package redfish

import (
	"net/http"
	"slices"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

func (s *Service) showBIOS(*request) answer {
	x := s.shape
	settings := object{"@odata.type": "#Settings.v1_3_0.Settings", "SettingsObject": x.link(x.biosPath() + "/" + x.settings)}
	if len(x.applyTimes) > 0 {
		settings["SupportedApplyTimes"] = x.applyTimes
	}
	return resource(x.document(x.biosPath(), "Bios.v1_1_0.Bios", object{
		"Id": x.bios, "Name": "BIOS Configuration Current Settings",
		"AttributeRegistry": x.attributeRegistry, "Attributes": s.bmc.BIOS(), "@Redfish.Settings": settings,
		"Actions": object{"#Bios.ResetBios": object{"target": x.id(x.biosPath() + "/Actions/Bios.ResetBios")}},
	}))
}

func (s *Service) showPendingBIOS(*request) answer {
	x := s.shape
	return resource(x.document(x.biosPath()+"/"+x.settings, "Bios.v1_1_0.Bios", object{
		"Id": x.settings, "Name": "BIOS Configuration Pending Settings",
		"AttributeRegistry": x.attributeRegistry, "Attributes": s.bmc.PendingBIOS(),
	}))
}

// changeBIOS asks for attributes to be changed at the next boot.
func (s *Service) changeBIOS(q *request) answer {
	attributes := q.body.object("Attributes")
	if len(attributes) == 0 {
		return s.problem(problem{http.StatusBadRequest, "PropertyMissing"}, "Attributes", "")
	}
	when := ""
	if apply := q.body.object("@Redfish.SettingsApplyTime"); apply != nil {
		when, _ = apply.text("ApplyTime")
		if !slices.Contains(s.shape.applyTimes, when) {
			return s.problem(problem{http.StatusBadRequest, "PropertyValueNotInList"}, "ApplyTime", when)
		}
	}
	job, err := s.bmc.SetBIOS(q.call, attributes, when != "")
	if err != nil {
		return s.refused(err)
	}
	if when == "" {
		job = nil
	} else if job == nil {
		job = &bmc.Task{} // the BMC lies
	}
	return s.shape.configured(s, job)
}

func (s *Service) resetBIOS(q *request) answer {
	if err := s.bmc.ResetBIOS(q.call); err != nil {
		return s.refused(err)
	}
	return s.shape.configured(s, nil)
}

// registryFile says where the registry of BIOS attributes is.
func (s *Service) registryFile(*request) answer {
	x := s.shape
	return resource(x.document("/Registries/"+x.attributeRegistry, "MessageRegistryFile.v1_1_0.MessageRegistryFile", object{
		"Id": x.attributeRegistry, "Name": "BIOS Attribute Registry", "Registry": x.attributeRegistry,
		"Languages": []string{"en"}, "Languages@odata.count": 1,
		"Location": []object{{"Language": "en", "Uri": root + x.registryFile}}, "Location@odata.count": 1,
	}))
}

// registry shows the registry of BIOS attributes.
func (s *Service) registry(*request) answer {
	x := s.shape
	attributes := make([]object, len(x.profile.Attributes))
	for i, a := range x.profile.Attributes {
		entry := object{
			"AttributeName": a.Name, "DisplayName": a.Label, "Type": a.Type, "ReadOnly": a.ReadOnly,
			"DefaultValue": a.Default, "CurrentValue": nil, "DisplayOrder": i, "ResetRequired": true, "Hidden": false,
		}
		switch a.Type {
		case bmc.Enumeration:
			values := make([]object, len(a.Values))
			for j, value := range a.Values {
				values[j] = object{"ValueName": value, "ValueDisplayName": value}
			}
			entry["Value"] = values
		case bmc.Integer:
			entry["LowerBound"], entry["UpperBound"] = a.Min, a.Max
		case bmc.Text:
			entry["MinLength"], entry["MaxLength"] = a.Min, a.Max
		}
		attributes[i] = entry
	}
	document := x.document(x.registryFile, "AttributeRegistry.v1_3_0.AttributeRegistry", object{
		"Id": x.attributeRegistry, "Name": "BIOS Attribute Registry", "Language": "en", "OwningEntity": x.vendor,
		"RegistryVersion": "1.0.0", "RegistryEntries": object{"Attributes": attributes},
	})
	out := resource(document)
	out.gzip = x.zipped
	return out
}
