package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/role"
)

// route is one method on one path. The table of all routes is in routes.go.
type route struct {
	method  string
	pattern string
	// since is the microversion 1.N that introduced the route; 0 means 1.1. An older
	// request gets the status below; 0 means 404.
	since, below int
	// orUnversioned also accepts requests of the minimum version, which includes
	// requests without a version header.
	orUnversioned bool
	// role is the least role that may send the request. A public route needs neither a role nor a
	// user, and answers everybody as it answers nobody.
	role    role.Role
	public  bool
	args    []string // query arguments; other arguments are a 400
	handler apiHandler
}

// allows reports whether users with a role may send the request.
func (rt *route) allows(r role.Role) bool {
	return rt.public || rt.role != role.None && r >= rt.role
}

// visible reports whether the route exists for requests of this version.
func (rt *route) visible(version int) bool {
	return version >= rt.since || rt.orUnversioned && version == minVersion
}

// hidden returns the answer to a request that is too old for the route.
func (rt *route) hidden() error {
	switch rt.below {
	case http.StatusNotAcceptable:
		return notAcceptable(rt.method+" "+rt.pattern, rt.since)
	case http.StatusMethodNotAllowed:
		return methodNotAllowed(rt.method)
	}
	return pathNotFound()
}

// role returns the role of a request.
func (a *api) role(r *http.Request) role.Role {
	if a.options.Role == nil {
		return role.Admin
	}
	return a.options.Role(r.Context())
}

// needsRole returns the error for a request that needs another role.
func needsRole(what string, needed, has role.Role) error {
	return &node.ForbiddenError{Reason: fmt.Sprintf("%s needs the role %s; this user has the role %s, by the file of the setting api.role_file.", what, needed, has)}
}

func pathNotFound() error {
	return routerError(http.StatusNotFound, "The requested path could not be found.")
}

func methodNotAllowed(method string) error {
	return routerError(http.StatusMethodNotAllowed, "The method %s is not allowed for this path.", method)
}

// resource is one path with the routes of its methods.
type resource struct {
	api     *api
	methods map[string]*route
	public  bool   // for all methods
	allow   string // the Allow header of a 405
}

func (res *resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := res.serve(w, r); err != nil {
		res.api.writeError(w, r, callOf(r), err)
	}
}

// hiddenFrom reports whether the path is a part of an item, such as /v1/nodes/x/vmedia, that does
// not exist in this version. Every method then gets a 404, as in Ironic.
func (res *resource) hiddenFrom(version int) bool {
	for _, rt := range res.methods {
		if rt.visible(version) || rt.below != 0 || !strings.Contains(rt.pattern, "/{ident}/") {
			return false
		}
	}
	return true
}

func (res *resource) serve(w http.ResponseWriter, r *http.Request) error {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	c := callOf(r)
	rt := res.methods[method]
	switch {
	case rt == nil && res.hiddenFrom(c.version):
		return pathNotFound()
	case rt == nil:
		w.Header().Set("Allow", res.allow)
		return methodNotAllowed(r.Method)
	}
	if !rt.visible(c.version) {
		return rt.hidden()
	}
	if !rt.public {
		c.role = res.api.role(r)
	}
	if !rt.allows(c.role) {
		return needsRole(rt.method+" "+rt.pattern, rt.role, c.role)
	}
	if err := c.parseQuery(r.URL.RawQuery, rt.args); err != nil {
		return err
	}
	return rt.handler(w, r)
}

// listArgs are the query arguments that may be given more than once.
var listArgs = []string{"addresses", "conductor_groups", "fields", "shard"}

// parseQuery reads the query arguments. It refuses arguments that are not in allowed,
// and repeated arguments that take one value.
func (c *call) parseQuery(raw string, allowed []string) error {
	if raw == "" {
		return nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return badRequest("Malformed query: %v", err)
	}
	var unexpected, repeated []string
	for key := range values {
		switch {
		case !slices.Contains(allowed, key):
			unexpected = append(unexpected, key)
		case len(values[key]) > 1 && !slices.Contains(listArgs, key):
			repeated = append(repeated, key)
		}
	}
	slices.Sort(unexpected)
	slices.Sort(repeated)
	switch {
	case len(unexpected) > 0:
		return badRequest("Unexpected arguments: %s", strings.Join(unexpected, ", "))
	case len(repeated) > 0:
		return badRequest("Arguments given more than once: %s", strings.Join(repeated, ", "))
	}
	c.query = values
	return nil
}

// newRouter builds the mux from a route table. The patterns of the mux have no method, so that an
// unknown method gets the 405 of this API and not that of net/http.
func newRouter(a *api, routes []route) http.Handler {
	resources := map[string]*resource{}
	for i := range routes {
		rt := &routes[i]
		res := resources[rt.pattern]
		if res == nil {
			res = &resource{api: a, methods: map[string]*route{}, public: true}
			resources[rt.pattern] = res
		}
		res.methods[rt.method] = rt
		res.public = res.public && rt.public
	}
	wrap := a.options.Middleware
	if wrap == nil {
		wrap = func(h http.Handler, _ bool) http.Handler { return h }
	}
	mux := http.NewServeMux()
	for pattern, res := range resources {
		res.allow = strings.Join(slices.Sorted(maps.Keys(res.methods)), ", ")
		if pattern == "/" {
			pattern = "/{$}"
		}
		mux.Handle(pattern, wrap(res, res.public))
	}
	mux.Handle("/", wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.writeError(w, r, callOf(r), pathNotFound())
	}), false))
	return mux
}
