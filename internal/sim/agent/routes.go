package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// bodyLimit is the largest body of a command, in bytes. Config drives are in the bodies of
// commands.
const bodyLimit = 64 << 20

// routes is shared by all agents, to save memory. The agent of a request is in the request's
// context.
var routes = newRoutes()

func newRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	route := func(path string, methods map[string]apiHandler) {
		for method, h := range methods {
			mux.Handle(method+" "+path, h)
		}
		mux.Handle(path, apiHandler(wrongMethod))
	}
	get := func(h apiHandler) map[string]apiHandler { return map[string]apiHandler{http.MethodGet: h} }
	commands := map[string]apiHandler{http.MethodGet: (*Agent).listCommands, http.MethodPost: (*Agent).runCommand}

	// withSlash adds a route whose path ends with a slash. The path without the slash redirects to
	// it.
	withSlash := func(path string, methods map[string]apiHandler) {
		route(path+"/{$}", methods)
		for method := range methods {
			mux.HandleFunc(method+" "+path, addSlash)
		}
		mux.Handle(path, apiHandler(wrongMethod))
	}

	mux.Handle("/", apiHandler(notFound))
	route("/{$}", get((*Agent).root))
	withSlash("/v1", get((*Agent).version1))
	for _, prefix := range []string{"/v1", ""} { // a path without version means v1
		route(prefix+"/status", get((*Agent).status))
		withSlash(prefix+"/commands", commands)
		route(prefix+"/commands/{id}", get((*Agent).showCommand))
	}
	return mux
}

// addSlash redirects with an absolute URL, as the routes of the real agent do.
func addSlash(w http.ResponseWriter, r *http.Request) {
	target := rootURL(r) + r.URL.Path + "/"
	if r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	http.Redirect(w, r, target, http.StatusPermanentRedirect) //nolint:gosec // to the host that was asked, as the real agent does
}

// Handler returns the command API. [Agent.Run] serves it; only tests use it without Run.
func (a *Agent) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		routes.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), agentKey{}, a)))
	})
}

// agentKey is the key of the agent in the context of a request.
type agentKey struct{}

// apiHandler is a handler that returns the document of the answer.
type apiHandler func(*Agent, *http.Request) (any, *fault)

// ServeHTTP answers with the handler's document or fault.
func (h apiHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, bodyLimit)
	document, f := h(r.Context().Value(agentKey{}).(*Agent), r)
	status := http.StatusOK
	if f != nil {
		status, document = f.status, f
	}
	body, err := json.Marshal(document)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"faultcode":"Server","faultstring":"unencodable answer"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone if this fails
}

func notFound(*Agent, *http.Request) (any, *fault) {
	return nil, httpFault(http.StatusNotFound, "The requested URL was not found on the server. "+
		"If you entered the URL manually please check your spelling and try again.")
}

func wrongMethod(*Agent, *http.Request) (any, *fault) {
	return nil, httpFault(http.StatusMethodNotAllowed, "The method is not allowed for the requested URL.")
}

func (a *Agent) listCommands(r *http.Request) (any, *fault) {
	if f := a.checkReadToken(r); f != nil {
		return nil, f
	}
	return struct {
		Commands []resultDocument `json:"commands"`
	}{a.commands.documents()}, nil
}

func (a *Agent) showCommand(r *http.Request) (any, *fault) {
	if f := a.checkReadToken(r); f != nil {
		return nil, f
	}
	id := r.PathValue("id")
	result := a.commands.find(id)
	if result == nil {
		return nil, notFoundFault("Command Result", id)
	}
	if wantsWait(r) {
		result.join(r.Context())
	}
	return a.commands.document(result), nil
}

func (a *Agent) runCommand(r *http.Request) (any, *fault) {
	body, err := io.ReadAll(r.Body)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, httpFault(http.StatusRequestEntityTooLarge, "The data value transmitted exceeds the capacity limit.")
	}
	if err != nil || !json.Valid(body) {
		return nil, httpFault(http.StatusBadRequest, "Failed to decode JSON object")
	}
	var command struct {
		Name   *string                    `json:"name"`
		Params map[string]json.RawMessage `json:"params"`
	}
	if json.Unmarshal(body, &command) != nil || command.Name == nil || command.Params == nil {
		return nil, httpFault(http.StatusBadRequest, "Missing or invalid name or params")
	}
	if !a.tokenMatches(r) {
		return nil, tokenFault()
	}
	result, first, f := a.execute(*command.Name, command.Params)
	if f != nil {
		return nil, f
	}
	if !wantsWait(r) {
		return first, nil
	}
	result.join(r.Context())
	return a.commands.document(result), nil
}

func wantsWait(r *http.Request) bool {
	return strings.EqualFold(r.URL.Query().Get("wait"), "true")
}

// tokenMatches reports whether a request has the agent's token. An agent without a
// token accepts requests without one.
func (a *Agent) tokenMatches(r *http.Request) bool {
	query := r.URL.Query()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !query.Has("agent_token") {
		return a.token == "" || !a.tokenRequired
	}
	return a.token != "" && query.Get("agent_token") == a.token
}

// checkReadToken checks the token of a request that reads commands, if this version of the agent
// does so. It begins to check with the first request that has a token, because older engines send
// none.
func (a *Agent) checkReadToken(r *http.Request) *fault {
	if !a.behaves.readsNeedToken {
		return nil
	}
	a.mu.Lock()
	if r.URL.Query().Get("agent_token") != "" {
		a.readsNeedIt = true
	}
	needed := a.readsNeedIt
	a.mu.Unlock()
	if needed && !a.tokenMatches(r) {
		return tokenFault()
	}
	return nil
}
