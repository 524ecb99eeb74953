package ironic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// This file has the requests that gophercloud 2.15 cannot make. They use its ServiceClient, which
// adds headers and credentials and checks the status.

// flagField is the node field and list filter that says whether auto-discovery enrolled a node.
// Ingot has it since microversion 1.84, upstream Ironic does not have it.
const flagField = "auto_discovered"

// versionAge is how long a negotiated version is used. An engine that was upgraded can do more
// afterwards, so the version is then negotiated again. An answer that names another version is no
// reason to negotiate earlier: while replicas of two versions answer in turns, their answers name
// both.
const versionAge = 5 * time.Minute

// Microversion returns the API version that this client uses with the engine, such as "1.84". The
// first call that needs it, and the first after versionAge, reads the engine's root document. A
// failure is not cached.
func (c *Client) Microversion(ctx context.Context) (string, error) {
	service, err := c.negotiated(ctx, "negotiate the API version")
	if err != nil {
		return "", err
	}
	return service.Microversion, nil
}

// negotiated returns the service client that sends the version header. An error names op, which is
// what the caller wants from the engine.
func (c *Client) negotiated(ctx context.Context, op string) (*gophercloud.ServiceClient, error) {
	now := c.now()
	c.mu.Lock()
	service, age := c.service, now.Sub(c.negotiatedAt)
	c.mu.Unlock()
	if service != nil && (age < versionAge || c.wanted != "") {
		return service, nil
	}
	// The lock is not held during requests. So concurrent callers may ask twice, with the same
	// result.
	version := c.wanted
	if version == "" {
		var err error
		if version, err = c.askVersion(ctx, op); err != nil {
			return nil, err
		}
	}
	return c.keepVersion(version, now), nil
}

// keepVersion makes version the version that is used from now on.
func (c *Client) keepVersion(version string, now time.Time) *gophercloud.ServiceClient {
	own := *c.base
	own.Microversion = version
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.service == nil || c.service.Microversion != version {
		c.flagUnknown.Store(false)
	}
	c.service, c.negotiatedAt = &own, now
	return c.service
}

// lowered returns a service client for a lower version if refusal shows that the engine does not
// support the used one. That happens while an engine is upgraded or downgraded: replicas of two
// releases answer, and the older one refuses the version of the newer one and names its own.
// lowered returns nil if the refusal has another reason. The lower version is used for versionAge.
func (c *Client) lowered(used *gophercloud.ServiceClient, refusal error) *gophercloud.ServiceClient {
	var answer gophercloud.ErrUnexpectedResponseCode
	if c.wanted != "" || !errors.As(refusal, &answer) || answer.Actual != http.StatusNotAcceptable {
		return nil
	}
	offered := func(end string) string {
		return answer.ResponseHeader.Get("X-OpenStack-Ironic-API-" + end + "-Version")
	}
	version, err := chooseVersion(offered("Minimum"), offered("Maximum"))
	if err != nil {
		c.forgetVersion()
		return nil
	}
	if refused, err := parseVersion(used.Microversion); err != nil || version >= refused {
		return nil
	}
	return c.keepVersion(version.String(), c.now())
}

// forgetVersion makes the next call negotiate again. That call then says why no version can be
// used.
func (c *Client) forgetVersion() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.service = nil
}

// versionRange is the range of API versions in a root document.
type versionRange struct {
	Lowest  string `json:"min_version"`
	Highest string `json:"version"`
}

func (c *Client) askVersion(ctx context.Context, op string) (string, error) {
	// /v1 states the range in version, / in default_version. Some proxies serve / in place of /v1.
	var root struct {
		Version versionRange `json:"version"`
		Default versionRange `json:"default_version"`
	}
	call, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if _, err := c.base.Get(call, c.base.ServiceURL(""), &root, nil); err != nil {
		err = c.wrap(ctx, op, err)
		var failed *Error
		if errors.As(err, &failed) && (failed.Status == http.StatusNotFound || errors.Is(err, ErrRejected)) {
			return "", c.notTheAPI(op, err)
		}
		return "", err
	}
	offered := root.Version
	if offered.Highest == "" {
		offered = root.Default
	}
	if offered.Highest == "" {
		return "", c.notTheAPI(op, nil)
	}
	chosen, err := chooseVersion(offered.Lowest, offered.Highest)
	if err != nil {
		return "", &Error{Op: op, Kind: ErrProtocol, Message: err.Error()}
	}
	return chosen.String(), nil
}

// notTheAPI returns the error for an endpoint that is another server. It contains the message of
// the answer, if there is one.
func (c *Client) notTheAPI(op string, err error) error {
	message := c.endpoint + " is not the Bare Metal API; check the endpoint"
	var answer *Error
	if errors.As(err, &answer) && errors.Is(err, ErrRejected) {
		message += "; its answer: " + answer.Message
	}
	return &Error{Op: op, Kind: ErrProtocol, Message: message}
}

// once runs one request against the engine within the client's timeout and with the negotiated
// version. It turns an error into an [*Error]. A request that is refused for its version had no
// effect, so it is repeated with a version that the engine offers.
func (c *Client) once(ctx context.Context, op string, request func(context.Context, *gophercloud.ServiceClient) error) error {
	service, err := c.negotiated(ctx, op)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err = request(bounded, service)
	if older := c.lowered(service, err); older != nil {
		err = request(bounded, older)
	}
	return c.wrap(ctx, op, err)
}

// get decodes the JSON document at the path of these parts into target.
func (c *Client) get(ctx context.Context, op string, target any, query url.Values, parts ...string) error {
	return c.call(ctx, op, func(ctx context.Context, service *gophercloud.ServiceClient) error {
		address := service.ServiceURL(parts...)
		if len(query) > 0 {
			address += "?" + query.Encode()
		}
		_, err := service.Get(ctx, address, target, nil)
		return err
	})
}

// page is one page of a collection. Engines link to the next page as `next`, as
// `<collection>_links`, or as both.
type page[T any] struct {
	items []T
	more  bool
}

// list walks the collection at the path page by page, beginning with query. It requests a page when
// the page before is used up. It pages by the last identifier instead of following the engine's
// URL, because that names a host that a client behind a proxy may not reach.
func list[T any](ctx context.Context, c *Client, op string, collection []string, query url.Values, identify func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		query := maps.Clone(query)
		for {
			current, err := fetchPage[T](ctx, c, op, collection, query)
			if err != nil {
				yield(none, err)
				return
			}
			for _, item := range current.items {
				if !yield(item, nil) {
					return
				}
			}
			if !current.more || len(current.items) == 0 {
				return
			}
			last := identify(current.items[len(current.items)-1])
			if last == "" || last == query.Get("marker") {
				yield(none, &Error{
					Op: op, Kind: ErrProtocol,
					Message: "the engine's pages do not advance",
				})
				return
			}
			query.Set("marker", last)
		}
	}
}

func fetchPage[T any](ctx context.Context, c *Client, op string, collection []string, query url.Values) (page[T], error) {
	var body map[string]json.RawMessage
	member := collection[len(collection)-1]
	if err := c.getFields(ctx, op, &body, query, collection...); err != nil {
		marker := query.Get("marker")
		if marker != "" && errors.Is(err, ErrNotFound) {
			// The object at which the last page ended is gone.
			return page[T]{}, &Error{
				Op: op, Kind: ErrConflict, Status: http.StatusNotFound,
				Message: marker + ", where the last page ended, was deleted meanwhile; list again",
			}
		}
		return page[T]{}, err
	}
	current := page[T]{more: announcesNext(body, member)}
	raw, ok := body[member]
	if !ok {
		return current, &Error{Op: op, Kind: ErrProtocol, Message: fmt.Sprintf("the answer has no %q", member)}
	}
	if err := json.Unmarshal(raw, &current.items); err != nil {
		return current, &Error{Op: op, Kind: ErrProtocol, Message: cleanText(err.Error()), Cause: err}
	}
	return current, nil
}

func announcesNext(body map[string]json.RawMessage, collection string) bool {
	var next string
	if json.Unmarshal(body["next"], &next) == nil && next != "" {
		return true
	}
	var links []gophercloud.Link
	if json.Unmarshal(body[collection+"_links"], &links) != nil {
		return false
	}
	return slices.ContainsFunc(links, func(l gophercloud.Link) bool { return l.Rel == "next" && l.Href != "" })
}

// getFields is get for requests that may choose fields.
func (c *Client) getFields(ctx context.Context, op string, target any, query url.Values, parts ...string) error {
	return c.withoutFlag(query, func(query url.Values) error {
		return c.get(ctx, op, target, query, parts...)
	})
}

// withoutFlag runs a request whose query may choose fields. An engine without the field
// auto_discovered refuses the whole request, or fails at it, as Ironic does in lists. The request
// is then repeated without that field, and later requests omit it. withoutFlag changes the query.
func (c *Client) withoutFlag(query url.Values, request func(url.Values) error) error {
	if c.flagUnknown.Load() {
		dropFlag(query)
	}
	err := request(query)
	var refused *Error
	blamed := errors.Is(err, ErrRejected) || errors.Is(err, ErrServer)
	if errors.As(err, &refused) && blamed && strings.Contains(refused.Message, flagField) && dropFlag(query) {
		c.flagUnknown.Store(true)
		return request(query)
	}
	return err
}

// dropFlag removes auto_discovered from the fields that query chooses. It reports whether it was
// there.
func dropFlag(query url.Values) bool {
	fields := strings.Split(query.Get("fields"), ",")
	at := slices.Index(fields, flagField)
	if at < 0 {
		return false
	}
	query.Set("fields", strings.Join(slices.Delete(fields, at, at+1), ","))
	return true
}
