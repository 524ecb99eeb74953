package redfish

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

const subscriptionsPath = "/EventService/Subscriptions"

func (s *Service) eventService(*request) answer {
	return resource(s.shape.document("/EventService", "EventService.v1_7_0.EventService", object{
		"Id": "EventService", "Name": "Event Service", "ServiceEnabled": true, "Status": ok(),
		"Subscriptions": s.shape.link(subscriptionsPath),
	}))
}

func subscriptionPath(number int64) string {
	return subscriptionsPath + "/" + strconv.FormatInt(number, 10)
}

func (s *Service) listSubscriptions(*request) answer {
	var all []string
	for _, one := range s.bmc.Subscriptions() {
		all = append(all, subscriptionPath(one.Number))
	}
	return resource(s.shape.collection(subscriptionsPath, "EventDestinationCollection.EventDestinationCollection", "Event Subscriptions", all))
}

// subscription finds the subscription that a request names.
func (s *Service) subscription(q *request) (bmc.Subscription, bool) {
	for _, one := range s.bmc.Subscriptions() {
		if strconv.FormatInt(one.Number, 10) == q.PathValue("id") {
			return one, true
		}
	}
	return bmc.Subscription{}, false
}

func (s *Service) showSubscription(q *request) answer {
	one, found := s.subscription(q)
	if !found {
		return s.missing(q.Request)
	}
	return resource(s.subscriptionDocument(one))
}

func (s *Service) subscriptionDocument(one bmc.Subscription) object {
	return s.shape.document(subscriptionPath(one.Number), "EventDestination.v1_6_0.EventDestination", object{
		"Id": strconv.FormatInt(one.Number, 10), "Name": "Event Subscription", "Destination": one.Destination,
		"Context": one.Context, "Protocol": one.Protocol, "EventTypes": one.EventTypes, "HttpHeaders": []string{},
	})
}

func (s *Service) createSubscription(q *request) answer {
	text, _ := json.Marshal(q.body) // cannot fail: it came from JSON
	var wanted bmc.Subscription
	if json.Unmarshal(text, &wanted) != nil {
		return s.problem(problem{http.StatusBadRequest, "PropertyValueTypeError"}, "Destination", "")
	}
	for name, value := range map[string]string{"Destination": wanted.Destination, "Protocol": wanted.Protocol} {
		if value == "" {
			return s.problem(problem{http.StatusBadRequest, "PropertyMissing"}, name, "")
		}
	}
	made, err := s.bmc.Subscribe(q.call, wanted)
	if err != nil {
		return s.refused(err)
	}
	if made == nil {
		made = &bmc.Subscription{} // the BMC lies
	}
	document := s.subscriptionDocument(*made)
	return answer{status: http.StatusCreated, location: document["@odata.id"].(string), body: document}
}

func (s *Service) deleteSubscription(q *request) answer {
	one, found := s.subscription(q)
	if !found {
		return s.missing(q.Request)
	}
	if err := s.bmc.Unsubscribe(q.call, one.Number); err != nil {
		return s.refused(err)
	}
	return s.shape.done()
}
