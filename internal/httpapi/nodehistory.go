package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// briefEvent is the number of characters of a text in lists without detail.
const briefEvent = 255

func (a *api) listHistory(w http.ResponseWriter, r *http.Request) error {
	detail, err := boolArg(callOf(r).query, "detail", false)
	if err != nil {
		return err
	}
	return a.writeHistory(w, r, "/history", detail)
}

// listHistoryDetail serves a path that python-ironicclient requests.
func (a *api) listHistoryDetail(w http.ResponseWriter, r *http.Request) error {
	return a.writeHistory(w, r, "/history/detail", true)
}

func (a *api) writeHistory(w http.ResponseWriter, r *http.Request, part string, detail bool) error {
	c := callOf(r)
	n, err := a.pathNode(r)
	if err != nil {
		return err
	}
	limit, _, err := pageOrder(c)
	if err != nil {
		return err
	}
	marker := strings.ToLower(c.query.Get("marker"))
	if marker != "" && !isUUID(marker) {
		return badRequest("Invalid value for argument marker: want a UUID, got %q", marker)
	}
	events, err := a.engine.History(r.Context(), n.UUID, node.Query{Marker: marker, Limit: limit})
	if err != nil {
		return fmt.Errorf("read history of node %s: %w", n.UUID, err)
	}
	documents := make([]map[string]any, 0, len(events))
	for _, e := range events {
		documents = append(documents, eventDocument(c, n.UUID, e, detail))
	}
	answer := map[string]any{"history": documents}
	list := page[node.Event]{
		path: "nodes/" + n.UUID + part, items: events, limit: limit,
		last: func(e *node.Event) string { return e.UUID },
	}
	if next := list.next(c); next != "" {
		answer["next"] = next
		answer["history_links"] = []map[string]string{{"href": next, "rel": "next"}}
	}
	return answerValue(w, answer)
}

func (a *api) showEvent(w http.ResponseWriter, r *http.Request) error {
	n, err := a.pathNode(r)
	if err != nil {
		return err
	}
	e, err := a.engine.Event(r.Context(), n.UUID, strings.ToLower(r.PathValue("uuid")))
	if err != nil {
		return fmt.Errorf("read history of node %s: %w", n.UUID, err)
	}
	return answerValue(w, eventDocument(callOf(r), n.UUID, e, true))
}

func eventDocument(c *call, nodeUUID string, e *node.Event, detail bool) map[string]any {
	document := map[string]any{
		"uuid": e.UUID, "created_at": timeValue(e.CreatedAt), "severity": e.Severity, "event": e.Message,
		"links": linksOf(c, "nodes/"+nodeUUID+"/history/"+e.UUID),
	}
	if !detail {
		if text := []rune(e.Message); len(text) > briefEvent {
			document["event"] = string(text[:briefEvent])
		}
		return document
	}
	document["event_type"] = e.Type
	for name, text := range map[string]string{"conductor": e.Conductor, "user": e.User} {
		document[name] = nil
		if text != "" {
			document[name] = text
		}
	}
	return document
}
