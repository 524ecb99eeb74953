package ironic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// This file is for callers that pass on people's requests and show the engine's answers. It handles
// JSON as it is on the wire, so that fields that this client does not know are kept.

// Request is one request. Only Op, Method and Path are required.
type Request struct {
	// Op says what is tried on which object, for errors: "delete port 4f2c".
	Op string
	// Method is the HTTP method.
	Method string
	// Path are the segments below /v1, not escaped: "nodes", "n1", "traits".
	Path []string
	// Own says that Path is below /ingot instead of /v1. Ingot's engine has there what the Bare
	// Metal API lacks.
	Own bool
	// Query are arguments of the URL.
	Query url.Values
	// Body becomes the JSON body; nil means none.
	Body any
}

// succeeded are the statuses of successful answers.
var succeeded = []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent}

// Do sends the request and returns the document in the answer, nil for an empty answer.
func (c *Client) Do(ctx context.Context, r Request) (json.RawMessage, error) {
	segments, err := pathSegments(r.Op, r.Path)
	if err != nil {
		return nil, err
	}
	query := r.Query
	var document json.RawMessage
	send := func(ctx context.Context, service *gophercloud.ServiceClient) error {
		address := service.ServiceURL(segments...)
		if r.Own {
			address = c.endpoint + "/ingot/" + strings.Join(segments, "/")
		}
		if len(query) > 0 {
			address += "?" + query.Encode()
		}
		document, err = exchange(ctx, service, r.Method, address, r.Body)
		return err
	}
	if r.Method == http.MethodGet && query.Has("fields") {
		err = c.withoutFlag(query, func(fewer url.Values) error {
			query = fewer
			return c.call(ctx, r.Op, send)
		})
		return document, err
	}
	return document, c.call(ctx, r.Op, send)
}

// exchange sends one request and reads the answer, which may be empty.
func exchange(ctx context.Context, service *gophercloud.ServiceClient, method, address string, body any) (json.RawMessage, error) {
	opts := &gophercloud.RequestOpts{OkCodes: succeeded, KeepResponseBody: true}
	if body != nil {
		opts.JSONBody = body
	}
	response, err := service.Request(ctx, method, address, opts)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil, nil
	}
	var document json.RawMessage
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	return document, nil
}

// Listing selects documents of a collection.
type Listing struct {
	// Op says what is tried, for errors. Empty means "list" and the collection.
	Op string
	// Collection is the path below /v1, not escaped: "nodes", "n1", "history". Its last segment is
	// also the member of the answer that has the documents.
	Collection []string
	// ID is the field that identifies a document; empty means uuid. It is always among the
	// requested fields, because paging needs it.
	ID string
	// Fields are the fields to fill; empty means the engine's default fields.
	Fields []string
	// Query are filters, order and the size of a page.
	Query url.Values
}

// chosen returns the query argument for the chosen fields, including the identifying one. It is
// empty if no fields are chosen.
func (l Listing) chosen() string { return strings.Join(withID(l.Fields, l.id()), ",") }

func (l Listing) id() string { return cmp.Or(l.ID, "uuid") }

// Documents lists the documents that l selects, each as the engine sent it. It pages and reports
// errors like [Client.Nodes].
func (c *Client) Documents(ctx context.Context, l Listing) iter.Seq2[json.RawMessage, error] {
	query := url.Values{}
	maps.Copy(query, l.Query)
	if fields := l.chosen(); fields != "" {
		query.Set("fields", fields)
	}
	op := cmp.Or(l.Op, "list "+strings.Join(l.Collection, " "))
	segments, err := pathSegments(op, l.Collection)
	if err != nil {
		return func(yield func(json.RawMessage, error) bool) { yield(nil, err) }
	}
	return list(ctx, c, op, segments, query, func(document json.RawMessage) string { return identify(document, l.id()) })
}

// Document reads the object ident of the collection. It uses only Collection, ID and Fields of l.
// Without Fields the document has all fields.
func (c *Client) Document(ctx context.Context, op string, l Listing, ident string) (json.RawMessage, error) {
	query := url.Values{}
	if fields := l.chosen(); fields != "" {
		query.Set("fields", fields)
	}
	return c.Read(ctx, Request{Op: op, Path: append(slices.Clone(l.Collection), ident), Query: query})
}

// Read is [Client.Do] with GET. An empty answer is an error.
func (c *Client) Read(ctx context.Context, r Request) (json.RawMessage, error) {
	r.Method = http.MethodGet
	document, err := c.Do(ctx, r)
	if err == nil && document == nil {
		return nil, &Error{Op: r.Op, Kind: ErrProtocol, Message: "the answer is empty"}
	}
	return document, err
}

// identify returns the string in the field of that name, empty if there is none.
func identify(document json.RawMessage, field string) string {
	var fields map[string]json.RawMessage
	var id string
	if json.Unmarshal(document, &fields) != nil || json.Unmarshal(fields[field], &id) != nil {
		return ""
	}
	return id
}

// withID adds the identifying field to chosen fields. Paging needs it. Also, the list of fields
// must not become empty when a field is removed that the engine lacks.
func withID(fields []string, id string) []string {
	if len(fields) == 0 || slices.Contains(fields, id) {
		return fields
	}
	return append([]string{id}, fields...)
}

// pathSegments escapes every segment of a path. See [pathSegment].
func pathSegments(op string, path []string) ([]string, error) {
	escaped := make([]string, len(path))
	for i, segment := range path {
		var err error
		if escaped[i], err = pathSegment(op, segment); err != nil {
			return nil, err
		}
	}
	return escaped, nil
}
