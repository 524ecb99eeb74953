package engine

import (
	"net/http"
	"net/http/pprof"
)

const profilePath = "/debug/pprof/"

// profileHandler serves the profiles of Go's runtime that tell nothing about machines or passwords.
// The command line is not served, because it may have a password.
func profileHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(profilePath+"profile", pprof.Profile)
	for _, name := range []string{"allocs", "goroutine", "heap"} {
		mux.Handle(profilePath+name, pprof.Handler(name))
	}
	return mux
}
