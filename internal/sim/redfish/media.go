package redfish

import (
	"net/http"
	"path"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// routes returns the routes of one list of slots.
func (m mediaList) routes() []route {
	at := m.owner + "/VirtualMedia"
	members := make([]string, len(m.ids))
	for i, id := range m.ids {
		members[i] = at + "/" + id
	}
	all := []route{{"GET", at, list(at, "VirtualMediaCollection.VirtualMediaCollection", members...)}}
	for slot, member := range members {
		all = append(all,
			route{"GET", member, handler{answer: func(s *Service, _ *request) answer { return s.showMedium(member, slot) }}},
			route{"POST", member + "/Actions/VirtualMedia.InsertMedia", handler{answer: func(s *Service, q *request) answer { return s.insert(q, slot) }}},
			route{"POST", member + "/Actions/VirtualMedia.EjectMedia", handler{answer: func(s *Service, q *request) answer { return s.eject(q, slot) }}},
		)
	}
	return all
}

func (s *Service) showMedium(at string, slot int) answer {
	x, medium := s.shape, s.bmc.Media()[slot]
	document := x.document(at, "VirtualMedia.v1_4_0.VirtualMedia", object{
		"Id": path.Base(at), "Name": "Virtual Media", "MediaTypes": x.profile.Slots[slot].Types,
		"Inserted": false, "ConnectedVia": "NotConnected", "Image": nil, "ImageName": nil,
		"WriteProtected": nil, "UserName": nil, "TransferProtocolType": nil,
		"Actions": object{
			"#VirtualMedia.InsertMedia": object{"target": x.id(at + "/Actions/VirtualMedia.InsertMedia")},
			"#VirtualMedia.EjectMedia":  object{"target": x.id(at + "/Actions/VirtualMedia.EjectMedia")},
		},
	})
	if medium.Image != "" {
		document["Inserted"], document["ConnectedVia"] = true, "URI"
		document["Image"], document["ImageName"] = medium.Image, path.Base(medium.Image)
		document["WriteProtected"] = medium.WriteProtected
	}
	for name, value := range map[string]string{"UserName": medium.User, "TransferProtocolType": medium.Protocol} {
		if value != "" {
			document[name] = value
		}
	}
	return resource(document)
}

// insertParameters are the parameters of InsertMedia.
var insertParameters = map[string]bool{
	"Image": true, "Inserted": true, "WriteProtected": true, "UserName": true, "Password": true,
	"TransferProtocolType": true, "TransferMethod": true,
}

// impliedParameters are the parameters of InsertMedia that some BMCs refuse.
var impliedParameters = map[string]bool{"Inserted": true, "WriteProtected": true}

func (s *Service) insert(q *request, slot int) answer {
	for name := range q.body {
		switch {
		case !insertParameters[name]:
			return s.problem(problem{http.StatusBadRequest, "ActionParameterNotSupported"}, name, "")
		case s.shape.plainMedia && impliedParameters[name]:
			return s.problem(problem{http.StatusBadRequest, "PropertyUnknown"}, name, "")
		}
	}
	image, isText := q.body.text("Image")
	if image == "" || !isText {
		return s.problem(problem{http.StatusBadRequest, "ActionParameterMissing"}, "Image", "")
	}
	protected, given := q.body["WriteProtected"].(bool)
	medium := bmc.Medium{Image: image, WriteProtected: protected || !given}
	medium.User, _ = q.body.text("UserName")
	medium.Protocol, _ = q.body.text("TransferProtocolType")
	if err := s.bmc.Insert(q.call, slot, medium); err != nil {
		return s.refused(err)
	}
	return s.shape.done()
}

func (s *Service) eject(q *request, slot int) answer {
	if err := s.bmc.Eject(q.call, slot); err != nil {
		return s.refused(err)
	}
	return s.shape.done()
}
