package redfish

import "fmt"

func (s *Service) versions(*request) answer {
	return answer{body: object{"v1": root + "/"}}
}

func (s *Service) serviceRoot(*request) answer {
	x := s.shape
	document := x.document("", "ServiceRoot.v1_6_0.ServiceRoot", object{
		"Id": "RootService", "Name": "Root Service", "RedfishVersion": x.version, "UUID": s.uuid(),
		"Product": x.product, "Vendor": x.vendor,
		"Systems": x.link("/Systems"), "Managers": x.link("/Managers"), "Chassis": x.link("/Chassis"),
		"SessionService": x.link("/SessionService"), "UpdateService": x.link("/UpdateService"),
		"EventService": x.link("/EventService"), "Tasks": x.link("/TaskService"), "Registries": x.link("/Registries"),
		"Links": object{"Sessions": x.link("/SessionService/Sessions")},
		"Oem":   object{x.oem: object{}},
	})
	document["@odata.id"] = root + "/"
	return resource(document)
}

// uuid returns the UUID of the system, which depends on the identity of the simulated machine only.
func (s *Service) uuid() string {
	b := s.bmc.UUID()
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// complete adds the vendor's own properties to a document of a type.
func (s *Service) complete(kind string, document object) object {
	if extend, found := s.shape.extend[kind]; found {
		extend(s, document)
	}
	return document
}
